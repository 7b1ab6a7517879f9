"""Which examples make which batch, and how the batches reach the replicas."""

from __future__ import annotations

import concurrent.futures
import functools

import numpy as np
import tensorflow as tf

from trainer.data import Dataset


class BatchOrder:
    """Which examples make which global batch: a pure function of seed, variant and place.

    The examples are an endless stream, every epoch of it a shuffle of its own, and the critic's
    batches are its consecutive pieces: no example is left out, a batch may span epochs, and a
    data set may be smaller than a batch.

    Args:
      examples: in the data set.
      seed: of all shuffles.
      batch_size: of the global batch.
      critic_steps: batches per generator step.
      variant: another family of shuffles for each number, to go another way after a rollback.
    """

    def __init__(
        self, examples: int, *, seed: int, batch_size: int, critic_steps: int, variant: int = 0
    ):
        self._examples = examples
        self._batch_size = batch_size
        self._critic_steps = critic_steps

        # A block of batches seldom sees more epochs than these two, and millions of examples
        # make a shuffle of tens of megabytes.
        @functools.lru_cache(maxsize=2)
        def shuffle(epoch: int) -> np.ndarray:
            # The highest word of the counter: a shuffle never draws enough to get there.
            philox = np.random.Philox(key=[seed, epoch], counter=[0, 0, 0, variant])
            return np.random.Generator(philox).permutation(examples)

        self._shuffle = shuffle

    def indices(self, step: int, sub_step: int) -> np.ndarray:
        """Examples of one critic update's global batch, int64 [batch_size].

        Args:
          step: generator step, from 0.
          sub_step: critic update before it, from 0.
        """
        first = (step * self._critic_steps + sub_step) * self._batch_size
        return self._stream(first, self._batch_size)

    def block(self, step: int, steps: int) -> np.ndarray:
        """Examples of all batches of consecutive steps.

        Args:
          step: first generator step, from 0.
          steps: number of steps.

        Returns:
          int64 [steps, critic_steps, batch_size]; `[i, j]` is `indices(step + i, j)`.
        """
        shape = (steps, self._critic_steps, self._batch_size)
        first = step * self._critic_steps * self._batch_size
        return self._stream(first, int(np.prod(shape))).reshape(shape)

    def _stream(self, first: int, count: int) -> np.ndarray:
        """Examples at `count` consecutive places of the endless stream."""
        pieces = []
        while count:
            epoch, offset = divmod(first, self._examples)
            pieces.append(self._shuffle(epoch)[offset : offset + count])
            first += len(pieces[-1])
            count -= len(pieces[-1])
        return np.concatenate(pieces)


class Feed:
    """Hands every replica its slice of the coming global batches, prepared in the background.

    A worker gathers the rows of its own replicas only, because a strategy of several workers asks
    each of them for the values of its local replicas.

    Args:
      dataset: what is fed.
      order: which examples make which batch.
      strategy: whose replicas are fed.
      batch_size: of the global batch; a multiple of the number of replicas.
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
        indices = self._order.block(step, self._steps)

        labels = {}

        # What this returns has to be one tensor; the labels are gathered along the way.
        def images_of(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            replica = context.replica_id_in_sync_group
            rows = indices[:, :, replica * self._slice : (replica + 1) * self._slice]
            images, labels[replica] = self._dataset.gather(rows)
            return _on_host(images)

        def labels_of(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            return _on_host(labels[context.replica_id_in_sync_group])

        distribute = self._strategy.experimental_distribute_values_from_function
        return distribute(images_of), distribute(labels_of)


def _on_host(array: np.ndarray) -> tf.Tensor:
    """In host memory: the first accelerator would otherwise hold the slices of all replicas."""
    with tf.device("/CPU:0"):
        return tf.constant(array)
