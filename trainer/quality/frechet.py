"""Frechet distance between two sets of features, each taken for a Gaussian.

Heusel et al. 2017, arXiv 1706.08500, equation 6. To be called FID only when the features are
those of Inception.
"""

from __future__ import annotations

import numpy as np

from trainer.quality.moments import Moments


def frechet_distance(real: Moments, generated: Moments) -> float:
    """|m1 - m2|^2 + trace(C1 + C2 - 2 (C1 C2)^(1/2)).

    The trace of the square root is the sum of the singular values of F1^T F2, where
    C = F F^T: no root of a matrix that is not symmetric, no complex numbers, and covariances
    that lack full rank (fewer vectors than dimensions) are as good as any.

    Args:
      real: moments of the real images' features.
      generated: moments of the generated images' features.

    Returns:
      The distance, in squared units of the features, at least 0; NaN when either set has fewer
      than two vectors or any that is not finite.
    """
    covariances = real.covariance, generated.covariance
    shift = real.mean - generated.mean
    if not all(np.isfinite(part).all() for part in (*covariances, shift)):
        return float("nan")
    first, second = (_factor(covariance) for covariance in covariances)
    overlap = np.linalg.svd(first.T @ second, compute_uv=False).sum()
    spread = np.trace(covariances[0]) + np.trace(covariances[1]) - 2.0 * overlap
    return max(0.0, float(shift @ shift + spread))


def relative_frechet_distance(real: Moments, generated: Moments) -> float:
    """The Frechet distance over the trace of the real covariance.

    Free of the scale of the features: 0 is a perfect match, 1 means that the sets are as far
    apart as the real images are spread.

    Returns:
      The ratio, at least 0; NaN where the distance is NaN or the real images do not vary.
    """
    spread = float(np.trace(real.covariance))
    if not spread > 0.0:
        return float("nan")
    return frechet_distance(real, generated) / spread


def _factor(covariance: np.ndarray) -> np.ndarray:
    """F [D, R] with F F^T = covariance [D, D] of rank R."""
    values, vectors = np.linalg.eigh(covariance)
    # Rounding makes tiny eigenvalues, of either sign, out of zero ones; the root of such a
    # remainder (1e-8 of 1e-16) would be far larger than the remainder itself.
    floor = values[-1] * len(values) * np.finfo(np.float64).eps
    kept = values > max(floor, 0.0)
    return vectors[:, kept] * np.sqrt(values[kept])
