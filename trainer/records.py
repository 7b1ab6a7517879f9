"""TFRecord files of transformed examples: finding and reading them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from trainer.errors import TrainerError

#: Examples parsed together, at most; and about how many bytes of them, because a dozen such
#: pieces are in flight.
_BATCH, _BATCH_BYTES = 1024, 4 * 2**20
#: Files read at once, and examples taken from one in turn.
_PARALLEL_FILES, _BLOCK = 4, 16
#: Stands for a label that an example does not have.
NO_LABEL = -(2**62)

_IMAGE = {"image": tf.io.FixedLenFeature([], tf.string)}
_ID = {"example_id": tf.io.FixedLenFeature([], tf.string)}
_LABEL = {"label": tf.io.FixedLenFeature([], tf.int64, default_value=NO_LABEL)}


@dataclasses.dataclass(frozen=True)
class Files:
    """Files that hold one data set.

    Attributes:
      patterns: what the user gave.
      paths: what was found, sorted.
    """

    patterns: tuple[str, ...]
    paths: tuple[str, ...]

    @property
    def name(self) -> str:
        """For messages."""
        return f"training data {', '.join(self.patterns) or '(none)'}"


@dataclasses.dataclass(frozen=True)
class Part:
    """Some examples.

    Attributes:
      ids: bytes [n].
      pixels: uint8 [n, H * W * C].
      labels: int64 [n], `NO_LABEL` where an example has none.
    """

    ids: np.ndarray
    pixels: np.ndarray
    labels: np.ndarray


def find(patterns: Sequence[str]) -> Files:
    """Files or glob patterns, local or remote, to files.

    Raises:
      TrainerError: there are none, or nobody knows.
    """
    files = Files(tuple(patterns), ())
    try:
        paths = {path for pattern in patterns for path in tf.io.gfile.glob(pattern)}
    except tf.errors.OpError as error:
        raise TrainerError(f"{files.name}: cannot be looked for ({_brief(error)})") from error
    files = dataclasses.replace(files, paths=tuple(sorted(paths)))
    if not paths:
        raise TrainerError(f"{files.name}: no examples found")
    return files


def read(files: Files, image_shape: tuple[int, int, int], *, labelled: bool) -> Iterator[Part]:
    """Reads examples some at a time, several files at once, always in the same order.

    Args:
      files: TFRecords; names ending in `.gz` are gzip.
      image_shape: height, width, channels of every image.
      labelled: whether to read labels; zeros otherwise.

    Raises:
      TrainerError: not such examples.
    """
    height, width, channels = image_shape
    size = height * width * channels
    features = _IMAGE | _ID | (_LABEL if labelled else {})

    def parse(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        parsed = tf.io.parse_example(serialized, features)
        pixels = tf.io.decode_raw(parsed["image"], tf.uint8)
        pixels = tf.reshape(pixels, [tf.shape(serialized)[0], -1])
        labels = parsed.get("label", tf.zeros(tf.shape(serialized), tf.int64))
        return parsed["example_id"], tf.ensure_shape(pixels, [None, size]), labels

    what = f"{height}x{width}x{channels} examples"
    together = min(_BATCH, max(1, _BATCH_BYTES // size))
    for ids, pixels, labels in _batches(files, parse, what, together):
        yield Part(ids.astype("S"), pixels, labels)


def labels(files: Files) -> Iterator[np.ndarray]:
    """Labels alone, int64 [n] at a time, `NO_LABEL` where an example has none.

    Raises:
      TrainerError: not examples.
    """

    def parse(serialized: tf.Tensor) -> tuple[tf.Tensor]:
        return (tf.io.parse_example(serialized, _LABEL)["label"],)

    return (part for (part,) in _batches(files, parse, "examples"))


def first_image(files: Files) -> bytes:
    """Pixels of the first example.

    Raises:
      TrainerError: there is none.
    """

    def parse(serialized: tf.Tensor) -> tuple[tf.Tensor]:
        return (tf.io.parse_example(serialized, _IMAGE)["image"],)

    for (images,) in _batches(files, parse, "examples", 1):
        return images[0]
    raise TrainerError(f"{files.name}: no examples found")


def _batches(
    files: Files, parse: Callable[[tf.Tensor], tuple], what: str, together: int = 128
) -> Iterator[tuple]:
    """What `parse` makes of `together` serialized examples at a time; `what` they should be."""
    compressions = ["GZIP" if path.endswith(".gz") else "" for path in files.paths]
    records = tf.data.Dataset.from_tensor_slices((list(files.paths), compressions)).interleave(
        tf.data.TFRecordDataset,
        cycle_length=_PARALLEL_FILES,
        block_length=_BLOCK,
        num_parallel_calls=_PARALLEL_FILES,
        deterministic=True,
    )
    parsed = records.batch(together).map(parse, num_parallel_calls=2, deterministic=True)
    try:
        yield from parsed.prefetch(2).as_numpy_iterator()
    except tf.errors.OpError as error:
        raise TrainerError(
            f"{files.name}: not {what} as Transform writes them ({_brief(error)})"
        ) from error


def _brief(error: tf.errors.OpError) -> str:
    # Without TensorFlow's names of operations, which tell the user nothing.
    text = re.sub(r"\{\{.*?\}\}|\[Op:.*|\[\[.*", "", " ".join(error.message.split()))
    return text.strip()[:200]
