"""What a `data.input` is, and what is in it; quick enough to ask before anything else is loaded.

Layout of a folder of images, below its root:

* `train/` and one of `test/`, `eval/`, `val/`, ... with images below both: these are the splits
  `train` and `eval`, and within each the next folders are the classes. Nothing else may hold
  images then.
* Folders otherwise: classes. An image belongs to the first folder on its way, however deep it
  lies (as torchvision's ImageFolder has it). An image directly in the root has no label.
* No folders: images without labels.

A lone folder that holds no image itself, or is called like a split, is only a wrapper: what is
in it counts as the root.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable

from components.image_example_gen import idx, listing, spans
from components.image_example_gen.chunks import Chunk, DigitsChunk, FilesChunk, TfRecordChunk
from components.image_example_gen.listing import SPLIT_NAMES, Entry, SourceError

__all__ = ["Source", "SourceError", "open_source"]

#: The input that is built in.
DIGITS = "digits"
_DIGITS_COUNT = 1797
_DIGITS_PER_CHUNK = 300
_FILES_PER_CHUNK = 1000


@dataclasses.dataclass(frozen=True)
class Source:
    """Images that can be read.

    Attributes:
      root: absolute path of the folder, or `digits`.
      format: `images`, `idx`, `tfrecord` or `digits`.
      fingerprint: changes when a file that is read was added, removed or changed.
      chunks: all pieces of work, in an order that never changes.
      count: number of images; None where only reading tells.
      ignored: number of files that are not read: hidden ones do not count.
      ignored_kinds: the same in words, e.g. `2 .txt, 1 .json`.
    """

    root: str
    format: str
    fingerprint: str
    chunks: tuple[Chunk, ...]
    count: int | None
    ignored: int = 0
    ignored_kinds: str = ""


def open_source(input: str, format: str = "auto") -> Source:
    """Finds out what an input is and what is in it; reads no image.

    Args:
      input: `data.input`: a folder, a TFRecord file, either with placeholders for spans, or
        `digits`. A folder of that name is meant by `./digits`.
      format: `data.format`: `auto`, `images`, `idx`, `tfrecord` or `digits`.

    Raises:
      SourceError: one line saying what is wrong with the input and what to do.
    """
    if format == "digits" or (format == "auto" and input == DIGITS):
        return _digits()
    if "://" in input:
        raise SourceError(
            f"data.input {input}: remote inputs cannot be read; copy or mount it as a local folder"
        )
    path = spans.resolve(absolute(input)).path
    root, entries = _entries(path, input)
    found = {kind for entry in entries if (kind := listing.kind_of(entry))}
    wanted = found if format == "auto" else found & {format}
    if not wanted:
        raise SourceError(_nothing(input, format, entries))
    if len(wanted) > 1:
        raise SourceError(
            f"data.input {input}: holds {' and '.join(sorted(wanted))} files; "
            "set data.format to the one that is meant"
        )
    kind = wanted.pop()
    used = [entry for entry in entries if listing.kind_of(entry) == kind]
    others = [entry for entry in entries if listing.kind_of(entry) != kind]
    chunks, count = _KINDS[kind](root, used, input)
    return Source(
        root=root,
        format=kind,
        fingerprint=listing.fingerprint(used),
        chunks=tuple(chunks),
        count=count,
        ignored=len(others),
        ignored_kinds=listing.describe(others),
    )


def absolute(input: str) -> str:
    """An input as it means the same in any working directory."""
    if input == DIGITS or "://" in input:
        return input
    return os.path.abspath(os.path.expanduser(input))


def _entries(path: str, input: str) -> tuple[str, list[Entry]]:
    """The folder to read, and the files below it."""
    if os.path.isdir(path):
        return path, listing.list_files(path)
    name = os.path.basename(path)
    if not os.path.exists(path):
        raise SourceError(f"data.input {input}: no such file or folder")
    if listing.is_archive(name):
        raise SourceError(f"data.input {input}: is an archive; unpack it and give the folder")
    stat = os.stat(path)
    entry = Entry(name, stat.st_size, stat.st_mtime_ns)
    if listing.kind_of(entry) != "tfrecord":
        raise SourceError(
            f"data.input {input}: is a file; give the folder it is in, or a .tfrecord file"
        )
    return os.path.dirname(path), [entry]


def _nothing(input: str, format: str, entries: list[Entry]) -> str:
    wanted = "images, IDX files or TFRecords" if format == "auto" else f"{format} files"
    archives = [entry.path for entry in entries if listing.is_archive(entry.name)]
    if not entries:
        return f"data.input {input}: the folder is empty; expected {wanted}"
    if archives:
        return f"data.input {input}: no {wanted}, but an archive, {archives[0]}: unpack it"
    return f"data.input {input}: no {wanted}; found instead: {listing.describe(entries)}"


def _digits() -> Source:
    from importlib.metadata import version

    chunks = tuple(
        DigitsChunk(None, start, min(_DIGITS_PER_CHUNK, _DIGITS_COUNT - start))
        for start in range(0, _DIGITS_COUNT, _DIGITS_PER_CHUNK)
    )
    mark = f"digits of scikit-learn {version('scikit-learn')}"
    return Source(DIGITS, "digits", mark, chunks, _DIGITS_COUNT)


def _image_tree(root: str, entries: list[Entry], input: str) -> tuple[list[Chunk], int]:
    prefix = _unwrap(entries)
    below = [entry.path[len(prefix) :] for entry in entries]
    splits = _folder_splits(below, input)
    groups: dict[str | None, list[tuple[str, str | None]]] = {}
    for path in below:
        first, *rest = path.split("/")
        split = splits.get(first)
        if split:
            first, *rest = rest
        label = first if rest else None
        groups.setdefault(split, []).append((prefix + path, label))
    chunks: list[Chunk] = [
        FilesChunk(split, root, files)
        for split, group in groups.items()
        for files in listing.batched(group, _FILES_PER_CHUNK)
    ]
    return chunks, len(entries)


def _unwrap(entries: list[Entry]) -> str:
    """The common folders that only wrap the tree."""
    prefix = ""
    while True:
        heads = {entry.path[len(prefix) :].partition("/")[0::2] for entry in entries}
        names = {head for head, rest in heads}
        if len(names) > 1 or not all(rest for _, rest in heads):
            return prefix
        (name,) = names
        if name.lower() not in SPLIT_NAMES and not all("/" in rest for _, rest in heads):
            return prefix
        prefix += f"{name}/"


def _folder_splits(paths: list[str], input: str) -> dict[str, str]:
    """Top folders that are splits, where the tree has both: {"test": "eval", ...}."""
    heads = {path.partition("/")[0] for path in paths if "/" in path}
    splits = {head: SPLIT_NAMES[head.lower()] for head in heads if head.lower() in SPLIT_NAMES}
    if set(splits.values()) != {"train", "eval"}:
        return {}
    others = sorted(heads - splits.keys()) + [path for path in paths if "/" not in path]
    if len(splits) > 2 or others:
        folders = ", ".join(sorted(splits))
        raise SourceError(
            f"data.input {input}: ambiguous: images in {folders}"
            + (f" and beside them in {others[0]}" if others else "")
            + "; keep one folder to train on and one to evaluate on"
        )
    return splits


def _tfrecords(root: str, entries: list[Entry], input: str) -> tuple[list[Chunk], None]:
    spelled = {entry.path: _tfrecord_split(entry.path) for entry in entries}
    names = {name for name in spelled.values() if name}
    both = {SPLIT_NAMES[name] for name in names} == {"train", "eval"}
    if both and (len(names) > 2 or None in spelled.values()):
        raise SourceError(
            f"data.input {input}: ambiguous: TFRecords for {', '.join(sorted(names))}"
            + (" and for no split" if None in spelled.values() else "")
            + "; keep those to train on and those to evaluate on"
        )
    chunks: list[Chunk] = [
        TfRecordChunk(SPLIT_NAMES[name] if both and name else None, root, path)
        for path, name in spelled.items()
    ]
    return chunks, None


def _tfrecord_split(path: str) -> str | None:
    """The split that a folder's name, or else the file's, speaks of."""
    for part in path.split("/"):
        if name := listing.split_of_name(part):
            return name
    return None


_KINDS: dict[str, Callable[[str, list[Entry], str], tuple[list[Chunk], int | None]]] = {
    "images": _image_tree,
    "idx": idx.chunks,
    "tfrecord": _tfrecords,
}
