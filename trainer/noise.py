"""Random numbers of training: a function of seed, step and purpose, whatever the replicas."""

from __future__ import annotations

import dataclasses
import enum

import tensorflow as tf

#: Named, because the default algorithm differs between CPU and TPU.
ALGORITHM = "philox"


class Purpose(enum.IntEnum):
    """What random numbers are for; each purpose has a stream of its own."""

    CRITIC_LATENT = 0
    GENERATOR_LATENT = 1
    ALPHA = 2
    FLIP = 3
    SAMPLE_LATENT = 4
    VALIDATION_LATENT = 5
    VALIDATION_ALPHA = 6


@dataclasses.dataclass(frozen=True)
class Noise:
    """Random numbers of the whole global batch, of which every replica takes its slice.

    Every replica draws all of them and keeps its own: so that nobody has to add up what was drawn
    where, and one replica or eight see the same batch of numbers, bit for bit.

    Attributes:
      seed: `training.seed`.
      batch_size: of the global batch.
      replicas: that share it.
    """

    seed: int
    batch_size: int
    replicas: int

    def normal(
        self, purpose: Purpose, step: tf.Tensor, sub_step: tf.Tensor, size: int
    ) -> tf.Tensor:
        """This replica's numbers from N(0, 1), float32 [batch_size / replicas, size]."""
        key = self._key(purpose, step, sub_step)
        return self._own(tf.random.stateless_normal([self.batch_size, size], key, alg=ALGORITHM))

    def uniform(self, purpose: Purpose, step: tf.Tensor, sub_step: tf.Tensor) -> tf.Tensor:
        """This replica's numbers from U[0, 1), float32 [batch_size / replicas, 1, 1, 1]."""
        key = self._key(purpose, step, sub_step)
        shape = [self.batch_size, 1, 1, 1]
        return self._own(tf.random.stateless_uniform(shape, key, alg=ALGORITHM))

    def _key(self, purpose: Purpose, step: tf.Tensor, sub_step: tf.Tensor) -> tf.Tensor:
        place = tf.cast(step, tf.int64) * 2**16 + tf.cast(sub_step, tf.int64)
        return tf.stack([tf.constant(stream(self.seed, purpose), tf.int64), place])

    def _own(self, whole: tf.Tensor) -> tf.Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        size = self.batch_size // self.replicas
        own = tf.slice(
            whole, [replica * size] + [0] * (whole.shape.rank - 1), [size, *whole.shape[1:]]
        )
        return tf.ensure_shape(own, [size, *whole.shape[1:]])


def fixed_normal(seed: int, purpose: Purpose, shape: list[int]) -> tf.Tensor:
    """Numbers from N(0, 1) that are the same throughout a run, float32 of that shape."""
    return tf.random.stateless_normal(shape, [stream(seed, purpose), 0], alg=ALGORITHM)


def fixed_uniform(seed: int, purpose: Purpose, shape: list[int]) -> tf.Tensor:
    """Numbers from U[0, 1) that are the same throughout a run, float32 of that shape."""
    return tf.random.stateless_uniform(shape, [stream(seed, purpose), 0], alg=ALGORITHM)


def stream(seed: int, purpose: Purpose) -> int:
    """First half of the key of everything that is drawn for a purpose."""
    return seed * 2**8 + purpose
