"""The search for an interpreter, with interpreters that are made up."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def interpreters(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    import interpreters

    return interpreters


def python(interpreters: ModuleType, version: str, **different: object) -> object:
    fields = {
        "executable": f"/opt/python{version}/bin/python",
        "version": tuple(map(int, version.split("."))),
        "implementation": "CPython",
        "has_venv": True,
        "has_headers": True,
        "compilers": ("gcc", "g++"),
    }
    return interpreters.Interpreter(**{**fields, **different})


def choose(interpreters: ModuleType, answers: dict, lines: tuple = (), **machine: str) -> tuple:
    return interpreters.choose(
        lines or interpreters.LINES,
        list(answers),
        **{"machine": "x86_64", "glibc": "2.36", **machine},
        ask=answers.__getitem__,
    )


def test_choose_among_several_takes_the_one_the_line_accepts(interpreters: ModuleType) -> None:
    right = python(interpreters, "3.10.13")
    answers = {"python3": python(interpreters, "3.11.7"), "python3.10": right, "gone": "not found"}
    line, chosen = choose(interpreters, answers)
    assert (line.tfx, chosen) == ("1.16", right)


@pytest.mark.parametrize(
    ("version", "different", "reason"),
    [
        ("3.11.7", {}, "CPython 3.11.7, which TFX 1.16 does not support"),
        ("3.9.18", {}, "CPython 3.9.18, which TFX 1.16 does not support"),
        ("3.10.2", {"implementation": "PyPy"}, "PyPy 3.10.2, which TFX 1.16 does not support"),
        ("3.10.2", {"has_venv": False}, "apt-get install python3.10-venv"),
        ("3.10.2", {"has_headers": False}, "apt-get install python3.10-dev"),
    ],
)
def test_choose_with_nothing_that_fits_says_why_and_what_to_install(
    interpreters: ModuleType, version: str, different: dict, reason: str
) -> None:
    answers = {"python3": python(interpreters, version, **different), "python": "not found"}
    with pytest.raises(interpreters.NothingFits) as caught:
        choose(interpreters, answers)
    message = str(caught.value)
    assert "pyenv install 3.10\n" in message
    assert f"\n  python3: {reason}" in message or reason in message.split("Looked at:")[1]
    assert "python: not found" not in message


@pytest.mark.parametrize(
    ("machine", "this"),
    [
        ({"glibc": "2.27"}, "x86_64, glibc 2.27"),
        ({"glibc": ""}, "x86_64, no glibc"),
        ({"machine": "aarch64"}, "aarch64, glibc 2.36"),
    ],
)
def test_choose_on_a_machine_without_wheels_names_it_and_what_is_supported(
    interpreters: ModuleType, machine: dict, this: str
) -> None:
    with pytest.raises(interpreters.NothingFits, match=f"{this}(.|\n)*glibc 2.28 or newer"):
        choose(interpreters, {"python3.10": python(interpreters, "3.10.13")}, **machine)


def test_choose_glibc_is_compared_by_number_not_by_text(interpreters: ModuleType) -> None:
    answers = {"python3.10": python(interpreters, "3.10.13")}
    assert choose(interpreters, answers, glibc="2.100")[0].tfx == "1.16"


def test_choose_of_two_lines_takes_the_first_that_machine_and_interpreter_allow(
    interpreters: ModuleType,
) -> None:
    newer = interpreters.Line("9.9", ((3, 12),), (2, 39), ("x86_64",), "locks/newer.txt")
    lines = (newer, *interpreters.LINES)
    both = {"a": python(interpreters, "3.10.13"), "b": python(interpreters, "3.12.1")}
    assert choose(interpreters, both, lines, glibc="2.39")[0] is newer
    assert choose(interpreters, both, lines, glibc="2.38")[0].tfx == "1.16"
    assert choose(interpreters, {"a": both["a"]}, lines, glibc="2.39")[0].tfx == "1.16"


def test_candidates_with_pyenv_and_uv_finds_their_versions_newest_first(
    interpreters: ModuleType, tmp_path: Path
) -> None:
    uv = ".local/share/uv/python/cpython-3.10.9-linux/bin/python3.10"
    pyenv = [f".pyenv/versions/{version}/bin/python" for version in ("3.10.13", "3.10.4")]
    for name in (uv, *pyenv, ".pyenv/versions/3.11.7/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    found = list(interpreters.candidates([(3, 10)], {"HOME": str(tmp_path)}))
    assert found[0] == "python3.10"
    there = [name for name in found if name.startswith(str(tmp_path))]
    assert there == [str(tmp_path / name) for name in (*pyenv, uv)]
    assert found[-2:] == ["python3", "python"]


def test_candidates_with_an_interpreter_named_are_that_one(interpreters: ModuleType) -> None:
    assert list(interpreters.candidates([(3, 10)], {"PYTHON": "/opt/py"})) == ["/opt/py"]


def test_probe_of_this_interpreter_says_what_it_is(interpreters: ModuleType) -> None:
    answer = interpreters.probe(sys.executable)
    assert answer.version == sys.version_info[:3]
    assert answer.implementation == "CPython"
    assert not answer.executable.startswith(sys.prefix)  # the one below the environment


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo \"pyenv: version '3.10' is not installed\" >&2; exit 127", "does not start: pyenv:"),
        ("exit 3", "does not start: exit code 3"),
    ],
)
def test_probe_of_a_shim_that_fails_gives_its_reason(
    interpreters: ModuleType, tmp_path: Path, script: str, reason: str
) -> None:
    shim = tmp_path / "python3.10"
    shim.write_text(f"#!/bin/sh\n{script}\n")
    shim.chmod(0o755)
    assert interpreters.probe(str(shim)).startswith(reason)


def test_probe_of_nothing_is_not_found(interpreters: ModuleType, tmp_path: Path) -> None:
    assert interpreters.probe(str(tmp_path / "python3.10")) == "not found"
