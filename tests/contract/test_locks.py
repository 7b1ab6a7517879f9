"""The locks hold what setup.py asks for, and what is installed here."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "locks").glob("*.txt"))


def pins(lock: Path) -> dict[str, str]:
    rows = re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(), flags=re.MULTILINE)
    return {canonicalize_name(name): version for name, version in rows}


def lock_of_this_line() -> Path:
    line = ".".join(importlib.metadata.version("tfx").split(".")[:2])
    (lock,) = [path for path in LOCKS if path.name.startswith(f"tfx-{line}-")]
    return lock


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_lock_meets_every_requirement_of_setup_py(lock: Path) -> None:
    pinned = pins(lock)
    for text in importlib.metadata.requires("tfx-wgan") or []:
        wanted = Requirement(text)
        version = pinned.get(canonicalize_name(wanted.name))
        assert version is not None, f"{lock.name} has no {wanted.name}; run make lock"
        assert wanted.specifier.contains(version), f"{lock.name}: {wanted.name}=={version}"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_lock_names_no_place_of_the_machine_that_made_it(lock: Path) -> None:
    assert not re.findall(r"https?://\S+|file:\S+| @ |/(?:home|root|tmp)/\S*", lock.read_text())


def test_lock_with_its_requirements_fits_together_as_installed() -> None:
    check = [sys.executable, "-m", "pip", "check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_lock_is_among_the_lines_that_bootstrap_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from interpreters import LINES

    assert [ROOT / line.lock for line in LINES] == LOCKS
    assert lock_of_this_line() in LOCKS
