"""Residual networks of WGAN-GP (arXiv 1704.00028), as in the authors' code.

Up to 32 pixels the CIFAR-10 network: constant width, the critic's last two blocks without
resampling, mean over the image. From 64 pixels the network for 64x64: widths grow as the image
shrinks, every block resamples; 128 has one more block of the greatest width.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from trainer.networks.layers import GLOROT, Layers, mean_pool, nearest, plan
from trainer.options import ModelOptions

#: Image size (pixels) from which on widths grow.
LARGE = 64
#: The deepest blocks are at most this many times as wide as the shallowest.
MAX_WIDENING = 8


def generator(
    options: ModelOptions, *, image_size: int, channels: int, **making: Any
) -> tf_keras.Model:
    """See `networks.build_generator`."""
    base, doublings = plan(image_size)
    make = Layers("generator", fan="mean", **making)
    kind = options.generator_norm
    latent, label = make.input([options.latent_dim], "latent"), make.label()
    width = _width(options.generator_channels, doublings, image_size)
    x = make.with_label(latent, label, kind)
    x = make.dense(x, base * base * width, "project", gain=GLOROT)
    x = tf.reshape(x, [-1, base, base, width])
    for depth in reversed(range(doublings)):
        width = _width(options.generator_channels, depth, image_size)
        x = _block(make, x, width, f"up_{depth}", resample="up", norm=kind, label=label)
    x = tf.nn.relu(make.norm(x, kind, None, "to_image_norm"))
    x = tf.tanh(make.convolution(x, channels, "to_image", kernel=3, gain=GLOROT, exact=True))
    return tf_keras.Model([latent] if label is None else [latent, label], x, name="generator")


def critic(
    options: ModelOptions, *, image_size: int, channels: int, **making: Any
) -> tf_keras.Model:
    """See `networks.build_critic`."""
    make = Layers("critic", fan="mean", **making)
    image, label = make.input([image_size, image_size, channels], "image"), make.label()
    body = _large_body if image_size >= LARGE else _small_body
    x = tf.cast(body(make, image, options, image_size), make.dtype)
    if image_size >= LARGE:
        features = tf.reshape(x, [-1, x.shape[1] * x.shape[2] * x.shape[3]])
    else:
        x = tf.nn.relu(x)
        features = tf.reduce_mean(x, axis=[1, 2])
    score = make.dense(features, 1, "score", gain=GLOROT, exact=True)[:, 0]
    if label is None:
        return tf_keras.Model([image], score, name="critic")
    pooled = tf.reduce_sum(x, axis=[1, 2]) if image_size >= LARGE else features
    weights = make.embedding(label, pooled.shape[-1], "projection")
    score = score + tf.reduce_sum(pooled * weights, axis=-1)
    return tf_keras.Model([image, label], score, name="critic")


def _small_body(make: Layers, image: tf.Tensor, options: ModelOptions, _: int) -> tf.Tensor:
    """Halved twice, the first time in a block that begins with the image as it is."""
    width, kind = options.critic_channels, options.critic_norm
    y = tf.nn.relu(make.convolution(image, width, "first_1", kernel=3))
    y = make.resampled(y, width, "first_2", resample="down")
    shortcut = make.convolution(mean_pool(image), width, "first_shortcut", kernel=1, gain=GLOROT)
    x = _block(make, shortcut + y, width, "down", resample="down", norm=kind)
    for index in range(2):
        x = _block(make, x, width, f"plain_{index}", resample=None, norm=kind)
    return x


def _large_body(
    make: Layers, image: tf.Tensor, options: ModelOptions, image_size: int
) -> tf.Tensor:
    """Halved down to 4x4, twice as wide each time."""
    _, halvings = plan(image_size)
    width = options.critic_channels
    x = make.convolution(image, width, "from_image", kernel=3, gain=GLOROT)
    for depth in range(halvings):
        width = _width(options.critic_channels, depth + 1, image_size)
        x = _block(make, x, width, f"down_{depth}", resample="down", norm=options.critic_norm)
    return x


def _block(
    make: Layers,
    x: tf.Tensor,
    width: int,
    name: str,
    *,
    resample: str | None,
    norm: str,
    label: tf.Tensor | None = None,
) -> tf.Tensor:
    """Norm, ReLU, convolution, twice, beside a shortcut: [B, H, W, C] to [B, H', W', width]."""
    inner = x.shape[-1] if resample == "down" else width
    # Where a norm follows, its bias will do.
    bias = norm == "none"
    y = tf.nn.relu(make.norm(x, norm, label, f"{name}_norm_1"))
    if resample == "up":
        y = make.resampled(y, inner, f"{name}_1", resample="up", bias=bias)
    else:
        y = make.convolution(y, inner, f"{name}_1", kernel=3, bias=bias)
    y = tf.nn.relu(make.norm(y, norm, label, f"{name}_norm_2"))
    if resample == "down":
        y = make.resampled(y, width, f"{name}_2", resample="down")
    else:
        y = make.convolution(y, width, f"{name}_2", kernel=3)
    return _shortcut(make, x, width, name, resample) + y


def _shortcut(make: Layers, x: tf.Tensor, width: int, name: str, resample: str | None) -> tf.Tensor:
    """A 1x1 convolution, done where the image is small: it commutes with the resampling."""
    if resample is None:
        return x
    if resample == "down":
        x = mean_pool(x)
    x = make.convolution(x, width, f"{name}_shortcut", kernel=1, gain=GLOROT)
    return nearest(x) if resample == "up" else x


def _width(channels: int, depth: int, image_size: int) -> int:
    return channels * (min(2**depth, MAX_WIDENING) if image_size >= LARGE else 1)
