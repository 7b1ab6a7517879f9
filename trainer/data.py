"""Training data: transformed examples or plain arrays, in memory or in a memory-mapped file."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from trainer import records
from trainer.columns import Collector, Columns
from trainer.errors import TrainerError
from trainer.image_cache import ImageCache
from trainer.options import IMAGE_SIZES

_REPORT_SECONDS = 10.0


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Images and labels, in the order of their ids.

    Attributes:
      image_shape: height, width, channels.
    """

    image_shape: tuple[int, int, int]
    _pixels: np.ndarray  # uint8 [N, H * W * C], in the order of reading
    _columns: Columns

    @property
    def fingerprint(self) -> str:
        """Hash of ids, pixels and labels, whatever files they came from and wherever they are."""
        return self._columns.fingerprint

    @property
    def classes(self) -> int:
        """Largest label + 1; 0 where there are no labels."""
        return self._columns.classes

    @property
    def labels(self) -> np.ndarray:
        """int32 [N], in the order of ids; zeros where there are none."""
        return self._columns.labels

    def __len__(self) -> int:
        return len(self._columns.rows)

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Copies examples.

        Args:
          indices: places in the order of ids, any shape [...].

        Returns:
          images uint8 [..., H, W, C] and labels int32 [...]; zeros without labels.
        """
        images = self._pixels.take(self._columns.rows[indices], axis=0)
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
        ids = np.char.zfill(np.arange(len(images)).astype("S"), 20)
        values = np.zeros(len(images), np.int64) if labels is None else labels
        collector = Collector("labels", labelled=labels is not None)
        collector.add(records.Part(ids, pixels, values))
        height, width, channels = images.shape[1:]
        return cls((height, width, channels), pixels, collector.columns())


def load(
    patterns: Sequence[str],
    *,
    image_size: int,
    channels: int,
    labelled: bool,
    memory_bytes: int,
    cache_dir: str,
    unknown_labels: bool = False,
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
      unknown_labels: whether a label may be -1: Transform's id for one that training lacks.
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
        return Dataset(shape, *found)
    collector = Collector(files.name, labelled=labelled, unknown_labels=unknown_labels)
    parts = _watched(records.read(files, shape, labelled=labelled), collector, report)
    held: collections.deque[np.ndarray] = collections.deque()
    held_bytes = 0
    for part in parts:
        held.append(part)
        held_bytes += part.nbytes
        if held_bytes > memory_bytes:
            everything = itertools.chain(_drain(held), parts)
            return Dataset(shape, *cache.build(everything, collector.columns, report))
    pixels = np.empty((held_bytes // image_bytes, image_bytes), np.uint8)
    first = 0
    for part in _drain(held):
        pixels[first : first + len(part)] = part
        first += len(part)
    return Dataset(shape, pixels, collector.columns())


def _watched(
    parts: Iterable[records.Part], collector: Collector, report: Callable[[str], None]
) -> Iterator[np.ndarray]:
    """The pixels of what is read, once the collector has the rest; says so when it takes long."""
    images, reported = 0, time.monotonic()
    for part in parts:
        collector.add(part)
        images += len(part.ids)
        if time.monotonic() - reported > _REPORT_SECONDS:
            reported = time.monotonic()
            report(f"reading images: {images:,} so far")
        yield part.pixels


def _drain(held: collections.deque[np.ndarray]) -> Iterator[np.ndarray]:
    """Takes parts out one by one: each may be let go of before the next is used."""
    while held:
        yield held.popleft()


@dataclasses.dataclass(frozen=True)
class Description:
    """What can be told of examples by looking at them.

    Attributes:
      image_size: height and width, pixels.
      channels: 1 or 3.
      labelled: whether there are labels.
      classes: largest label + 1; 0 where there are no labels.
      examples: how many there are.
    """

    image_size: int
    channels: int
    labelled: bool
    classes: int
    examples: int

    def __str__(self) -> str:
        """Size and labels in words."""
        size, labels = self.image_size, "labels" if self.labelled else "no labels"
        return f"{size}x{size}x{self.channels} with {labels}"


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
    last, examples = records.NO_LABEL, 0
    for part in records.labels(files):
        last, examples = max(last, int(part.max())), examples + len(part)
    labelled = last != records.NO_LABEL
    return Description(*shapes[size], labelled, last + 1 if labelled else 0, examples)


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
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
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
