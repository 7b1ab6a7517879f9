"""Every test that was written is run."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"


def written_tests(path: Path) -> Iterator[str]:
    """Names of functions that look meant as tests, with their class, in order."""
    for node in ast.parse(path.read_text()).body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        scope = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        functions = [n for n in inside if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        yield from (scope + f.name for f in functions if f.name.lower().startswith("test"))


def test_collection_every_file_with_tests_is_found_by_its_name(
    request: pytest.FixtureRequest,
) -> None:
    patterns = request.config.getini("python_files")
    lost = [
        path.relative_to(ROOT).as_posix()
        for path in TESTS.rglob("*.py")
        if any(written_tests(path)) and not any(fnmatch(path.name, p) for p in patterns)
    ]
    assert not lost, f"pytest looks for {patterns} and would miss {lost}"


def test_collection_every_test_file_has_tests() -> None:
    empty = [path.name for path in TESTS.rglob("test_*.py") if not any(written_tests(path))]
    assert not empty


def test_collection_no_test_hides_another_of_the_same_name() -> None:
    hidden = {
        path.name: [name for name, count in Counter(written_tests(path)).items() if count > 1]
        for path in TESTS.rglob("test_*.py")
    }
    assert not {name: twice for name, twice in hidden.items() if twice}


def test_collection_test_files_are_told_apart_by_name() -> None:
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]


def test_collection_tests_are_no_packages_and_packages_hold_no_tests() -> None:
    strays = [*TESTS.rglob("__init__.py")]
    for package in ("pipeline", "components", "trainer"):
        strays += [*(ROOT / package).rglob("test_*.py"), *(ROOT / package).rglob("*_test.py")]
    assert not strays


def test_collection_whole_suite_holds_every_file(request: pytest.FixtureRequest) -> None:
    config = request.config
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS or any(
        config.getoption(name) for name in ("keyword", "markexpr", "lf", "deselect")
    ):
        pytest.skip("only a part of the suite was asked for")
    collected = {item.path for item in request.session.items}
    assert set(TESTS.rglob("test_*.py")) - collected == set()
