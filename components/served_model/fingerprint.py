"""What is in a folder, and what a push destination serves."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator

from tfx.dsl.io import fileio

#: The fingerprint of nothing.
NOTHING = "none"
#: TensorFlow's name of the file that makes a folder a SavedModel.
SAVED_MODEL_FILE = "saved_model.pb"

_CHUNK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class ServedVersion:
    """One version in a push destination."""

    version: int
    path: str


def model_fingerprint(folder: str) -> str:
    """Hash of all that is in a folder: relative paths and contents, nothing else.

    Args:
      folder: a local path, or any that TFX's fileio opens.

    Returns:
      64 hexadecimal digits; `none` for a folder without a file or no folder at all.
    """
    digest = hashlib.sha256()
    files = sorted(_relative_files(folder))
    for relative in files:
        digest.update(f"{relative}\0".encode())
        digest.update(_file_hash(os.path.join(folder, relative)))
    return digest.hexdigest() if files else NOTHING


def versions(destination: str) -> list[int]:
    """The numbers of all version folders in a push destination, finished or not, ascending."""
    if not fileio.exists(destination):
        return []
    names = (name.rstrip("/") for name in fileio.listdir(destination))
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def served_version(destination: str) -> ServedVersion | None:
    """The version that TensorFlow Serving would serve: the highest that is complete."""
    for version in reversed(versions(destination)):
        path = os.path.join(destination, str(version))
        if fileio.exists(os.path.join(path, SAVED_MODEL_FILE)):
            return ServedVersion(version, path)
    return None


def _relative_files(folder: str) -> Iterator[str]:
    if not fileio.exists(folder):
        return
    for parent, _, names in fileio.walk(folder):
        for name in names:
            yield os.path.relpath(os.path.join(parent, name), folder).replace(os.sep, "/")


def _file_hash(path: str) -> bytes:
    digest = hashlib.sha256()
    with fileio.open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.digest()
