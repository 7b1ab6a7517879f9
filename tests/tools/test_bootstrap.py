"""When the environment is made anew, when only in part, and what an interruption leaves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def bootstrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The script at work in a checkout of its own, whose commands are noted and not run."""
    monkeypatch.syspath_prepend(str(TOOLS))
    import bootstrap

    (tmp_path / "locks").mkdir()
    (tmp_path / "setup.py").write_text("one")
    line = bootstrap.LINES[0]
    (tmp_path / line.lock).write_text("pip==1\n    # via nothing\npip-tools==2\nwheel==3\n")
    monkeypatch.setattr(bootstrap, "CHECKOUT", tmp_path)
    monkeypatch.setattr(bootstrap, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(bootstrap, "STAMP", tmp_path / ".venv/tfx-wgan.json")
    python = bootstrap.Interpreter("/opt/python", (3, 10, 1), "CPython", True, True, ("sh", "sh"))
    monkeypatch.setattr(bootstrap, "find", lambda lines: (line, python))
    bootstrap.ran = []

    def run(command: list[str], environ: dict[str, str] | None = None) -> None:
        bootstrap.ran.append(" ".join(command))
        if command[1:3] == ["-m", "venv"]:
            (tmp_path / ".venv/bin").mkdir(parents=True)
            (tmp_path / ".venv/bin/python").touch()

    monkeypatch.setattr(bootstrap, "run", run)
    return bootstrap


def did(bootstrap: ModuleType) -> list[str]:
    """What was done since the last call: venv, lock, project."""
    marks = {"-m venv": "venv", " -r ": "lock", " -e ": "project"}
    done = [what for text in bootstrap.ran for mark, what in marks.items() if mark in text]
    bootstrap.ran.clear()
    return done


def test_bootstrap_twice_installs_once(bootstrap: ModuleType) -> None:
    bootstrap.make_environment()
    assert did(bootstrap) == ["venv", "lock", "project"]
    bootstrap.make_environment()
    assert bootstrap.ran == []


def test_bootstrap_after_setup_changed_installs_the_project_again(bootstrap: ModuleType) -> None:
    bootstrap.make_environment()
    did(bootstrap)
    (bootstrap.CHECKOUT / "setup.py").write_text("two")
    bootstrap.make_environment()
    assert did(bootstrap) == ["project"]


def test_bootstrap_after_the_lock_changed_installs_everything(bootstrap: ModuleType) -> None:
    bootstrap.make_environment()
    did(bootstrap)
    leftover = bootstrap.VENV / "of-the-old-lock"
    leftover.touch()
    (bootstrap.CHECKOUT / bootstrap.LINES[0].lock).write_text("pip==2\n")
    bootstrap.make_environment()
    assert did(bootstrap) == ["venv", "lock", "project"]
    assert not leftover.exists()


@pytest.mark.parametrize("step", ["-m venv", " -r ", " -e "])
def test_bootstrap_interrupted_at_any_step_installs_everything_again(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    noted = bootstrap.run

    def run(command: list[str], environ: dict[str, str] | None = None) -> None:
        noted(command, environ)
        if step in " ".join(command):
            raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(bootstrap, "run", run)
        with pytest.raises(KeyboardInterrupt):
            bootstrap.make_environment()
    did(bootstrap)
    bootstrap.make_environment()
    assert did(bootstrap) == ["venv", "lock", "project"]


def test_bootstrap_of_a_moved_checkout_installs_everything(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap.make_environment()
    stamp = bootstrap.read_stamp(bootstrap.STAMP)
    bootstrap.write_stamp(bootstrap.STAMP, {**stamp, "checkout": "/elsewhere"})
    did(bootstrap)
    bootstrap.make_environment()
    assert did(bootstrap) == ["venv", "lock", "project"]


def test_bootstrap_without_a_compiler_builds_with_the_compiler_wheel(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, python = bootstrap.find(bootstrap.LINES)
    bare = python._replace(compilers=("no-such-compiler", "sh"))
    monkeypatch.setattr(bootstrap, "find", lambda lines: (line, bare))
    bootstrap.make_environment()
    pips = [text for text in bootstrap.ran if " pip " in text]
    wheel = [index for index, text in enumerate(pips) if bootstrap.COMPILER_WHEEL in text]
    lock = [index for index, text in enumerate(pips) if " -r " in text]
    gone = [index for index, text in enumerate(pips) if "uninstall --yes ziglang" in text]
    assert wheel + lock + gone == sorted(wheel + lock + gone)
    assert len(wheel + lock + gone) == 3


def test_pinned_takes_the_names_asked_for_and_no_longer_ones(bootstrap: ModuleType) -> None:
    lock = bootstrap.CHECKOUT / bootstrap.LINES[0].lock
    assert bootstrap.pinned(lock, ("pip", "wheel")) == ["pip==1", "wheel==3"]


def test_stamp_that_is_half_written_counts_as_none(bootstrap: ModuleType, tmp_path: Path) -> None:
    half = tmp_path / "stamp.json"
    half.write_text('{"tfx": "1.1')
    assert bootstrap.read_stamp(half) == {}


def test_bootstrap_script_with_no_python_that_starts_says_so(tmp_path: Path) -> None:
    shim = tmp_path / "python3"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    (tmp_path / "dirname").symlink_to("/usr/bin/dirname")
    script = (TOOLS / "bootstrap.sh").read_text()
    # The fixed places hold a real Python on many machines.
    script = script.replace("/usr/local/bin/python3 /usr/bin/python3", "")
    done = subprocess.run(
        ["/bin/sh", "-c", script, str(TOOLS / "bootstrap.sh")],
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "tfx-wgan: found no Python that starts; install Python 3.10 and run this again\n"
    )


def test_bootstrap_killed_while_pip_goes_on_keeps_others_out(tmp_path: Path) -> None:
    (tmp_path / "checkout").mkdir()
    tools = tmp_path / "checkout/tools"
    shutil.copytree(TOOLS, tools, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import bootstrap, time\n"
        "bootstrap.make_environment = lambda: bootstrap.run(['sh', '-c', 'echo up; sleep 2'])\n"
        "bootstrap.main()"
    )
    command = [sys.executable, "-c", code]
    first = subprocess.Popen(command, cwd=tools, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "up\n"
    first.kill()
    first.wait()
    second = subprocess.run(command, cwd=tools, capture_output=True, text=True, timeout=60)
    assert "another installation is at work in this checkout; waiting for it" in second.stderr
    assert second.stdout == "up\n"


def test_run_drops_settings_that_lead_pip_astray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    import bootstrap

    monkeypatch.setenv("PIP_TARGET", "/elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", os.environ.get("PIP_INDEX_URL", "kept"))
    bootstrap.run(["/bin/sh", "-c", 'test -z "$PIP_TARGET" && test -n "$PIP_INDEX_URL"'])
    with pytest.raises(bootstrap.InstallError, match=r"/bin/sh -c exit 4 failed"):
        bootstrap.run(["/bin/sh", "-c", "exit 4"])
