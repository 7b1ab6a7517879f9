"""Pieces of work: each can be sent to a worker, and reads its images there one by one."""

from __future__ import annotations

import abc
import dataclasses
import functools
import gzip
import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, cast

if TYPE_CHECKING:
    import numpy as np

#: Keys under which public data sets keep the encoded image and its label, most telling first.
IMAGE_KEYS = ("image", "image/encoded", "image_raw", "encoded")
LABEL_KEYS = ("label", "image/class/text", "image/class/label")


@dataclasses.dataclass(frozen=True)
class RawImage:
    """One image as the source has it.

    Attributes:
      path: where it is, relative to the source's root; `file#index` inside a file of many.
      label: name of its class, or None.
      data: the encoded file; empty where `pixels` or `problem` is given.
      pixels: uint8 [height, width], where the source keeps pixels.
      format: name of a source that keeps pixels; None: told by the data.
      problem: why it cannot be read; None: it could.
    """

    path: str
    label: str | None = None
    data: bytes = b""
    pixels: np.ndarray | None = None
    format: str | None = None
    problem: str | None = None


@dataclasses.dataclass(frozen=True)
class Chunk(abc.ABC):
    """Some images of a source that are read together.

    Attributes:
      split: `train` or `eval` where the source says so; None: to be chosen per image.
    """

    split: str | None

    @abc.abstractmethod
    def read(self) -> Iterator[RawImage]:
        """Reads the images, in an order that never changes, holding one at a time."""


@dataclasses.dataclass(frozen=True)
class FilesChunk(Chunk):
    """Image files below `root`: (relative path, label) each."""

    root: str
    files: tuple[tuple[str, str | None], ...]

    def read(self) -> Iterator[RawImage]:
        for path, label in self.files:
            try:
                with open(os.path.join(self.root, path), "rb") as file:
                    yield RawImage(path, label, file.read())
            except OSError as error:
                yield RawImage(path, label, problem=f"cannot be read: {error.strerror}")


def open_maybe_gzip(path: str) -> BinaryIO:
    """Opens a file for reading, unpacked where it is gzipped, whatever its name."""
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast(BinaryIO, gzip.open(path)) if zipped else open(path, "rb")


@dataclasses.dataclass(frozen=True)
class IdxChunk(Chunk):
    """Images `start` to `start + count` of an IDX file of grey images."""

    root: str
    images: str
    labels: str | None
    height: int
    width: int
    start: int
    count: int

    def read(self) -> Iterator[RawImage]:
        import numpy as np

        size = self.height * self.width
        labels: list[int] = []
        if self.labels:
            with open_maybe_gzip(os.path.join(self.root, self.labels)) as file:
                file.seek(8 + self.start)
                labels = list(file.read(self.count))
        with open_maybe_gzip(os.path.join(self.root, self.images)) as file:
            file.seek(16 + self.start * size)
            for index in range(self.count):
                pixels = np.frombuffer(file.read(size), np.uint8).reshape(self.height, self.width)
                label = str(labels[index]) if labels else None
                path = f"{self.images}#{self.start + index}"
                yield RawImage(path, label, pixels=pixels, format="idx")


@dataclasses.dataclass(frozen=True)
class TfRecordChunk(Chunk):
    """A TFRecord file of tf.Examples."""

    root: str
    path: str

    def read(self) -> Iterator[RawImage]:
        import tensorflow as tf

        full = os.path.join(self.root, self.path)
        with open(full, "rb") as file:
            zipped = file.read(3) == b"\x1f\x8b\x08"
        records = iter(tf.data.TFRecordDataset(full, "GZIP" if zipped else ""))
        for index in itertools.count():
            path = f"{self.path}#{index}"
            try:
                record = next(records).numpy()
            except StopIteration:
                return
            except tf.errors.OpError:
                # Records have no marks to find the next one by: the rest of the file is lost.
                yield RawImage(path, problem="corrupted record; the rest of the file is lost")
                return
            yield _from_example(path, record)


def _from_example(path: str, record: bytes) -> RawImage:
    import tensorflow as tf
    from google.protobuf.message import DecodeError

    try:
        features = tf.train.Example.FromString(record).features.feature
        data = next((v for k in IMAGE_KEYS if (v := _value(features, k)) is not None), None)
        label = next((v for k in LABEL_KEYS if (v := _value(features, k)) is not None), None)
        label = label.decode("utf-8") if isinstance(label, bytes) else label
    except DecodeError:
        return RawImage(path, problem="not a tf.Example")
    except UnicodeDecodeError:
        return RawImage(path, problem="label is not UTF-8")
    if not isinstance(data, bytes):
        keys = ", ".join(sorted(features)) or "none"
        return RawImage(path, problem=f"no bytes feature {' or '.join(IMAGE_KEYS)}; found: {keys}")
    return RawImage(path, None if label is None else str(label), data)


def _value(features: Any, key: str) -> Any:
    if key not in features:
        return None
    kind = features[key].WhichOneof("kind")
    values = getattr(features[key], kind).value if kind else ()
    return values[0] if values else None


@dataclasses.dataclass(frozen=True)
class DigitsChunk(Chunk):
    """Some of scikit-learn's 1,797 handwritten digits, 8x8, brought from 0..16 to 0..255."""

    start: int
    count: int

    def read(self) -> Iterator[RawImage]:
        pixels, labels = _load_digits()
        for index in range(self.start, self.start + self.count):
            path, label = f"digits#{index:04}", str(labels[index])
            yield RawImage(path, label, pixels=pixels[index], format="digits")


@functools.cache
def _load_digits() -> tuple[Any, Any]:
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    return np.round(digits.images * 255 / 16).astype(np.uint8), digits.target
