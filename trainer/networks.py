"""Generator and critic: plain networks that know nothing of losses or distribution.

DCGAN-like (arXiv 1511.06434): the image is halved or doubled by strided convolutions, from 4x4
(7x7 for 28). Layer normalisation as WGAN-GP asks for (arXiv 1704.00028, section 4): every
example is normalised by itself, so nothing depends on how the batch is split over replicas.
Initial weights come from NumPy's Philox, keyed by seed and layer name: the same everywhere.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from trainer.options import IMAGE_SIZES, ModelOptions

KERNEL = 4
LEAK = 0.2
#: Deepest blocks are at most this many times as wide as the shallowest.
MAX_WIDENING = 8
NORM_EPSILON = 1e-5


def build_generator(
    options: ModelOptions, *, image_size: int, channels: int, classes: int, seed: int
) -> tf_keras.Model:
    """Latent (and label) to image.

    Args:
      options: widths and the length of the latent.
      image_size: height and width, one of `IMAGE_SIZES`.
      channels: of the image, 1 or 3.
      classes: number of labels; 0: unconditional.
      seed: of the initial weights.

    Returns:
      A model from latent float32 [B, latent_dim], and if conditional label integer [B], to
      image float32 [B, image_size, image_size, channels] in [-1, 1]. Called through `call`.

    Raises:
      ValueError: an image size that cannot be built.
    """
    base, doublings = _plan(image_size)
    make = _Layers("generator", seed, classes)
    latent = tf_keras.Input([options.latent_dim], dtype=tf.float32, name="latent")
    label = tf_keras.Input([], dtype=tf.int64, name="label") if classes else None
    width = _width(options.generator_channels, doublings)
    x = make.dense(latent, base * base * width, "project", bias=False)
    x = tf_keras.layers.Reshape([base, base, width])(x)
    x = tf.nn.relu(make.norm(x, label, "project_norm"))
    for depth in reversed(range(doublings)):
        width = _width(options.generator_channels, depth)
        x = make.upsample(x, width, f"up_{depth}")
        x = tf.nn.relu(make.norm(x, label, f"up_{depth}_norm"))
    x = tf.tanh(make.convolution(x, channels, "to_image", kernel=3, strides=1))
    return tf_keras.Model([latent, label] if classes else [latent], x, name="generator")


def build_critic(
    options: ModelOptions, *, image_size: int, channels: int, classes: int, seed: int
) -> tf_keras.Model:
    """Image (and label) to score; with labels a projection critic (arXiv 1802.05637).

    Args:
      options: widths.
      image_size: height and width, one of `IMAGE_SIZES`.
      channels: of the image, 1 or 3.
      classes: number of labels; 0: unconditional.
      seed: of the initial weights.

    Returns:
      A model from image float32 [B, image_size, image_size, channels] in [-1, 1], and if
      conditional label integer [B], to score float32 [B]. Called through `call`.

    Raises:
      ValueError: an image size that cannot be built.
    """
    _, halvings = _plan(image_size)
    make = _Layers("critic", seed, classes=0)
    image = tf_keras.Input([image_size, image_size, channels], dtype=tf.float32, name="image")
    label = tf_keras.Input([], dtype=tf.int64, name="label") if classes else None
    x = image
    for depth in range(halvings):
        width = _width(options.critic_channels, depth)
        x = make.convolution(x, width, f"down_{depth}", kernel=KERNEL, strides=2, bias=depth == 0)
        if depth:
            x = make.norm(x, None, f"down_{depth}_norm")
        x = tf.nn.leaky_relu(x, LEAK)
    features = tf_keras.layers.Flatten()(x)
    score = make.dense(features, 1, "score")[:, 0]
    if label is None:
        return tf_keras.Model([image], score, name="critic")
    pooled = tf.reduce_sum(x, axis=[1, 2])
    weights = make.embedding(label, classes, pooled.shape[-1], "projection")
    score = score + tf.reduce_sum(pooled * weights, axis=-1)
    return tf_keras.Model([image, label], score, name="critic")


def call(network: tf_keras.Model, x: tf.Tensor, label: tf.Tensor | None) -> tf.Tensor:
    """Runs a network, with the label if it takes one."""
    return network([x, label] if len(network.inputs) > 1 else [x])


def _plan(image_size: int) -> tuple[int, int]:
    """Side of the smallest feature map, and how often it doubles to make the image."""
    if image_size not in IMAGE_SIZES:
        allowed = ", ".join(map(str, IMAGE_SIZES))
        raise ValueError(f"image_size: got {image_size}; allowed: {allowed}")
    base = 7 if image_size == 28 else 4
    return base, int(math.log2(image_size // base))


def _width(channels: int, depth: int) -> int:
    return channels * min(2**depth, MAX_WIDENING)


class _Layers:
    """Makes the named layers of one network, each with its own stream of initial weights."""

    def __init__(self, network: str, seed: int, classes: int):
        self._network = network
        self._seed = seed
        self._classes = classes

    def dense(self, x: tf.Tensor, units: int, name: str, *, bias: bool = True) -> tf.Tensor:
        start = self._normal(name, fan_in=x.shape[-1])
        return tf_keras.layers.Dense(units, use_bias=bias, kernel_initializer=start, name=name)(x)

    def convolution(
        self,
        x: tf.Tensor,
        filters: int,
        name: str,
        *,
        kernel: int,
        strides: int,
        bias: bool = True,
    ) -> tf.Tensor:
        start = self._normal(name, fan_in=kernel * kernel * x.shape[-1])
        return tf_keras.layers.Conv2D(
            filters, kernel, strides, "same", use_bias=bias, kernel_initializer=start, name=name
        )(x)

    def upsample(self, x: tf.Tensor, filters: int, name: str) -> tf.Tensor:
        # Each output pixel is reached by a quarter of the kernel. No bias: a norm follows.
        start = self._normal(name, fan_in=KERNEL * KERNEL * x.shape[-1] // 4)
        return tf_keras.layers.Conv2DTranspose(
            filters, KERNEL, 2, "same", use_bias=False, kernel_initializer=start, name=name
        )(x)

    def norm(self, x: tf.Tensor, label: tf.Tensor | None, name: str) -> tf.Tensor:
        return LayerNorm(self._classes if label is not None else 0, name=name)(
            [x] if label is None else [x, label]
        )

    def embedding(self, label: tf.Tensor, classes: int, units: int, name: str) -> tf.Tensor:
        # Not an Embedding layer: its sparse gradients take another path through the optimizer.
        one_hot = tf.one_hot(label, classes)
        start = self._normal(name, fan_in=units)
        layer = tf_keras.layers.Dense(units, use_bias=False, kernel_initializer=start, name=name)
        return layer(one_hot)

    def _normal(self, name: str, fan_in: int) -> PhiloxNormal:
        stream = zlib.crc32(f"{self._network}/{name}".encode())
        return PhiloxNormal(self._seed, stream, math.sqrt(2.0 / fan_in))


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
        super().__init__(**kwargs)
        self._classes = classes

    def build(self, shapes: Any) -> None:
        rows = [max(self._classes, 1), shapes[0][-1]]
        self.gain = self.add_weight("gain", rows, initializer="ones")
        self.bias = self.add_weight("bias", rows, initializer="zeros")
        super().build(shapes)

    def call(self, inputs: list[tf.Tensor]) -> tf.Tensor:
        x = inputs[0]
        mean = tf.reduce_mean(x, axis=[1, 2, 3], keepdims=True)
        centred = x - mean
        variance = tf.reduce_mean(tf.square(centred), axis=[1, 2, 3], keepdims=True)
        gain, bias = self.gain, self.bias
        if self._classes:
            one_hot = tf.one_hot(inputs[1], self._classes)
            gain, bias = one_hot @ gain, one_hot @ bias
        gain, bias = gain[:, None, None, :], bias[:, None, None, :]
        return centred * (tf.math.rsqrt(variance + NORM_EPSILON) * gain) + bias
