"""Hashes of source code, so that a change of code is a change of cache key."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

#: Packages whose code is ours; that of others changes with their version.
_OWN = ("components", "trainer")


@functools.cache
def source_hash(*names: str) -> str:
    """Hash of some packages or modules, and of every module of ours that they import.

    TFX reuses a node's outputs when its inputs and parameters are the same, whatever became of
    its code; a node that carries this as a parameter runs again when its code has changed.

    Args:
      names: dotted names, e.g. `components.data_gate`. A package counts with all below it, data
        files included; what is imported from elsewhere counts module by module.

    Returns:
      16 hexadecimal digits, the same wherever the packages are installed.

    Raises:
      ModuleNotFoundError: where a name is not one of our packages or modules.
    """
    digest = hashlib.sha256()
    for name, path in sorted(sources(*names).items()):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def sources(*names: str) -> dict[str, Path]:
    """The files that `source_hash` is made of, by their path from the top-level package on.

    Raises:
      ModuleNotFoundError: where a name is not one of our packages or modules.
    """
    waiting: list[Path] = []
    for name in names:
        path = _file(name)
        if path is None:
            raise ModuleNotFoundError(f"no source of ours found for {name!r}", name=name)
        below = path.parent.rglob("*") if path.name == "__init__.py" else [path]
        waiting += [file for file in below if file.is_file() and file.parent.name != "__pycache__"]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _imported(path) if path.suffix == ".py" else ()
    roots = {_folder(name).parent for name in _OWN}
    return {
        path.relative_to(root).as_posix(): path
        for path in found
        for root in roots
        if path.is_relative_to(root)
    }


def _imported(path: Path) -> Iterator[Path]:
    """Modules of ours that a file imports, inside functions too; of a package its `__init__`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            # What is imported from a module may be defined in it, or be a module below it.
            module = _file(name) or _file(name.rpartition(".")[0])
            if module:
                yield module


def _file(name: str) -> Path | None:
    """The file of one of our modules or packages; nothing is imported to find it."""
    top, *parts = name.split(".")
    if top not in _OWN:
        return None
    path = _folder(top).joinpath(*parts)
    candidates = (path / "__init__.py", path.with_suffix(".py"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


@functools.cache
def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"package {package!r} is not there", name=package)
    return Path(spec.origin).parent
