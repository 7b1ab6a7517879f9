"""What doctor finds, on this machine and on ones that lack something."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import doctor


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is not Google's, whatever this one is."""
    monkeypatch.setattr(doctor, "_on_google_cloud", lambda: False)


def test_doctor_report_imports_nothing_heavy() -> None:
    code = (
        "import json, sys; from pipeline import doctor; doctor.report()\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not {"tensorflow", "tfx", "kfp", "apache_beam", "numpy"} & set(json.loads(said.stdout))


def test_doctor_report_on_this_installation_names_line_and_versions() -> None:
    found = doctor.report({})
    assert found["versions"]["tfx"] == importlib.metadata.version("tfx")
    assert found["versions"]["tfx"].startswith(found["line"])
    assert found["machine"]["cpus"] >= 1
    assert 0 < found["machine"]["memory_gib"] < 100_000
    assert json.loads(json.dumps(found)) == found


def test_doctor_problems_of_an_installation_from_the_lock_are_none() -> None:
    assert doctor.problems() == []


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("no-such-distribution>=1", "no-such-distribution is not installed -> make venv"),
        ("click<1", f"click is {importlib.metadata.version('click')}, but <1 is needed -> make"),
        ("no-such-distribution>=1; extra == 'dev'", None),
        ("no-such-distribution>=1; python_version < '3'", None),
        ("click>=1", None),
    ],
)
def test_doctor_requirement_that_is_not_met_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, requirement: str, expected: str | None
) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: [requirement])
    found = doctor.problems()
    assert len(found) == (expected is not None)
    assert found == [] or found[0].startswith(str(expected))


@pytest.mark.usefixtures("elsewhere")
def test_doctor_vertex_without_credentials_says_how_to_get_them(tmp_path: Path) -> None:
    missing = doctor.report({"HOME": str(tmp_path)})["missing"]["vertex"]
    assert missing == [
        "Google Cloud credentials -> gcloud auth application-default login",
    ]


@pytest.mark.usefixtures("elsewhere")
def test_doctor_vertex_with_credentials_is_ready(tmp_path: Path) -> None:
    folder = tmp_path / ".config/gcloud"
    folder.mkdir(parents=True)
    (folder / "application_default_credentials.json").write_text("{}")
    assert doctor.report({"HOME": str(tmp_path)})["missing"]["vertex"] == []


def test_doctor_vertex_with_credentials_that_are_no_file_names_them(tmp_path: Path) -> None:
    absent = str(tmp_path / "key.json")
    (line,) = doctor.report({"GOOGLE_APPLICATION_CREDENTIALS": absent})["missing"]["vertex"]
    assert line.startswith(f"GOOGLE_APPLICATION_CREDENTIALS names no file: {absent} ->")


def test_doctor_tpu_with_name_and_library_is_ready(tmp_path: Path) -> None:
    library = tmp_path / "libtpu.so"
    library.touch()
    environ = {"TPU_NAME": "tpu-1", "TPU_LIBRARY_PATH": str(library)}
    found = doctor.report(environ)
    assert "tpu-1" in found["machine"]["tpus"]
    assert found["missing"]["tpu"] == []


def test_doctor_tpu_with_name_but_no_library_says_which_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "LIBTPU_FILES", ())
    monkeypatch.setattr(doctor, "_importable", lambda module: module != "libtpu")
    (line,) = doctor.report({"TPU_NAME": "tpu-1"})["missing"]["tpu"]
    assert line.startswith("libtpu -> choose the TPU VM image with TensorFlow 2.")


def test_doctor_gpu_without_cuda_libraries_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA L4 (UUID: GPU-1)'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(doctor, "_version", lambda name: None if "cudnn" in name else "2.16.2")
    found = doctor.report({})
    assert found["machine"]["gpus"] == ["GPU 0: NVIDIA L4"]
    assert found["missing"]["gpu"] == [
        'CUDA libraries -> pip install "tensorflow[and-cuda]==2.16.2"'
    ]


def test_doctor_lines_name_every_target_with_what_it_misses() -> None:
    found = doctor.report({})
    found["missing"] = {"local": [], "tpu": ["a TPU -> get one"]}
    found["versions"]["tfx"] = None
    table = "\n".join(doctor.lines(found))
    assert "local             ready\ntpu               missing:\n  a TPU -> get one" in table
    assert "tfx               not installed" in table
