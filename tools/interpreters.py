"""The TFX lines we support, and the search for an interpreter that one of them accepts.

Standard library only, and nothing newer than Python 3.8, like bootstrap.py.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """A release line of TFX and where its wheels install."""

    tfx: str
    pythons: tuple[tuple[int, int], ...]
    glibc: tuple[int, int]
    machines: tuple[str, ...]
    lock: str

    def __str__(self) -> str:
        versions = " or ".join(f"{major}.{minor}" for major, minor in self.pythons)
        return (
            f"TFX {self.tfx}: CPython {versions}, Linux {' or '.join(self.machines)}, "
            f"glibc {self.glibc[0]}.{self.glibc[1]} or newer"
        )


#: The lines we support, the preferred one first. Another line is another row and another lock.
LINES = (Line("1.16", ((3, 10),), (2, 28), ("x86_64",), "locks/tfx-1.16-py310.txt"),)


class Interpreter(NamedTuple):
    """What a Python says of itself."""

    executable: str
    version: tuple[int, int, int]
    implementation: str
    has_venv: bool
    has_headers: bool
    compilers: tuple[str, ...]


PROBE = """
import json, os, platform, sys, sysconfig
def has(name):
    try:
        return bool(__import__(name))
    except ImportError:
        return False
inside = sys.prefix != sys.base_prefix  # an environment, maybe the one to be replaced
names = [os.environ.get(v) or sysconfig.get_config_var(v) or "" for v in ("CC", "CXX")]
print(json.dumps({
    "executable": os.path.realpath(sys.executable) if inside else sys.executable,
    "version": list(sys.version_info[:3]),
    "implementation": platform.python_implementation(),
    "has_venv": has("venv") and has("ensurepip"),
    "has_headers": os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")),
    "compilers": [name.split()[0] for name in names if name.split()],
}))
"""


class NothingFits(RuntimeError):
    """No TFX line installs here; the message says what to install."""


def candidates(pythons: Sequence[tuple[int, int]], environ: dict[str, str]) -> Iterator[str]:
    """Paths and names that may be a Python of these versions, likeliest first."""
    if environ.get("PYTHON"):
        yield environ["PYTHON"]
        return
    home = environ.get("HOME", "")
    pyenv = environ.get("PYENV_ROOT") or os.path.join(home, ".pyenv")
    uv = environ.get("UV_PYTHON_INSTALL_DIR") or os.path.join(home, ".local/share/uv/python")
    for major, minor in pythons:
        name = f"python{major}.{minor}"
        yield name
        for folder in ("/usr/local/bin", "/usr/bin"):
            yield f"{folder}/{name}"
        yield from _newest_first(f"{glob.escape(pyenv)}/versions/{major}.{minor}*/bin/python")
        yield from _newest_first(f"{glob.escape(uv)}/cpython-{major}.{minor}*/bin/{name}")
    yield from ("python3", "python")


def _newest_first(pattern: str) -> list[str]:
    def numbers(path: str) -> list[int]:
        return [int(digits) for digits in re.findall(r"\d+", path)]

    return sorted(glob.glob(pattern), key=numbers, reverse=True)


def probe(command: str) -> Interpreter | str:
    """Asks a candidate what it is; a candidate that does not answer gives its reason instead."""
    found = shutil.which(command)
    if found is None:
        return "not found"
    try:
        done = subprocess.run(
            [found, "-I", "-c", PROBE], capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start: {error}"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return f"does not start: {lines[0] if lines else f'exit code {done.returncode}'}"
    said = json.loads(done.stdout.splitlines()[-1])
    said["version"] = tuple(said["version"])
    said["compilers"] = tuple(said["compilers"])
    return Interpreter(**said)


def find(lines: Sequence[Line]) -> tuple[Line, Interpreter]:
    """The line and the interpreter for this machine; see `choose`."""
    pythons = [version for line in lines for version in line.pythons]
    library, glibc = platform.libc_ver()
    return choose(
        lines,
        list(candidates(pythons, dict(os.environ))),
        machine=platform.machine(),
        glibc=glibc if library == "glibc" else "",
    )


def choose(
    lines: Sequence[Line],
    names: Sequence[str],
    *,
    machine: str,
    glibc: str,
    ask: Callable[[str], Interpreter | str] = probe,
) -> tuple[Line, Interpreter]:
    """The first line that this machine and one of the interpreters can install.

    Args:
      lines: the supported lines, the preferred one first.
      names: candidate interpreters, the preferred one first.
      machine: such as x86_64.
      glibc: such as 2.36; empty where the C library is another.
      ask: what tells of a candidate, as `probe` does.

    Returns:
      The line, and the interpreter to make its environment with.

    Raises:
      NothingFits: nothing fits; names what was looked at and what to install.
    """
    fitting = [line for line in lines if _machine_fits(line, machine, glibc)]
    seen: dict[str, str] = {}
    for line in fitting:
        for name in names:
            answer = ask(name)
            if isinstance(answer, Interpreter):
                answer = _refusal(line, answer) or answer
            if isinstance(answer, Interpreter):
                return line, answer
            if answer != "not found":
                seen[name] = answer
    supported = "\n".join(f"  {line}" for line in lines)
    if not fitting:
        this = f"{platform.system()} {machine}, {f'glibc {glibc}' if glibc else 'no glibc'}"
        raise NothingFits(f"no TFX line installs on this machine ({this}). Supported:\n{supported}")
    major, minor = fitting[0].pythons[0]
    looked = "".join(f"\n  {name}: {reason}" for name, reason in seen.items())
    raise NothingFits(
        f"no interpreter fits. Supported:\n{supported}\n"
        f"Install Python {major}.{minor} with one of\n"
        f"  pyenv install {major}.{minor}\n"
        f"  uv python install {major}.{minor}\n"
        f"  apt-get install python{major}.{minor}-dev python{major}.{minor}-venv\n"
        f"or name one: make venv PYTHON=/path/to/python{major}.{minor}"
        + (f"\nLooked at:{looked}" if looked else "")
    )


def _machine_fits(line: Line, machine: str, glibc: str) -> bool:
    numbers = tuple(int(part) for part in glibc.split(".")[:2]) if glibc else (0, 0)
    return machine in line.machines and numbers >= line.glibc


def _refusal(line: Line, python: Interpreter) -> str:
    major, minor = python.version[:2]
    if python.implementation != "CPython" or (major, minor) not in line.pythons:
        version = ".".join(map(str, python.version))
        return f"{python.implementation} {version}, which TFX {line.tfx} does not support"
    if not python.has_venv:
        return f"has no venv or ensurepip: apt-get install python{major}.{minor}-venv"
    if not python.has_headers:
        return f"has no C headers (Python.h): apt-get install python{major}.{minor}-dev"
    return ""
