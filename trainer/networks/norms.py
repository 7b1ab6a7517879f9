"""Normalisation of feature maps [B, H, W, C], with gains and biases that may depend on a label.

Written out as one scaling and one shift per example and channel: few passes over the data, twice
differentiable, and nothing that a TPU or a CPU's graph rewriting would stumble over. Statistics
are never taken in reduced precision.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

EPSILON = 1e-5
#: Per update. Short, because the statistics follow weights that change with every step, and a
#: generator runs several times in each.
MOMENTUM = 0.9


class _Norm(tf_keras.layers.Layer):
    """What the normalisations share: gain and bias per channel, or per class and channel.

    Called with [x] or [x, label]: x [B, H, W, C], label integer [B].

    Args:
      classes: rows of gains and biases, chosen by label; 0: one row for all.
    """

    def __init__(self, classes: int, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self._classes = classes

    def build(self, shapes: Any) -> None:
        rows = [max(self._classes, 1), shapes[0][-1]]
        exact = {"shape": rows, "dtype": self.variable_dtype, "experimental_autocast": False}
        self.gain = self.add_weight("gain", initializer="ones", **exact)
        self.bias = self.add_weight("bias", initializer="zeros", **exact)
        super().build(shapes)

    def call(self, inputs: list[tf.Tensor], training: bool | None = None) -> tf.Tensor:
        x = tf.cast(inputs[0], self.variable_dtype)
        mean, variance = self.moments(x, bool(training))
        gain, bias = self.gain, self.bias
        if self._classes:
            one_hot = tf.one_hot(inputs[1], self._classes, dtype=self.variable_dtype)
            gain, bias = one_hot @ gain, one_hot @ bias
        scale = tf.math.rsqrt(variance + EPSILON) * gain[:, None, None, :]
        shift = bias[:, None, None, :] - mean * scale
        return tf.cast(x * scale + shift, self.compute_dtype)

    def moments(self, x: tf.Tensor, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of [B, H, W, C], of a shape that broadcasts to it."""
        raise NotImplementedError


class LayerNorm(_Norm):
    """Layer normalisation (arXiv 1607.06450) over H, W and C: each example by itself."""

    def moments(self, x: tf.Tensor, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        mean = tf.reduce_mean(x, axis=[1, 2, 3], keepdims=True)
        # Not tf.nn.moments: it stops the gradient at the mean, so second derivatives go wrong.
        squares = tf.math.squared_difference(x, mean)
        return mean, tf.reduce_mean(squares, axis=[1, 2, 3], keepdims=True)


class SyncBatchNorm(_Norm):
    """Batch normalisation (arXiv 1502.03167) over the global batch, on however many replicas.

    In training the sums are added up over the replicas, and so are the gradients that flow back
    through them: the result is that of one device with the whole batch. Every replica must have
    equally many examples. Otherwise moving averages are used, which training has kept.
    """

    def build(self, shapes: Any) -> None:
        super().build(shapes)
        # Every replica assigns the same value. Never one copy per replica that is reduced when
        # read: what is read inside and outside of replicas must be the same.
        kept = {
            "shape": [shapes[0][-1]],
            "dtype": self.variable_dtype,
            "experimental_autocast": False,
            "trainable": False,
            "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
        }
        self.moving_mean = self.add_weight("moving_mean", initializer="zeros", **kept)
        self.moving_variance = self.add_weight("moving_variance", initializer="ones", **kept)

    def moments(self, x: tf.Tensor, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        if not training:
            return self.moving_mean, self.moving_variance
        mean = _over_replicas(tf.reduce_mean(x, axis=[0, 1, 2]))
        # The mean first, then squares around it: no difference of large numbers.
        squares = tf.math.squared_difference(x, mean)
        variance = _over_replicas(tf.reduce_mean(squares, axis=[0, 1, 2]))
        for kept, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
            kept.assign(MOMENTUM * kept + (1.0 - MOMENTUM) * tf.stop_gradient(new))
        return mean, variance


def _over_replicas(value: tf.Tensor) -> tf.Tensor:
    """Mean over the replicas; its gradient is all-reduced too."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return value
    total = context.all_reduce(tf.distribute.ReduceOp.SUM, value)
    return total / context.num_replicas_in_sync
