"""Imports go one way: pipeline -> components -> trainer."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Top-level packages that each of ours does without, wherever the import stands.
FORBIDDEN = {
    "trainer": {"tfx", "tfx_bsl", "apache_beam", "kfp", "components", "pipeline"},
    "components": {"kfp", "pipeline"},
    "pipeline": {"tensorflow", "tf_keras", "keras"},
}


def imported(source: str) -> set[str]:
    """Top-level names of all modules that some source imports, in functions too."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            names.add(str(node.args[0].value).split(".")[0])
    return names


def sources() -> list[str]:
    return [
        path.relative_to(ROOT).as_posix()
        for package in FORBIDDEN
        for path in sorted((ROOT / package).rglob("*.py"))
    ]


@pytest.mark.parametrize("path", sources())
def test_layering_each_module_imports_nothing_from_above(path: str) -> None:
    package = path.split("/")[0]
    wrong = imported((ROOT / path).read_text()) & FORBIDDEN[package]
    assert not wrong, f"{path} imports {sorted(wrong)}; {package} does without"


@pytest.mark.parametrize(
    "source",
    [
        "import pipeline.config",
        "from pipeline import config",
        "def late():\n    from pipeline.config import load",
        "import importlib\nimportlib.import_module('pipeline.config')",
        "if TYPE_CHECKING:\n    import pipeline",
    ],
)
def test_layering_import_in_any_form_is_seen(source: str) -> None:
    assert "pipeline" in imported(source)


def test_layering_relative_import_is_not_taken_for_a_package() -> None:
    assert imported("from . import pipeline\nfrom .pipeline import load") == set()


def test_layering_every_package_has_an_init() -> None:
    folders = {(ROOT / path).parent for path in sources()}
    missing = [str(folder) for folder in folders if not (folder / "__init__.py").exists()]
    assert not missing, f"left out of the wheel, for want of an __init__.py: {missing}"
