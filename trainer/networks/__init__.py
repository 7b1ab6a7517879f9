"""Generators and critics: plain networks that know nothing of losses or of the training loop.

`dcgan` has strided convolutions, `resnet` residual blocks; `layers` what both are made of. Every
network is a Keras model that is used through `call`.
"""

from __future__ import annotations

import tensorflow as tf
import tf_keras

from trainer.networks import dcgan, resnet
from trainer.networks.norms import LayerNorm, SyncBatchNorm
from trainer.options import IMAGE_SIZES, ModelOptions

__all__ = ["LayerNorm", "SyncBatchNorm", "build_critic", "build_generator", "call"]

_ARCHITECTURES = {"dcgan": dcgan, "resnet": resnet}


def build_generator(
    options: ModelOptions,
    *,
    image_size: int,
    channels: int,
    classes: int,
    seed: int,
    precision: str = "float32",
    l2_weight: float = 0.0,
) -> tf_keras.Model:
    """Latent (and label) to image.

    Args:
      options: architecture, widths, normalisation and the length of the latent.
      image_size: height and width, one of `IMAGE_SIZES`.
      channels: of the image, 1 or 3.
      classes: number of labels; 0: unconditional.
      seed: of the initial weights.
      precision: float32; mixed_bfloat16: hidden layers compute in bfloat16, variables, statistics,
        inputs and outputs stay float32; float64: everything.
      l2_weight: factor of half the sum of squares of every kernel in the model's `losses`.

    Returns:
      A model from latent [B, latent_dim], and if conditional label integer [B], to image
      [B, image_size, image_size, channels] in [-1, 1]; float32, or float64 under float64.

    Raises:
      ValueError: an image size that cannot be built.
    """
    _check(image_size)
    return _ARCHITECTURES[options.architecture].generator(
        options,
        image_size=image_size,
        channels=channels,
        classes=classes,
        seed=seed,
        precision=precision,
        l2_weight=l2_weight,
    )


def build_critic(
    options: ModelOptions,
    *,
    image_size: int,
    channels: int,
    classes: int,
    seed: int,
    precision: str = "float32",
    l2_weight: float = 0.0,
) -> tf_keras.Model:
    """Image (and label) to score; with labels a projection critic (arXiv 1802.05637).

    No example's score depends on another example: the gradient penalty is one of each by itself.

    Args:
      options: architecture, widths and normalisation.
      image_size: height and width, one of `IMAGE_SIZES`.
      channels: of the image, 1 or 3.
      classes: number of labels; 0: unconditional.
      seed: of the initial weights.
      precision: as in `build_generator`.
      l2_weight: as in `build_generator`.

    Returns:
      A model from image [B, image_size, image_size, channels] in [-1, 1], and if conditional
      label integer [B], to score [B]; float32, or float64 under float64.

    Raises:
      ValueError: an image size that cannot be built.
    """
    _check(image_size)
    return _ARCHITECTURES[options.architecture].critic(
        options,
        image_size=image_size,
        channels=channels,
        classes=classes,
        seed=seed,
        precision=precision,
        l2_weight=l2_weight,
    )


# Converting Keras statement by statement is slow, and there is nothing to convert.
@tf.autograph.experimental.do_not_convert
def call(
    network: tf_keras.Model, x: tf.Tensor, label: tf.Tensor | None, training: bool = False
) -> tf.Tensor:
    """Runs a network, with the label if it takes one.

    Args:
      network: a generator or a critic.
      x: latent or image.
      label: integer [B]; not looked at by an unconditional network.
      training: whether batch normalisation takes (and keeps) the statistics of this batch.

    Returns:
      Image or score.
    """
    return network([x, label] if len(network.inputs) > 1 else [x], training=training)


def _check(image_size: int) -> None:
    if image_size not in IMAGE_SIZES:
        allowed = ", ".join(map(str, IMAGE_SIZES))
        raise ValueError(f"image_size: got {image_size}; allowed: {allowed}")
