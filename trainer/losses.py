"""Wasserstein losses and penalties, per example: pure functions, no reduction, no scope.

The critic's input is an image x [H, W, C]; D(x) is its score. Values are [B], one per example,
float32 or better whatever the networks compute in. Dividing by the *global* batch and adding up
is done once, in `step.py`; docs/replicas.md shows what goes wrong otherwise.
"""

from __future__ import annotations

import tensorflow as tf

#: Inside the square root, where the derivative of the root at zero would be infinite.
NORM_EPSILON = 1e-12


def critic_wasserstein(real_scores: tf.Tensor, fake_scores: tf.Tensor) -> tf.Tensor:
    """The critic's Wasserstein loss (arXiv 1704.00028, equation 3, first two terms).

    Args:
      real_scores: critic's outputs for real images, [B].
      fake_scores: critic's outputs for generated images, [B].

    Returns:
      fake - real, float32 or float64 [B]; the negative of the estimated distance.

    Raises:
      ValueError: the shapes differ or are not [B].
    """
    _check_vectors(real_scores, fake_scores)
    return precise(fake_scores) - precise(real_scores)


def generator(fake_scores: tf.Tensor) -> tf.Tensor:
    """The generator's loss: minus the critic's score of what it made (algorithm 1, line 12).

    Args:
      fake_scores: critic's outputs for generated images, [B].

    Returns:
      float32 or float64 [B].

    Raises:
      ValueError: the shape is not [B].
    """
    _check_vectors(fake_scores)
    return -precise(fake_scores)


def interpolate(real: tf.Tensor, fake: tf.Tensor, alpha: tf.Tensor) -> tf.Tensor:
    """Points between real and generated images (arXiv 1704.00028, algorithm 1, line 6).

    Args:
      real: real images, [B, H, W, C].
      fake: generated images, [B, H, W, C].
      alpha: one number per example from U[0, 1], [B, 1, 1, 1]; 1 gives the real image. One for
        the whole batch would be another, weaker penalty.

    Returns:
      alpha * real + (1 - alpha) * fake, [B, H, W, C].

    Raises:
      ValueError: alpha is not one number per example.
    """
    if alpha.shape.rank != 4 or not alpha.shape[1:].is_compatible_with([1, 1, 1]):
        raise ValueError(f"alpha: got shape {alpha.shape}; allowed: [B, 1, 1, 1]")
    if not alpha.shape[:1].is_compatible_with(real.shape[:1]):
        raise ValueError(f"alpha: got {alpha.shape[0]} numbers for {real.shape[0]} examples")
    return fake + alpha * (real - fake)


def gradient_norm(gradients: tf.Tensor) -> tf.Tensor:
    """Euclidean norm of each example's gradient, over H, W and C.

    Args:
      gradients: d score / d image, [B, H, W, C].

    Returns:
      sqrt(sum of squares + NORM_EPSILON), float32 or float64 [B], above 0. Epsilon is inside the
      root because the root's derivative at 0 is infinite: a dead critic would turn into NaN.

    Raises:
      ValueError: the gradients are not of rank 4.
    """
    if gradients.shape.rank != 4:
        raise ValueError(f"gradients: got shape {gradients.shape}; allowed: [B, H, W, C]")
    squares = tf.reduce_sum(tf.square(precise(gradients)), axis=[1, 2, 3])
    return tf.sqrt(squares + NORM_EPSILON)


def two_sided_penalty(norms: tf.Tensor) -> tf.Tensor:
    """WGAN-GP's penalty, before its weight (arXiv 1704.00028, equation 3, last term).

    Args:
      norms: gradient norms at the interpolated images, [B].

    Returns:
      (norm - 1)^2, float32 or float64 [B].

    Raises:
      ValueError: the shape is not [B].
    """
    _check_vectors(norms)
    return tf.square(precise(norms) - 1.0)


def one_sided_penalty(norms: tf.Tensor) -> tf.Tensor:
    """WGAN-LP's penalty, before its weight (Petzka et al. 2017, arXiv 1709.08894).

    A critic that is flatter than it might be is no worse a bound of the Wasserstein distance, so
    only norms above 1 are punished.

    Args:
      norms: gradient norms at the interpolated images, [B].

    Returns:
      max(norm - 1, 0)^2, float32 or float64 [B].

    Raises:
      ValueError: the shape is not [B].
    """
    _check_vectors(norms)
    return tf.square(tf.nn.relu(precise(norms) - 1.0))


def clipped(weight: tf.Tensor, bound: float) -> tf.Tensor:
    """A weight as the first WGAN bounds it (Arjovsky et al. 2017, arXiv 1701.07875, algorithm 1).

    Args:
      weight: of the critic, any shape.
      bound: the paper's c, above 0.

    Returns:
      The weight, each number moved into [-bound, bound].
    """
    return tf.clip_by_value(weight, -bound, bound)


def precise(values: tf.Tensor) -> tf.Tensor:
    """The values in float32, or in float64 if that is what they are."""
    return values if values.dtype == tf.float64 else tf.cast(values, tf.float32)


def _check_vectors(*tensors: tf.Tensor) -> None:
    for tensor in tensors:
        if tensor.shape.rank != 1:
            raise ValueError(f"per-example values: got shape {tensor.shape}; allowed: [B]")
        if not tensor.shape.is_compatible_with(tensors[0].shape):
            raise ValueError(f"per-example values: got {tensor.shape} beside {tensors[0].shape}")
