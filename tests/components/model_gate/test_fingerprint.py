"""Fingerprints of folders, and what a push destination serves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from components.served_model.fingerprint import (
    NOTHING,
    ServedVersion,
    model_fingerprint,
    served_version,
    versions,
)


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_model_fingerprint_copy_elsewhere_is_the_same(tmp_path):
    first = write(tmp_path / "a", {"saved_model.pb": "x", "variables/index": "y"})
    shutil.copytree(first, tmp_path / "b" / "c")
    found = model_fingerprint(str(first))
    assert len(found) == 64
    assert model_fingerprint(str(tmp_path / "b" / "c")) == found


@pytest.mark.parametrize(
    "other",
    [
        {"saved_model.pb": "X", "variables/index": "y"},
        {"saved_model.pb": "x", "variables/index2": "y"},
        {"saved_model.pb": "x", "variables/index": "y", "extra": ""},
        {"saved_model.pb": "y", "variables/index": "x"},
        {"saved_model.pb": "x"},
    ],
)
def test_model_fingerprint_other_content_or_name_differs(tmp_path, other):
    first = write(tmp_path / "a", {"saved_model.pb": "x", "variables/index": "y"})
    second = write(tmp_path / "b", other)
    assert model_fingerprint(str(first)) != model_fingerprint(str(second))


def test_model_fingerprint_nothing_is_named(tmp_path):
    assert model_fingerprint(str(tmp_path)) == NOTHING
    assert model_fingerprint(str(tmp_path / "missing")) == NOTHING


def test_served_version_highest_complete_number_is_served(tmp_path):
    for name in ("9", "10", ".incoming-12", "notes", "٣"):
        write(tmp_path / name, {"saved_model.pb": name})
    write(tmp_path / "11", {"variables/index": "half copied"})
    assert served_version(str(tmp_path)) == ServedVersion(10, str(tmp_path / "10"))
    assert versions(str(tmp_path)) == [9, 10, 11]


def test_served_version_nothing_served_is_none(tmp_path):
    assert served_version(str(tmp_path)) is None
    assert served_version(str(tmp_path / "missing")) is None
