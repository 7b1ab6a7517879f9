"""Hashes of source code, so that a change of code is a change of cache key."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path


@functools.cache
def source_hash(*packages: str) -> str:
    """Hash of every source file of some packages or modules.

    TFX reuses a node's outputs when its inputs and parameters are the same, whatever became of
    its code; a node that carries this as a parameter runs again when its code has changed.

    Args:
      packages: dotted names, e.g. `components.data_gate`. A package counts with all below it.

    Returns:
      16 hexadecimal digits, the same wherever the packages are installed.

    Raises:
      ModuleNotFoundError: where a name is not importable.
    """
    digest = hashlib.sha256()
    for package in packages:
        spec = importlib.util.find_spec(package)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"no source found for {package!r}", name=package)
        origin = Path(spec.origin)
        folder = origin.parent
        is_package = spec.submodule_search_locations is not None
        files = sorted(p for p in folder.rglob("*") if p.is_file()) if is_package else [origin]
        for path in files:
            if "__pycache__" in path.parts:
                continue
            digest.update(f"{package}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
