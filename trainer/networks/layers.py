"""What the networks are made of: named layers, their initial weights, normalisations.

Initial weights come from NumPy's Philox, keyed by seed and layer name: the same everywhere.
"""

from __future__ import annotations

import functools
import math
import zlib
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

NORM_EPSILON = 1e-5


def plan(image_size: int) -> tuple[int, int]:
    """Side of the smallest feature map, and how often it doubles to make the image."""
    base = 7 if image_size == 28 else 4
    return base, int(math.log2(image_size // base))


class Layers:
    """Makes the named layers of one network, each with its own stream of initial weights.

    Args:
      network: its name, part of the key of the initial weights.
      seed: of the initial weights.
      classes: number of labels; 0: unconditional.
      precision: a Keras policy: float32, mixed_bfloat16 or float64.
      l2_weight: factor of half the sum of squares of every kernel.

    Attributes:
      dtype: of the network's inputs and outputs, and of what is computed with full precision.
    """

    def __init__(self, network: str, *, seed: int, classes: int, precision: str, l2_weight: float):
        self._network = network
        self._seed = seed
        self._classes = classes
        self._policy = tf_keras.mixed_precision.Policy(precision)
        self._penalty = functools.partial(_half_squares, l2_weight) if l2_weight else None
        self.dtype = tf.as_dtype(self._policy.variable_dtype)

    def input(self, shape: list[int], name: str) -> tf.Tensor:
        """The network's main input, [B, *shape]."""
        return tf_keras.Input(shape, dtype=self.dtype, name=name)

    def label(self) -> tf.Tensor | None:
        """The network's second input, int64 [B]; None if it has none."""
        return tf_keras.Input([], dtype=tf.int64, name="label") if self._classes else None

    def dense(
        self, x: tf.Tensor, units: int, name: str, *, bias: bool = True, exact: bool = False
    ) -> tf.Tensor:
        """Affine map [B, N] to [B, units]; exact: not in reduced precision."""
        return tf_keras.layers.Dense(
            units,
            use_bias=bias,
            kernel_initializer=self._normal(name, fan_in=x.shape[-1]),
            kernel_regularizer=self._penalty,
            dtype=self.dtype if exact else self._policy,
            name=name,
        )(x)

    def convolution(
        self,
        x: tf.Tensor,
        filters: int,
        name: str,
        *,
        kernel: int,
        strides: int = 1,
        bias: bool = True,
        exact: bool = False,
    ) -> tf.Tensor:
        """Convolution with zero padding, [B, H, W, C] to [B, H / strides, W / strides, filters]."""
        return tf_keras.layers.Conv2D(
            filters,
            kernel,
            strides,
            "same",
            use_bias=bias,
            kernel_initializer=self._normal(name, fan_in=kernel * kernel * x.shape[-1]),
            kernel_regularizer=self._penalty,
            dtype=self.dtype if exact else self._policy,
            name=name,
        )(x)

    def transposed(
        self, x: tf.Tensor, filters: int, name: str, *, kernel: int, bias: bool
    ) -> tf.Tensor:
        """Transposed convolution of stride 2, [B, H, W, C] to [B, 2H, 2W, filters]."""
        # Each output pixel is reached by a quarter of the kernel.
        return tf_keras.layers.Conv2DTranspose(
            filters,
            kernel,
            2,
            "same",
            use_bias=bias,
            kernel_initializer=self._normal(name, fan_in=kernel * kernel * x.shape[-1] // 4),
            kernel_regularizer=self._penalty,
            dtype=self._policy,
            name=name,
        )(x)

    def norm(self, x: tf.Tensor, kind: str, label: tf.Tensor | None, name: str) -> tf.Tensor:
        """Normalises [B, H, W, C]; with labels each class has its own gains and biases."""
        if kind == "none":
            return x
        layer = LayerNorm(0 if label is None else self._classes, dtype=self._policy, name=name)
        return layer([x] if label is None else [x, label])

    def embedding(self, label: tf.Tensor, units: int, name: str) -> tf.Tensor:
        """A learned vector per class, [B, units]."""
        # Not an Embedding layer: its sparse gradients take another path through the optimizer.
        one_hot = tf.one_hot(label, self._classes, dtype=self.dtype)
        start = self._normal(name, fan_in=units)
        return tf_keras.layers.Dense(
            units, use_bias=False, kernel_initializer=start, dtype=self.dtype, name=name
        )(one_hot)

    def _normal(self, name: str, fan_in: int) -> PhiloxNormal:
        stream = zlib.crc32(f"{self._network}/{name}".encode())
        return PhiloxNormal(self._seed, stream, math.sqrt(2.0 / fan_in))


def _half_squares(weight: float, kernel: tf.Tensor) -> tf.Tensor:
    return weight * tf.nn.l2_loss(kernel)


class PhiloxNormal(tf_keras.initializers.Initializer):
    """Normal numbers from NumPy's Philox: the same on every platform and under any strategy."""

    def __init__(self, seed: int, stream: int, deviation: float):
        self._seed = seed
        self._stream = stream
        self._deviation = deviation

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> tf.Tensor:
        random = np.random.Generator(np.random.Philox(key=[self._seed, self._stream]))
        return tf.constant(random.normal(0.0, self._deviation, tuple(shape)), dtype or tf.float32)


class LayerNorm(tf_keras.layers.Layer):
    """Layer normalisation over H, W, C with a gain and a bias per channel, or per class too.

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

    def call(self, inputs: list[tf.Tensor]) -> tf.Tensor:
        x = tf.cast(inputs[0], self.variable_dtype)
        mean = tf.reduce_mean(x, axis=[1, 2, 3], keepdims=True)
        # Not tf.nn.moments: it stops the gradient of the mean, and second derivatives go wrong.
        variance = tf.reduce_mean(
            tf.math.squared_difference(x, mean), axis=[1, 2, 3], keepdims=True
        )
        gain, bias = self.gain, self.bias
        if self._classes:
            one_hot = tf.one_hot(inputs[1], self._classes, dtype=self.variable_dtype)
            gain, bias = one_hot @ gain, one_hot @ bias
        scale = tf.math.rsqrt(variance + NORM_EPSILON) * gain[:, None, None, :]
        shift = bias[:, None, None, :] - mean * scale
        return tf.cast(x * scale + shift, self.compute_dtype)
