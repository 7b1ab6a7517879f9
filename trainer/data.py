"""Training data: transformed examples or plain arrays, in memory or in a memory-mapped file."""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from trainer import records
from trainer.errors import TrainerError
from trainer.image_cache import Columns, ImageCache
from trainer.options import IMAGE_SIZES

_REPORT_SECONDS = 10.0


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Images and labels, in the order of their ids.

    Attributes:
      fingerprint: hash of ids, pixels and labels, whatever files they came from and wherever they
        are held.
      image_shape: height, width, channels.
      classes: largest label + 1; 0 where there are no labels.
    """

    fingerprint: str
    image_shape: tuple[int, int, int]
    classes: int
    _pixels: np.ndarray  # uint8 [N, H * W * C], in the order they were read
    _columns: Columns

    def __len__(self) -> int:
        return len(self._columns.rows)

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copies examples.

        Args:
          indices: places in the order of ids, any shape [...].

        Returns:
          images uint8 [..., H, W, C] and labels int32 [...]; zeros without labels.
        """
        images = self._pixels[self._columns.rows[indices]]
        return images.reshape(*indices.shape, *self.image_shape), self._columns.labels[indices]

    @classmethod
    def of_arrays(cls, images: np.ndarray, labels: np.ndarray | None) -> Dataset:
        """A data set in the order given: an example's id is its position.

        Args:
          images: uint8 [N, H, W, C].
          labels: integers [N] from 0, or None.

        Raises:
          TrainerError: other shapes or types.
        """
        if images.dtype != np.uint8 or images.ndim != 4 or not len(images):
            raise TrainerError(
                f"images: got {images.dtype} {list(images.shape)}; "
                "allowed: uint8 [N, height, width, channels], N at least 1"
            )
        if labels is not None and (
            labels.shape != images.shape[:1] or not np.issubdtype(labels.dtype, np.integer)
        ):
            raise TrainerError(
                f"labels: got {labels.dtype} {list(labels.shape)}; "
                f"allowed: whole numbers [{len(images)}], one for each image"
            )
        pixels = np.ascontiguousarray(images).reshape(len(images), -1)
        values = np.zeros(len(images), np.int64) if labels is None else labels
        index = _Index("labels", labelled=labels is not None)
        index.add(
            records.Part(np.char.zfill(np.arange(len(images)).astype("S"), 20), pixels, values)
        )
        return _dataset(pixels, index.columns(), images.shape[1:])


def load(
    patterns: Sequence[str],
    *,
    image_size: int,
    channels: int,
    labelled: bool,
    memory_bytes: int,
    cache_dir: str,
    report: Callable[[str], None] = lambda line: None,
) -> Dataset:
    """Reads transformed examples, into memory or, where they are too many, into a file.

    Args:
      patterns: TFRecord files or glob patterns; names ending in `.gz` are gzip.
      image_size: height and width in pixels.
      channels: 1 or 3.
      labelled: whether to read `label`.
      memory_bytes: pixels up to this size are held in memory.
      cache_dir: local folder for larger ones, see `image_cache`; made when it is needed.
      report: told now and then how far a long reading is, and where a large data set goes.

    Raises:
      TrainerError: no examples, or examples of another shape, without their label, or with the
        id of another one; or no room in `cache_dir`.
    """
    files = records.find(patterns)
    shape = (image_size, image_size, channels)
    image_bytes = image_size * image_size * channels
    cache = ImageCache(cache_dir, files.paths, image_bytes=image_bytes, labelled=labelled)
    found = cache.open()
    if found and found[0].nbytes > memory_bytes:
        return _dataset(*found, shape)
    index = _Index(files.name, labelled=labelled)
    parts = _watched(records.read(files, image_bytes=image_bytes), index, report)
    held: collections.deque[np.ndarray] = collections.deque()
    held_bytes = 0
    for part in parts:
        held.append(part)
        held_bytes += part.nbytes
        if held_bytes > memory_bytes:
            everything = itertools.chain(_drain(held), parts)
            return _dataset(*cache.build(everything, index.columns, report), shape)
    columns = index.columns()
    pixels = np.empty((len(columns.rows), image_bytes), np.uint8)
    first = 0
    for part in _drain(held):
        pixels[first : first + len(part)] = part
        first += len(part)
    return _dataset(pixels, columns, shape)


def _watched(
    parts: Iterable[records.Part], index: _Index, report: Callable[[str], None]
) -> Iterator[np.ndarray]:
    """The pixels of what is read, once the index has the rest; says so when it takes long."""
    images, reported = 0, time.monotonic()
    for part in parts:
        index.add(part)
        images += len(part.ids)
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            report(f"reading images: {images:,} so far")
        yield part.pixels


def _drain(held: collections.deque[np.ndarray]) -> Iterator[np.ndarray]:
    """Takes parts out one by one: each may be let go of before the next is used."""
    while held:
        yield held.popleft()


def _dataset(pixels: np.ndarray, columns: Columns, shape: tuple[int, int, int]) -> Dataset:
    return Dataset(columns.fingerprint, tuple(shape), columns.classes, pixels, columns)


class _Index:
    """Gathers what is known of examples beside their pixels, in the order of reading.

    Args:
      name: of the data, for messages.
      labelled: whether labels count.
    """

    def __init__(self, name: str, *, labelled: bool):
        self._name = name
        self._labelled = labelled
        self._ids: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []
        self._digests: list[bytes] = []

    def add(self, part: records.Part) -> None:
        """Takes some examples in.

        Raises:
          TrainerError: one has no label, or a negative one.
        """
        labels = part.labels if self._labelled else np.zeros_like(part.labels)
        wrong = np.flatnonzero((labels < 0) | (labels >= 2**31))
        if len(wrong):
            label, example_id = labels[wrong[0]], part.ids[wrong[0]].decode(errors="replace")
            given = "no label" if label == records.NO_LABEL else f"the label {label}"
            raise TrainerError(
                f"{self._name}: got {given} for example {example_id}; "
                "allowed: whole numbers from 0, for every example or for none"
            )
        labels = labels.astype(np.int32)
        self._ids.append(part.ids)
        self._labels.append(labels)
        # One digest an example: then neither the order of reading matters nor where pixels are.
        self._digests.extend(
            hashlib.sha256(b"%d:%b%b" % (len(name), name, label.data) + pixels.data).digest()
            for name, label, pixels in zip(part.ids, labels, part.pixels, strict=True)
        )

    def columns(self) -> Columns:
        """Everything in the order of ids.

        Raises:
          TrainerError: no examples, or two with the same id.
        """
        if not self._ids:
            raise TrainerError(f"{self._name}: no examples found")
        ids, labels = np.concatenate(self._ids), np.concatenate(self._labels)
        rows = np.argsort(ids, kind="stable")
        ids = ids[rows]
        twice = np.flatnonzero(ids[1:] == ids[:-1])
        if len(twice):
            raise TrainerError(
                f"{self._name}: got {len(twice)} examples with the id of another one, such as "
                f"{ids[twice[0]].decode(errors='replace')}; allowed: every example once"
            )
        digest = hashlib.sha256()
        for row in rows:
            digest.update(self._digests[row])
        return Columns(
            rows=rows.astype(np.int64),
            labels=labels[rows],
            classes=int(labels.max()) + 1 if self._labelled else 0,
            fingerprint=digest.hexdigest(),
        )


@dataclasses.dataclass(frozen=True)
class Description:
    """What can be told of examples by looking at them.

    Attributes:
      image_size: height and width, pixels.
      channels: 1 or 3.
      labelled: whether there are labels.
      classes: largest label + 1; 0 where there are no labels.
    """

    image_size: int
    channels: int
    labelled: bool
    classes: int


def describe(patterns: Sequence[str]) -> Description:
    """Tells the shape of examples from the first one, and the classes from all labels.

    Args:
      patterns: TFRecord files or glob patterns; names ending in `.gz` are gzip.

    Raises:
      TrainerError: no examples, or images of a size that the networks do not build.
    """
    files = records.find(patterns)
    size = len(records.first_image(files))
    shapes = {side * side * c: (side, c) for side in IMAGE_SIZES for c in (1, 3)}
    if size not in shapes:
        raise TrainerError(f"{files.name}: got images of {size} bytes; {_ALLOWED}")
    last = max(int(part.max()) for part in records.labels(files))
    labelled = last != records.NO_LABEL
    return Description(*shapes[size], labelled, last + 1 if labelled else 0)


_ALLOWED = (
    f"allowed: uint8 pixels of square images with 1 or 3 channels, "
    f"sides {', '.join(map(str, IMAGE_SIZES))}"
)


def load_arrays(path: str) -> Dataset:
    """Reads plain arrays: `.npz` with `images` and perhaps `labels`, or a folder of `.npy`.

    Args:
      path: an `.npz` file, a folder with `images.npy` and perhaps `labels.npy` (images are then
        memory-mapped), or a folder with one `.npz`. `images`: uint8 [N, H, W] or [N, H, W, C];
        `labels`: integers [N].

    Raises:
      TrainerError: nothing of the kind, or images of a shape that the networks do not build.
    """
    try:
        images, labels = _arrays(Path(path))
    except (OSError, ValueError, KeyError) as error:
        raise TrainerError(
            f"data {path}: cannot be read ({' '.join(str(error).split())}); allowed: an .npz file "
            "with images and perhaps labels, or a folder with images.npy and perhaps labels.npy"
        ) from error
    if images.ndim == 3:
        images = images[..., None]
    sides = [(side, side, channels) for side in IMAGE_SIZES for channels in (1, 3)]
    if images.dtype != np.uint8 or images.shape[1:] not in sides:
        raise TrainerError(f"data {path}: got {images.dtype} {list(images.shape)}; {_ALLOWED}")
    return Dataset.of_arrays(images, labels)


def _arrays(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    if not path.is_dir():
        with np.load(path) as file:
            return file["images"], file.get("labels")
    archives = sorted(path.glob("*.npz"))
    if len(archives) == 1 and not (path / "images.npy").exists():
        return _arrays(archives[0])
    labels = path / "labels.npy"
    return (
        np.load(path / "images.npy", mmap_mode="r").view(np.ndarray),
        np.load(labels) if labels.exists() else None,
    )
