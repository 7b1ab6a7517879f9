"""Transformed examples to global batches: a pure function of seed, step and critic sub-step."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from trainer.errors import TrainerError

_READ_BATCH = 1024


@dataclasses.dataclass(frozen=True)
class Dataset:
    """All examples in memory, in the order of their ids.

    Attributes:
      images: uint8 [N, H, W, C].
      labels: int32 [N]; zeros where there are none.
      fingerprint: hash of ids, pixels and labels.
    """

    images: np.ndarray
    labels: np.ndarray
    fingerprint: str


def load(patterns: Sequence[str], *, image_size: int, channels: int, labelled: bool) -> Dataset:
    """Reads transformed examples.

    Args:
      patterns: TFRecord files or glob patterns; names ending in `.gz` are gzip.
      image_size: height and width in pixels.
      channels: 1 or 3.
      labelled: whether to read `label`.

    Raises:
      TrainerError: no examples, or examples of another shape.
    """
    files = sorted(file for pattern in patterns for file in tf.io.gfile.glob(pattern))
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "example_id": tf.io.FixedLenFeature([], tf.string),
    }
    if labelled:
        features["label"] = tf.io.FixedLenFeature([], tf.int64)
    size = image_size * image_size * channels
    parts = []
    try:
        for file in files:
            records = tf.data.TFRecordDataset(file, "GZIP" if file.endswith(".gz") else "")
            for batch in records.batch(_READ_BATCH):
                parts.append(_parse(batch, features, size))
    except tf.errors.OpError as error:
        raise TrainerError(
            f"training data {', '.join(patterns)}: not {image_size}x{image_size}x{channels} "
            f"examples as Transform writes them ({' '.join(error.message.split())[:200]})"
        ) from error
    if not parts:
        raise TrainerError(f"training data {', '.join(patterns) or '(none)'}: no examples found")
    ids, images, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(ids, kind="stable")
    images = images[order].reshape(-1, image_size, image_size, channels)
    labels = labels[order]
    digest = hashlib.sha256(b"\0".join(ids[order]))
    digest.update(images.data)
    digest.update(labels.data)
    return Dataset(images=images, labels=labels, fingerprint=digest.hexdigest())


def _parse(batch: tf.Tensor, features: dict, size: int) -> tuple[np.ndarray, ...]:
    parsed = tf.io.parse_example(batch, features)
    images = tf.io.decode_raw(parsed["image"], tf.uint8)
    images = tf.ensure_shape(tf.reshape(images, [tf.shape(batch)[0], -1]), [None, size])
    labels = parsed.get("label", tf.zeros_like(batch, tf.int64))
    return parsed["example_id"].numpy(), images.numpy(), labels.numpy().astype(np.int32)


class BatchOrder:
    """Which examples make which global batch.

    The examples are an endless stream, every epoch of it a shuffle of its own, and the critic's
    batches are its consecutive pieces: no example is left out, a batch may span epochs, and a
    data set may be smaller than a batch.
    """

    def __init__(self, examples: int, *, seed: int, batch_size: int, critic_steps: int):
        self._examples = examples
        self._batch_size = batch_size
        self._critic_steps = critic_steps

        @functools.lru_cache(maxsize=4)
        def shuffle(epoch: int) -> np.ndarray:
            random = np.random.Generator(np.random.Philox(key=[seed, epoch]))
            return random.permutation(examples)

        self._shuffle = shuffle

    def indices(self, step: int, sub_step: int) -> np.ndarray:
        """Examples of one critic update's global batch, int64 [batch_size].

        Args:
          step: generator step, from 0.
          sub_step: critic update before it, from 0.
        """
        start = (step * self._critic_steps + sub_step) * self._batch_size
        places = np.arange(start, start + self._batch_size)
        epochs, offsets = np.divmod(places, self._examples)
        indices = np.empty_like(places)
        for epoch in np.unique(epochs):
            inside = epochs == epoch
            indices[inside] = self._shuffle(int(epoch))[offsets[inside]]
        return indices


class Feed:
    """Hands every replica its slice of the coming global batches, prepared in the background.

    Args:
      dataset: what is fed.
      order: which examples make which batch.
      strategy: whose replicas are fed.
      batch_size: of the global batch.
      critic_steps: batches per step.
      steps_per_call: steps in one chunk.
    """

    def __init__(
        self,
        dataset: Dataset,
        order: BatchOrder,
        strategy: tf.distribute.Strategy,
        *,
        batch_size: int,
        critic_steps: int,
        steps_per_call: int,
    ):
        self._dataset = dataset
        self._order = order
        self._strategy = strategy
        self._slice = batch_size // strategy.num_replicas_in_sync
        self._critic_steps = critic_steps
        self._steps = steps_per_call
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._next: tuple[int, concurrent.futures.Future] | None = None

    def chunk(self, step: int, then: int | None = None) -> tuple:
        """Batches of the steps from `step` on.

        Args:
          step: first step.
          then: first step of the chunk that will be asked for next.

        Returns:
          images uint8 [steps_per_call, critic_steps, batch_size / replicas, H, W, C] and labels
          int32 [steps_per_call, critic_steps, batch_size / replicas], distributed values.
        """
        if self._next is None or self._next[0] != step:
            self._next = (step, self._thread.submit(self._gather, step))
        chunk = self._next[1].result()
        if then is not None:
            self._next = (then, self._thread.submit(self._gather, then))
        return chunk

    def close(self) -> None:
        """Ends the background thread."""
        self._thread.shutdown(cancel_futures=True)

    def _gather(self, step: int) -> tuple:
        indices = np.stack(
            [
                [self._order.indices(step + i, j) for j in range(self._critic_steps)]
                for i in range(self._steps)
            ]
        )

        def of(array: np.ndarray) -> Callable[[tf.distribute.experimental.ValueContext], tf.Tensor]:
            def value(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
                first = context.replica_id_in_sync_group * self._slice
                return tf.constant(array[indices[:, :, first : first + self._slice]])

            return value

        distribute = self._strategy.experimental_distribute_values_from_function
        return distribute(of(self._dataset.images)), distribute(of(self._dataset.labels))
