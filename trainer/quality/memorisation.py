"""Memorisation: whether samples lie nearer to training images than held-out images do.

The three-sample question of Meehan et al. 2020, arXiv 2004.05675, asked of the nearest five
percent: copies hide among many samples that are no copies, and a mean does not see them.
"""

from __future__ import annotations

import math

import numpy as np

#: Share of held-out images that count as near; what an honest set of images scores.
NEAR = 0.05


def nearest_distances(
    features: np.ndarray, training: np.ndarray, batch: int = 128
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest training vector of each vector.

    Args:
      features: float32 [N, D].
      training: float32 [M, D], M at least 1.
      batch: vectors compared at a time: as many as leave the products in the processor's cache.

    Returns:
      Distances float32 [N], exactly 0 for identical vectors, and indices int64 [N] into
      `training`, the first of equals.

    Raises:
      ValueError: when there are no training vectors.
    """
    if not len(training):
        raise ValueError("training: got no vectors; allowed: one or more")
    indices = np.zeros(len(features), np.int64)
    distances = np.zeros(len(features), np.float32)
    reference = np.asarray(training, np.float64)
    # |y|^2 - 2 x.y, in one product: the |x|^2 that is missing is the same for all y.
    doubled = np.concatenate([-2.0 * reference, np.square(reference).sum(1, keepdims=True)], axis=1)
    for start in range(0, len(features), batch):
        part = np.asarray(features[start : start + batch], np.float64)
        nearest = (np.pad(part, ((0, 0), (0, 1)), constant_values=1.0) @ doubled.T).argmin(axis=1)
        indices[start : start + batch] = nearest
        # From the difference: exact where the expanded square has lost digits.
        distances[start : start + batch] = np.linalg.norm(part - reference[nearest], axis=1)
    return distances, indices


def near_quantile(real: np.ndarray) -> float:
    """The distance below which 5% of held-out images lie; NaN for none or not finite ones."""
    if not len(real) or not np.isfinite(real).all():
        return float("nan")
    return float(np.sort(real)[math.ceil(NEAR * len(real)) - 1])


def memorisation(real: np.ndarray, generated: np.ndarray) -> float:
    """Share of samples that are nearer to a training image than 95% of held-out images are.

    Where many held-out images lie at the threshold itself (copies in the data: at 0), samples at
    it count by the part of those held-out images that makes the five percent whole. So another
    honest set scores 0.05, whatever the data, and copies score more.

    Args:
      real: float32 [N], distances of held-out images to their nearest training image.
      generated: float32 [M], the same of the samples.

    Returns:
      A share in [0, 1]; NaN for no images or distances that are not finite.
    """
    threshold = near_quantile(real)
    if math.isnan(threshold) or not len(generated) or not np.isfinite(generated).all():
        return float("nan")
    part = (NEAR - np.mean(real < threshold)) / np.mean(real == threshold)
    return float(np.mean(generated < threshold) + part * np.mean(generated == threshold))
