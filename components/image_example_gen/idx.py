"""IDX files as MNIST, Fashion-MNIST and EMNIST come: what is in a folder of them.

Format: http://yann.lecun.com/exdb/mnist; all numbers big-endian. Images: magic 2051, count,
height, width, then a byte a pixel. Labels: magic 2049, count, then a byte a label.
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from typing import NamedTuple

from components.image_example_gen.chunks import Chunk, IdxChunk, open_maybe_gzip
from components.image_example_gen.listing import (
    IDX_NAME,
    SPLIT_NAMES,
    Entry,
    SourceError,
    split_of_name,
)

_IMAGES_MAGIC, _LABELS_MAGIC = 2051, 2049
#: A worker has to unpack a gzipped file up to where its chunk begins: few and large chunks.
_IMAGES_PER_CHUNK, _MAX_CHUNKS = 5000, 16


class _Pair(NamedTuple):
    """An images file, its labels file if any, and the split as the name spells it."""

    images: str
    labels: str | None
    split: str | None


def chunks(root: str, entries: list[Entry], input: str) -> tuple[list[Chunk], int]:
    """Pairs images with labels, checks their sizes, and cuts them into chunks.

    Args:
      root: the folder.
      entries: the IDX files in it.
      input: how the user called the folder, for messages.

    Returns:
      The chunks, and the number of images.

    Raises:
      SourceError: where files are damaged, do not fit each other, or are ambiguous.
    """
    pairs = _pairs(entries, input)
    names = {pair.split for pair in pairs if pair.split}
    both = {SPLIT_NAMES[name] for name in names} == {"train", "eval"}
    if len({pair.labels is None for pair in pairs}) > 1:
        bare = next(pair.images for pair in pairs if pair.labels is None)
        raise SourceError(f"data.input {input}: {bare} has no labels file, but others have")
    if len(pairs) > 1 and not (both and len(pairs) == 2):
        files = ", ".join(pair.images for pair in pairs)
        raise SourceError(
            f"data.input {input}: ambiguous: {files}; keep one file of images to train on and one "
            "to evaluate on"
        )
    found: list[Chunk] = []
    total = 0
    for pair in pairs:
        count, height, width = _check(root, pair, input)
        split = SPLIT_NAMES[pair.split] if both and pair.split else None
        size = max(_IMAGES_PER_CHUNK, -(-count // _MAX_CHUNKS))
        for start in range(0, count, size):
            number = min(size, count - start)
            found.append(
                IdxChunk(split, root, pair.images, pair.labels, height, width, start, number)
            )
        total += count
    return found, total


def _pairs(entries: list[Entry], input: str) -> list[_Pair]:
    files: dict[tuple[str, str], str] = {}
    for entry in entries:
        match = IDX_NAME.fullmatch(entry.path)
        assert match  # listed by this very name
        key = (match["stem"], match["what"].lower())
        if key in files:
            raise SourceError(
                f"data.input {input}: both {files[key]} and {entry.path}: keep one of them"
            )
        files[key] = entry.path
    stems = sorted(stem for stem, what in files if what == "images")
    if not stems:
        raise SourceError(f"data.input {input}: IDX files of labels, but none of images")
    return [
        _Pair(files[stem, "images"], files.get((stem, "labels")), split_of_name(stem))
        for stem in stems
    ]


def _check(root: str, pair: _Pair, input: str) -> tuple[int, int, int]:
    """Header of the images file, having checked that both files are as long as they say."""
    count, height, width = _header(root, pair.images, _IMAGES_MAGIC, 3, input)
    if not count or not height or not width:
        raise SourceError(f"data.input {input}: {pair.images} holds no images")
    if pair.labels:
        (labels,) = _header(root, pair.labels, _LABELS_MAGIC, 1, input)
        if labels != count:
            raise SourceError(
                f"data.input {input}: {pair.images} holds {count} images, "
                f"but {pair.labels} {labels} labels"
            )
    return count, height, width


def _header(root: str, path: str, magic: int, dimensions: int, input: str) -> tuple[int, ...]:
    """The sizes a file's header gives."""
    length = 4 + 4 * dimensions
    try:
        with open_maybe_gzip(os.path.join(root, path)) as file:
            head = file.read(length)
            if len(head) < length or struct.unpack(">i", head[:4])[0] != magic:
                raise SourceError(
                    f"data.input {input}: {path} is not an IDX file of bytes with "
                    f"{dimensions} dimension{'s' * (dimensions > 1)}"
                )
            sizes = struct.unpack(f">{dimensions}I", head[4:])
            # The last byte must be there and none behind it; of a gzipped file, this unpacks all.
            file.seek(length + math.prod(sizes) - 1)
            if len(file.read(2)) != 1:
                raise SourceError(
                    f"data.input {input}: {path} is not as long as its header says; fetch it again"
                )
    except (OSError, EOFError, zlib.error) as error:
        raise SourceError(f"data.input {input}: {path} cannot be read: {error}") from error
    return sizes
