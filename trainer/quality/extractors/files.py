"""The files that an extractor consists of: which ones, and their hash.

TensorFlow is imported only for what is not on this machine, so that a command line can refuse a
wrong path or a wrong hash in milliseconds.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from trainer.options import ExtractorOptions
from trainer.quality.extractors.errors import ExtractorError

#: Names of extractors that are no paths.
RANDOM, INCEPTION = "random", "inception"
#: TensorFlow's name of the file that makes a folder a SavedModel.
SAVED_MODEL_FILE = "saved_model.pb"

_CHUNK_BYTES = 1 << 20


def source(options: ExtractorOptions) -> str | None:
    """Path or URL of what the extractor is loaded from; None: of nothing that the user gave."""
    if options.name == INCEPTION:
        return options.weights
    return None if options.name == RANDOM else options.name


def is_remote(path: str) -> bool:
    """Whether a path is a URL."""
    return "://" in path


def local_sha256(options: ExtractorOptions) -> str | None:
    """Hash of an extractor's files as they are now, without TensorFlow.

    Returns:
      What `create(options).sha256` will be; None where the files are not on this machine.

    Raises:
      ExtractorError: a file is missing or cannot be read.
    """
    if options.name == RANDOM:
        return random_sha256()
    path = source(options)
    if path is None or is_remote(path):
        return None
    if options.name == INCEPTION:
        check_weights(path)
    else:
        check_saved_model(options)
    return sha256(path)


def random_sha256() -> str:
    """Hash of the code that decides what the random extractor's features are."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for name in ("grid.py", "images.py", "random.py"):
        digest.update((here / name).read_bytes())
    return digest.hexdigest()


def check_pin(options: ExtractorOptions, found: str) -> None:
    """Refuses another extractor than the pinned one.

    Raises:
      ExtractorError: the hash is not that which the options ask for.
    """
    if options.sha256 not in (None, found):
        raise ExtractorError(
            f"evaluation.extractor.sha256: {source(options) or options.name} has {found}, but "
            f"{options.sha256} is asked for; bring back the files of that hash, or change the key"
        )


def check_saved_model(options: ExtractorOptions) -> None:
    """Refuses a name that is neither an extractor's nor, on this machine, a SavedModel's folder.

    Raises:
      ExtractorError: there is no SavedModel.
    """
    path = options.name
    if not is_remote(path) and not Path(path, SAVED_MODEL_FILE).is_file():
        what = f"holds no {SAVED_MODEL_FILE}" if os.path.isdir(path) else "is no folder"
        raise ExtractorError(
            f"evaluation.extractor.name: got {path!r}, which {what}; allowed: {RANDOM}, "
            f"{INCEPTION}, or the folder of a SavedModel"
        )


def check_weights(path: str) -> None:
    """Refuses Inception's weights that are not there; what is not local is looked at later.

    Raises:
      ExtractorError: there is neither a file nor a SavedModel.
    """
    if not is_remote(path) and not (os.path.isfile(path) or Path(path, SAVED_MODEL_FILE).is_file()):
        what = "holds no SavedModel" if os.path.isdir(path) else "is no file"
        raise ExtractorError(
            f"evaluation.extractor.weights: got {path!r}, which {what}; allowed: Keras' .h5 file "
            "without top layer, its URL, or the folder of a SavedModel"
        )


def sha256(path: str) -> str:
    """Hash of a file's content, or of all that is in a folder: relative paths and contents.

    Args:
      path: local, or anything tf.io.gfile opens.

    Returns:
      64 hexadecimal digits.

    Raises:
      ExtractorError: it cannot be read.
    """
    if not is_remote(path):
        walk = functools.partial(os.walk, followlinks=True)
        try:
            return _sha256(path, os.path.isdir, walk, open)
        except OSError as error:
            raise ExtractorError(f"extractor {path}: cannot be read: {error.strerror}") from error
    import tensorflow as tf

    gfile = tf.io.gfile
    try:
        return _sha256(path, gfile.isdir, gfile.walk, gfile.GFile)
    except tf.errors.OpError as error:
        raise ExtractorError(f"extractor {path}: cannot be read: {error.message}") from error


def _sha256(
    path: str,
    is_folder: Callable[[str], bool],
    walk: Callable[[str], Iterator[tuple[str, list[str], list[str]]]],
    opened: Callable[[str, str], Any],
) -> str:
    if not is_folder(path):
        return _content(path, opened).hex()
    digest = hashlib.sha256()
    files = {
        os.path.relpath(os.path.join(parent, name), path).replace(os.sep, "/")
        for parent, _, names in walk(path)
        for name in names
    }
    for relative in sorted(files):
        digest.update(f"{relative}\0".encode())
        digest.update(_content(os.path.join(path, relative), opened))
    return digest.hexdigest()


def _content(path: str, opened: Callable[[str, str], Any]) -> bytes:
    digest = hashlib.sha256()
    with opened(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.digest()
