"""What a folder holds, by kind of file; standard library only, quick for a million files."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"})
ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".7z", ".rar")

#: MNIST's own names, and those of its descendants: emnist-letters-train-images-idx3-ubyte.gz.
IDX_NAME = re.compile(r"(?P<stem>.*)(?P<what>images|labels)[-.]idx\d-ubyte(?:\.gz)?$", re.I)
#: x.tfrecord, x.tfrecords.gz, x.tfrecord-00000-of-00002, data_tfrecord-00000-of-00002.gz.
TFRECORD_NAME = re.compile(r"(?:.*[._-])?tfrecords?(?:-\d+-of-\d+)?(?:\.gz)?$", re.I)

#: How each known spelling of a split's name is called here.
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "test": "eval",
    "testing": "eval",
    "eval": "eval",
    "val": "eval",
    "valid": "eval",
    "validation": "eval",
    "t10k": "eval",
}


class SourceError(ValueError):
    """An input that cannot be read; the message is one line for the user."""


class Entry(NamedTuple):
    """A file: its path relative to the root, with forward slashes, and what `stat` says."""

    path: str
    size: int
    mtime_ns: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The extension, lower case, with its dot; empty where there is none."""
        return os.path.splitext(self.name)[1].lower()


def list_files(root: str) -> list[Entry]:
    """Lists all files below a folder, sorted by path; hidden files and folders are left out.

    Symbolic links are followed; a link back to a folder already seen is not.
    """
    found: list[Entry] = []
    _walk(root, "", set(), found)
    found.sort(key=lambda entry: entry.path)
    return found


def _walk(folder: str, prefix: str, seen: set[tuple[int, int]], found: list[Entry]) -> None:
    identity = os.stat(folder)
    if (identity.st_dev, identity.st_ino) in seen:
        return
    seen.add((identity.st_dev, identity.st_ino))
    with os.scandir(folder) as items:
        for item in items:
            if item.name.startswith("."):
                continue
            if item.is_dir():
                _walk(item.path, f"{prefix}{item.name}/", seen, found)
                continue
            try:
                stat = item.stat()
            except FileNotFoundError:  # a dangling link: listed, so that it is named as unreadable
                stat = item.stat(follow_symlinks=False)
            found.append(Entry(prefix + item.name, stat.st_size, stat.st_mtime_ns))


def kind_of(entry: Entry) -> str | None:
    """The format a file's name speaks of: images, idx, tfrecord, or None."""
    if entry.suffix in IMAGE_SUFFIXES:
        return "images"
    if IDX_NAME.fullmatch(entry.name):
        return "idx"
    if TFRECORD_NAME.fullmatch(entry.name):
        return "tfrecord"
    return None


def is_archive(name: str) -> bool:
    """Whether a file's name is that of an archive."""
    return name.lower().endswith(ARCHIVE_SUFFIXES)


def describe(entries: Iterable[Entry]) -> str:
    """Says in a few words what files there are: `12 .txt, 3 .json`."""
    counts = Counter(entry.suffix or "without extension" for entry in entries)
    words = [f"{count} {suffix}" for suffix, count in counts.most_common(4)]
    return ", ".join(words) + (", ..." if len(counts) > 4 else "")


def fingerprint(entries: Iterable[Entry]) -> str:
    """Hash of paths, sizes and times of change: as TFX does it, contents are not read."""
    digest = hashlib.sha256()
    for entry in entries:
        digest.update(f"{entry.path}\0{entry.size}\0{entry.mtime_ns}\n".encode("utf-8", "replace"))
    return digest.hexdigest()


def split_of_name(name: str) -> str | None:
    """The split a file's or folder's name speaks of, as spelled: train, test, val, ... or None."""
    words = re.split(r"[-_.\s]+", name.lower())
    found = [word for word in words if word in SPLIT_NAMES]
    return found[0] if len(set(found)) == 1 else None


def batched(items: list, size: int) -> Iterator[tuple]:
    """Cuts a list into tuples of at most `size`."""
    for start in range(0, len(items), size):
        yield tuple(items[start : start + size])
