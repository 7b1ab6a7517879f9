"""Makes `.venv` in this checkout: finds an interpreter, chooses a TFX line, installs its lock.

Standard library only, and nothing newer than Python 3.8: it runs before anything is installed,
with whatever Python was found first. pip does the installing, because it is always there and
follows the index, proxy and certificates this machine is configured for; with every version
pinned it has nothing to resolve.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from interpreters import LINES, Interpreter, Line, NothingFits, find

CHECKOUT = Path(__file__).resolve().parent.parent
VENV = CHECKOUT / ".venv"
STAMP = VENV / "tfx-wgan.json"

#: Settings of the caller that would install elsewhere, something else, or not at all.
UNWANTED = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PIP_USER",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_CONSTRAINT",
    "PIP_REQUIREMENT",
    "PIP_NO_BINARY",
    "PIP_REQUIRE_HASHES",
    "PIP_PYTHON",
    "PIP_DRY_RUN",
)

#: Everything is pinned, and sources are built by the lock's setuptools, not by the latest one.
INSTALL = ("install", "--no-deps", "--no-build-isolation")

#: A C++ compiler as a wheel, for machines without one. Not in the lock: few need its 80 MB.
COMPILER_WHEEL = "ziglang==0.13.0"


class InstallError(RuntimeError):
    """A step of the installation failed; the message says which."""


def stamp_of(line: Line, checkout: Path) -> dict[str, str]:
    """What an environment was made from; it is up to date while this stays the same."""

    def digest(name: str) -> str:
        return hashlib.sha256((checkout / name).read_bytes()).hexdigest()

    return {
        "tfx": line.tfx,
        "checkout": str(checkout),
        "lock": digest(line.lock),
        "setup": digest("setup.py"),
    }


def read_stamp(path: Path) -> dict[str, str]:
    """The stamp of the environment that is there; empty when there is none, or half of one."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return {}


def write_stamp(path: Path, stamp: dict[str, str]) -> None:
    """Last act of an installation: whole or not at all."""
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(stamp, indent=2) + "\n")
    os.replace(partial, path)


def pinned(lock: Path, names: Sequence[str]) -> list[str]:
    """The lock's requirements of these names."""
    return [row for row in lock.read_text().splitlines() if row.split("==")[0] in names]


def run(command: Sequence[str], environ: dict[str, str] | None = None) -> None:
    """Runs a command without the caller's settings that would lead it astray.

    Args:
      command: program and arguments.
      environ: additions to the environment variables.

    Raises:
      InstallError: it failed; its own output has said why.
    """
    clean = {key: value for key, value in os.environ.items() if key not in UNWANTED}
    # The lock of this checkout is handed on: a child that outlives us still writes to .venv.
    done = subprocess.run(command, env={**clean, **(environ or {})}, close_fds=False)
    if done.returncode:
        raise InstallError(f"{' '.join(command)} failed; see above, then run make again")


def pip(*arguments: str, environ: dict[str, str] | None = None) -> None:
    """Runs the environment's pip: its command first, then arguments."""
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    options = ["--disable-pip-version-check", *quiet]
    run([str(VENV / "bin/python"), "-m", "pip", *options, *arguments], environ)


def install_lock(line: Line, python: Interpreter) -> None:
    """A new environment with everything in the lock."""
    if VENV.exists():
        say("replacing .venv: it is unfinished, or made from another lock")
        shutil.rmtree(VENV)
    run([python.executable, "-m", "venv", str(VENV)])
    lock = CHECKOUT / line.lock
    pip(*INSTALL, *pinned(lock, ("pip", "setuptools", "wheel")))
    if len(python.compilers) == 2 and all(map(shutil.which, python.compilers)):
        pip(*INSTALL, "-r", str(lock))
    else:
        _install_with_compiler_wheel(lock)


def _install_with_compiler_wheel(lock: Path) -> None:
    """Installs the lock where packages that come as C++ source find no compiler."""
    say(f"no C++ compiler here: building with {COMPILER_WHEEL}, which takes some minutes more")
    pip(*INSTALL, COMPILER_WHEEL)
    settings = {
        "CC": "python -m ziglang cc",
        "CXX": "python -m ziglang c++",
        "LDSHARED": "python -m ziglang cc -shared",
        "LDCXXSHARED": "python -m ziglang c++ -shared",
        "PATH": os.pathsep.join([str(VENV / "bin"), os.environ.get("PATH", os.defpath)]),
    }
    pip(*INSTALL, "-r", str(lock), environ=settings)
    pip("uninstall", "--yes", "ziglang")


def make_environment() -> None:
    """Makes `.venv`, or the part of it that is out of date.

    Raises:
      NothingFits: no line installs on this machine.
      InstallError: venv or pip failed.
    """
    there = read_stamp(STAMP)
    current = next((line for line in LINES if line.tfx == there.get("tfx")), None)
    if current and (VENV / "bin/python").exists():
        wanted = stamp_of(current, CHECKOUT)
        if there == wanted:
            return
        if {**there, "setup": ""} == {**wanted, "setup": ""}:
            install_project(wanted)
            return
    line, python = find(LINES)
    say(f"TFX {line.tfx} with Python {'.'.join(map(str, python.version))} ({python.executable})")
    say(f"installing {line.lock} into .venv: 3.5 GB, some minutes")
    install_lock(line, python)
    install_project(stamp_of(line, CHECKOUT))


def install_project(stamp: dict[str, str]) -> None:
    """The checkout itself, editable, and then the stamp."""
    STAMP.unlink(missing_ok=True)
    pip(*INSTALL, "-e", str(CHECKOUT), environ={"PYTHONWARNINGS": "ignore"})
    write_stamp(STAMP, stamp)
    say(f"ready: .venv/bin/tfx-wgan, TFX {stamp['tfx']}")


def say(text: str) -> None:
    """One line of progress, on standard error: standard output belongs to the command."""
    print(f"tfx-wgan: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Makes the environment; one installation at a time per checkout."""
    with open(__file__) as lock:
        os.set_inheritable(lock.fileno(), True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another installation is at work in this checkout; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            make_environment()
        except (NothingFits, InstallError) as error:
            say(str(error))
            return 1
        except KeyboardInterrupt:
            say("interrupted; the next make starts the installation again")
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
