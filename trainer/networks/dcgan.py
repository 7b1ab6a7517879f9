"""Strided convolutions (DCGAN, arXiv 1511.06434): every layer halves or doubles the image.

From 4x4 (7x7 for 28) up to the image and back. Layer normalisation in the critic as WGAN-GP asks
for (arXiv 1704.00028, section 4), and by default in the generator too.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from trainer.networks.layers import Layers, plan
from trainer.options import ModelOptions

KERNEL = 4
LEAK = 0.2
#: Deepest blocks are at most this many times as wide as the shallowest.
MAX_WIDENING = 8


def generator(
    options: ModelOptions, *, image_size: int, channels: int, **making: Any
) -> tf_keras.Model:
    """See `networks.build_generator`."""
    base, doublings = plan(image_size)
    make = Layers("generator", fan="in", **making)
    kind = options.generator_norm
    # A normalisation takes the bias of the layer before it away; without one it is needed.
    bias = kind == "none"
    latent, label = make.input([options.latent_dim], "latent"), make.label()
    width = _width(options.generator_channels, doublings)
    x = make.with_label(latent, label, kind)
    x = make.dense(x, base * base * width, "project", bias=bias)
    x = tf.reshape(x, [-1, base, base, width])
    x = tf.nn.relu(make.norm(x, kind, label, "project_norm"))
    for depth in reversed(range(doublings)):
        width = _width(options.generator_channels, depth)
        x = make.transposed(x, width, f"up_{depth}", kernel=KERNEL, bias=bias)
        x = tf.nn.relu(make.norm(x, kind, label, f"up_{depth}_norm"))
    x = tf.tanh(make.convolution(x, channels, "to_image", kernel=3, exact=True))
    return tf_keras.Model([latent] if label is None else [latent, label], x, name="generator")


def critic(
    options: ModelOptions, *, image_size: int, channels: int, **making: Any
) -> tf_keras.Model:
    """See `networks.build_critic`."""
    _, halvings = plan(image_size)
    make = Layers("critic", fan="in", **making)
    kind = options.critic_norm
    image, label = make.input([image_size, image_size, channels], "image"), make.label()
    x = image
    for depth in range(halvings):
        width = _width(options.critic_channels, depth)
        bias = depth == 0 or kind == "none"
        x = make.convolution(x, width, f"down_{depth}", kernel=KERNEL, strides=2, bias=bias)
        if depth:
            x = make.norm(x, kind, None, f"down_{depth}_norm")
        x = tf.nn.leaky_relu(x, LEAK)
    features = tf.reshape(x, [-1, x.shape[1] * x.shape[2] * x.shape[3]])
    score = make.dense(features, 1, "score", exact=True)[:, 0]
    if label is None:
        return tf_keras.Model([image], score, name="critic")
    pooled = tf.reduce_sum(tf.cast(x, make.dtype), axis=[1, 2])
    score = score + tf.reduce_sum(pooled * make.embedding(label, width, "projection"), axis=-1)
    return tf_keras.Model([image, label], score, name="critic")


def _width(channels: int, depth: int) -> int:
    return channels * min(2**depth, MAX_WIDENING)
