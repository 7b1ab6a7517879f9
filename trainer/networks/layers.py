"""What the networks are made of: named layers and their initial weights.

Initial weights come from NumPy's Philox, keyed by seed and layer name: the same everywhere.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import tensorflow as tf
import tf_keras

from trainer.networks.norms import LayerNorm, SyncBatchNorm

#: Variance of initial weights times their fan, for layers that feed rectifiers (He et al., arXiv
#: 1502.01852) and for those that do not (Glorot and Bengio 2010).
HE, GLOROT = 2.0, 1.0

_NORMS = {"layer": LayerNorm, "batch": SyncBatchNorm}


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
      fan: what the initial variance is divided by: the number of inputs of an output, or the mean
        of that and the number of outputs of an input.

    Attributes:
      dtype: of the network's inputs and outputs, and of what is computed with full precision.
    """

    def __init__(
        self,
        network: str,
        *,
        seed: int,
        classes: int,
        precision: str,
        l2_weight: float,
        fan: Literal["in", "mean"],
    ):
        self._network = network
        self._seed = seed
        self._classes = classes
        self._policy = tf_keras.mixed_precision.Policy(precision)
        self._penalty = functools.partial(_half_squares, l2_weight) if l2_weight else None
        self._fan = fan
        self.dtype = tf.as_dtype(self._policy.variable_dtype)

    def input(self, shape: list[int], name: str) -> tf.Tensor:
        """The network's main input, [B, *shape]."""
        return tf_keras.Input(shape, dtype=self.dtype, name=name)

    def label(self) -> tf.Tensor | None:
        """The network's second input, int64 [B]; None if it has none."""
        return tf_keras.Input([], dtype=tf.int64, name="label") if self._classes else None

    def dense(
        self,
        x: tf.Tensor,
        units: int,
        name: str,
        *,
        bias: bool = True,
        gain: float = HE,
        exact: bool = False,
    ) -> tf.Tensor:
        """Affine map [B, N] to [B, units]; exact: not in reduced precision."""
        return tf_keras.layers.Dense(
            units,
            use_bias=bias,
            kernel_initializer=self._normal(name, gain, x.shape[-1], units),
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
        gain: float = HE,
        exact: bool = False,
    ) -> tf.Tensor:
        """Convolution with zero padding, [B, H, W, C] to [B, H / strides, W / strides, filters]."""
        area = kernel * kernel
        return tf_keras.layers.Conv2D(
            filters,
            kernel,
            strides,
            "same",
            use_bias=bias,
            kernel_initializer=self._normal(name, gain, area * x.shape[-1], area * filters),
            kernel_regularizer=self._penalty,
            dtype=self.dtype if exact else self._policy,
            name=name,
        )(x)

    def transposed(
        self, x: tf.Tensor, filters: int, name: str, *, kernel: int, bias: bool
    ) -> tf.Tensor:
        """Transposed convolution of stride 2, [B, H, W, C] to [B, 2H, 2W, filters]."""
        # Each output pixel is reached by a quarter of the kernel.
        reach = kernel * kernel // 4
        return tf_keras.layers.Conv2DTranspose(
            filters,
            kernel,
            2,
            "same",
            use_bias=bias,
            kernel_initializer=self._normal(name, HE, reach * x.shape[-1], kernel**2 * filters),
            kernel_regularizer=self._penalty,
            dtype=self._policy,
            name=name,
        )(x)

    def resampled(
        self, x: tf.Tensor, filters: int, name: str, *, resample: str, bias: bool = True
    ) -> tf.Tensor:
        """3x3 convolution after doubling (`up`) or before halving (`down`) of height and width."""
        return ResampledConvolution(
            filters,
            resample,
            use_bias=bias,
            start=self._normal(name, HE, 9 * x.shape[-1], 9 * filters),
            penalty=self._penalty,
            dtype=self._policy,
            name=name,
        )(x)

    def norm(self, x: tf.Tensor, kind: str, label: tf.Tensor | None, name: str) -> tf.Tensor:
        """Normalises [B, H, W, C]; with labels each class has its own gains and biases."""
        if kind == "none":
            return x
        classes = 0 if label is None else self._classes
        layer = _NORMS[kind](classes, dtype=self._policy, name=name)
        return layer([x] if label is None else [x, label])

    def embedding(self, label: tf.Tensor, units: int, name: str) -> tf.Tensor:
        """A learned vector per class, [B, units]."""
        # Not an Embedding layer: its sparse gradients take another path through the optimizer.
        start = self._normal(name, HE, units, units)
        return tf_keras.layers.Dense(
            units, use_bias=False, kernel_initializer=start, dtype=self.dtype, name=name
        )(self._one_hot(label))

    def with_label(self, latent: tf.Tensor, label: tf.Tensor | None, kind: str) -> tf.Tensor:
        """The latent, beside it the label where no normalisation takes it in."""
        if label is None or kind != "none":
            return latent
        return tf.concat([latent, self._one_hot(label)], axis=-1)

    def _one_hot(self, label: tf.Tensor) -> tf.Tensor:
        return tf.one_hot(label, self._classes, dtype=self.dtype)

    def _normal(self, name: str, gain: float, fan_in: int, fan_out: int) -> PhiloxNormal:
        fan = fan_in if self._fan == "in" else (fan_in + fan_out) / 2
        stream = zlib.crc32(f"{self._network}/{name}".encode())
        return PhiloxNormal(self._seed, stream, math.sqrt(gain / fan))


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


class ResampledConvolution(tf_keras.layers.Layer):
    """A 3x3 convolution and a change of resolution in one.

    `up`: nearest-neighbour doubling, then the convolution. `down`: the convolution, then the mean
    of each 2x2 square. Either is a 4x4 convolution of stride 2, transposed or not, whose kernel
    is the 3x3 one added up at four places: the same function, and 16 multiplications where there
    were 36.

    Args:
      filters: channels of the output.
      resample: up or down.
      use_bias: whether the output has one, per channel.
      start: initial kernel, [3, 3, C, filters].
      penalty: of the kernel; None: none.
    """

    def __init__(
        self,
        filters: int,
        resample: str,
        *,
        use_bias: bool,
        start: PhiloxNormal,
        penalty: Callable[[tf.Tensor], tf.Tensor] | None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self._filters = filters
        self._up = {"up": True, "down": False}[resample]
        self._use_bias = use_bias
        self._start = start
        self._penalty = penalty

    def build(self, shape: Any) -> None:
        # Added up with full precision, then cast.
        exact = {"dtype": self.variable_dtype, "experimental_autocast": False}
        self.kernel = self.add_weight(
            "kernel",
            [3, 3, shape[-1], self._filters],
            initializer=self._start,
            regularizer=self._penalty,
            **exact,
        )
        if self._use_bias:
            self.bias = self.add_weight("bias", [self._filters], initializer="zeros")
        super().build(shape)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        if self._up:
            # A transposed convolution wants its kernel turned round, inputs last.
            kernel = tf.transpose(self.kernel[::-1, ::-1], [0, 1, 3, 2])
            kernel = tf.cast(_at_four_places(kernel), self.compute_dtype)
            batch = tf.shape(x)[0] if x.shape[0] is None else x.shape[0]
            size = [batch, 2 * x.shape[1], 2 * x.shape[2], self._filters]
            y = tf.nn.conv2d_transpose(x, kernel, size, 2, "SAME")
        else:
            kernel = tf.cast(_at_four_places(self.kernel) / 4.0, self.compute_dtype)
            y = tf.nn.conv2d(x, kernel, 2, "SAME")
        return tf.nn.bias_add(y, self.bias) if self._use_bias else y


def _at_four_places(kernel: tf.Tensor) -> tf.Tensor:
    """[3, 3, C, F] to [4, 4, C, F]: the sum of the kernel moved by 0 and 1 either way."""
    none = [0, 0]
    rows = tf.pad(kernel, [[0, 1], none, none, none]) + tf.pad(kernel, [[1, 0], none, none, none])
    return tf.pad(rows, [none, [0, 1], none, none]) + tf.pad(rows, [none, [1, 0], none, none])


def mean_pool(x: tf.Tensor) -> tf.Tensor:
    """Means of 2x2 squares, [B, H, W, C] to [B, H/2, W/2, C]; twice differentiable."""
    return tf.nn.avg_pool2d(x, 2, 2, "VALID")


def nearest(x: tf.Tensor) -> tf.Tensor:
    """Every pixel four times, [B, H, W, C] to [B, 2H, 2W, C]."""
    _, height, width, channels = x.shape
    # Rows beside each other are rows doubled; the same for columns. Cheaper than tiling.
    x = tf.reshape(tf.concat([x, x], axis=2), [-1, 2 * height, width, channels])
    return tf.reshape(tf.concat([x, x], axis=3), [-1, 2 * height, 2 * width, channels])
