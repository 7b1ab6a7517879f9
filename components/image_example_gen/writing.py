"""Images of a chunk to the shards of its examples, and the count of what became of them."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import uuid
from collections import Counter
from collections.abc import Iterable

import tensorflow as tf
from tfx.dsl.io import fileio

from components.image_example_gen import decoding
from components.image_example_gen.chunks import Chunk, RawImage

SPLITS = ("train", "eval")


@dataclasses.dataclass(frozen=True)
class Shards:
    """Where a chunk's examples go: one file for each split, whether or not any falls to it.

    Attributes:
      files: split to path.
      temporary: folder for files that are being written, on the same file system; not below
        those of the splits, where every file counts as data.
      eval_fraction: share of images held out where the source has no splits.
    """

    files: dict[str, str]
    temporary: str
    eval_fraction: float


@dataclasses.dataclass
class Outcome:
    """What became of images.

    Attributes:
      accepted: examples by split.
      quarantined: `{"path", "reason"}` of each image left out.
    """

    accepted: Counter[str] = dataclasses.field(default_factory=Counter)
    quarantined: list[dict[str, str]] = dataclasses.field(default_factory=list)

    @classmethod
    def merged(cls, outcomes: Iterable[Outcome]) -> Outcome:
        """The sum of outcomes, sorted by path."""
        total = cls()
        for outcome in outcomes:
            total.accepted.update(outcome.accepted)
            total.quarantined.extend(outcome.quarantined)
        total.quarantined.sort(key=lambda item: item["path"])
        return total


def write_chunk(chunk: Chunk, shards: Shards) -> Outcome:
    """Reads, checks and writes the images of a chunk.

    Doing it twice, even at once, gives the same files: each attempt writes under a name of its
    own, and renames at the end.

    Args:
      chunk: what to read.
      shards: where to write; the examples are gzipped TFRecords of tf.Example.
    """
    outcome = Outcome()
    attempt = uuid.uuid4().hex
    temporary = {split: f"{shards.temporary}/{attempt}-{split}" for split in shards.files}
    # The images are compressed already.
    options = tf.io.TFRecordOptions("GZIP", compression_level=1)
    with contextlib.ExitStack() as stack:
        writers = {
            split: stack.enter_context(tf.io.TFRecordWriter(path, options))
            for split, path in temporary.items()
        }
        for raw in chunk.read():
            try:
                example_id, example = make_example(raw)
            except decoding.UndecodableImage as error:
                outcome.quarantined.append({"path": raw.path, "reason": str(error)})
                continue
            split = chunk.split or choose_split(example_id, shards.eval_fraction)
            writers[split].write(example.SerializeToString(deterministic=True))
            outcome.accepted[split] += 1
    for split, path in shards.files.items():
        fileio.rename(temporary[split], path, overwrite=True)
    return outcome


def make_example(raw: RawImage) -> tuple[str, tf.train.Example]:
    """Makes the raw example of an image.

    Returns:
      Its id, and a tf.Example with `image` (PNG or JPEG), `height`, `width`, `channels`,
      `format` and `path` of the source, `example_id`, and `label` where there is one.

    Raises:
      UndecodableImage: where there is no image in it.
    """
    if raw.problem:
        raise decoding.UndecodableImage(raw.problem)
    if raw.pixels is None:
        content, stored = raw.data, decoding.decode(raw.data)
    else:
        content, stored = raw.pixels.tobytes(), decoding.encode_pixels(raw.pixels, str(raw.format))
    path = os.fsencode(raw.path)
    example_id = hashlib.sha256(path + b"\0" + content).hexdigest()[:32]
    features = {
        "image": _bytes(stored.data),
        "height": _int(stored.height),
        "width": _int(stored.width),
        "channels": _int(stored.channels),
        "format": _bytes(stored.format.encode()),
        "path": _bytes(path),
        "example_id": _bytes(example_id.encode()),
    }
    if raw.label is not None:
        features["label"] = _bytes(raw.label.encode("utf-8", "replace"))
    return example_id, tf.train.Example(features=tf.train.Features(feature=features))


def choose_split(example_id: str, eval_fraction: float) -> str:
    """The split of an image, by its id alone: adding or removing others does not move it."""
    return "eval" if int(example_id[:16], 16) < eval_fraction * 2**64 else "train"


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _int(value: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
