"""The wheel, installed somewhere else, holds what is needed and no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pipeline", "components", "trainer")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder into which the wheel was installed."""
    # Built from a copy: setuptools would put back what an old build/ still holds.
    source = tmp_path_factory.mktemp("source")
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, source)
    for name in (*PACKAGES, "tests", "benchmarks", "tools"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    options = ["--no-deps", "--no-index"]
    build = [*pip, "wheel", "--no-build-isolation", *options, "-w", str(wheels), str(source)]
    subprocess.run(build, check=True)
    (wheel,) = wheels.glob("tfx_wgan-*.whl")
    install = [*pip, "install", "--no-compile", *options, "--target", str(target), str(wheel)]
    subprocess.run(install, check=True)
    return target


def test_wheel_holds_the_three_packages_and_nothing_else(installed: Path) -> None:
    found = {p.name for p in installed.iterdir() if not p.name.endswith(".dist-info")}
    assert found == {*PACKAGES, "bin"}


def test_wheel_holds_every_file_of_the_packages(installed: Path) -> None:
    def files(base: Path) -> set[str]:
        return {
            path.relative_to(base).as_posix()
            for name in PACKAGES
            for path in (base / name).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }

    assert files(installed) == files(ROOT)


def test_wheel_elsewhere_finds_its_presets(installed: Path, tmp_path: Path) -> None:
    code = (
        "import pipeline.config as config, trainer; print(config.__file__, trainer.__file__)\n"
        "print(*config.presets()); config.load('digits')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    where, presets = done.stdout.splitlines()
    assert all(path.startswith(str(installed)) for path in where.split())
    assert set(presets.split()) == {p.stem for p in (ROOT / "pipeline/presets").glob("*.yaml")}


def test_wheel_brings_the_command(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(installed / "bin/tfx-wgan"), "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Usage: tfx-wgan" in done.stdout
