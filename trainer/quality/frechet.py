"""Frechet distance between two sets of features, each taken for a Gaussian.

Heusel et al. 2017, arXiv 1706.08500, equation 6. To be called FID only when the features are
those of Inception.
"""

from __future__ import annotations

import dataclasses

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
    return of_moments(real, generated)["frechet_distance"]


def relative_frechet_distance(real: Moments, generated: Moments) -> float:
    """The Frechet distance over the trace of the real covariance.

    Free of the scale of the features: 0 is a perfect match, 1 means that the sets are as far
    apart as the real images are spread.

    Returns:
      The ratio, at least 0; NaN where the distance is NaN or the real images do not vary.
    """
    return of_moments(real, generated)["relative_frechet_distance"]


def of_moments(real: Moments, generated: Moments) -> dict[str, float]:
    """Both distances by name, for the price of one."""
    return _distances(*(_gaussian_of_moments(moments) for moments in (real, generated)))


def of_vectors(real: np.ndarray, generated: np.ndarray) -> dict[str, float]:
    """Both distances by name, of vectors that are at hand.

    Fewer vectors than dimensions are a factor of their covariance themselves, and nothing is
    computed in [D, D]: with 2048 dimensions that is 3 to 100 times faster.

    Args:
      real: real numbers [N, D].
      generated: real numbers [M, D].
    """
    return _distances(*(_gaussian_of_vectors(vectors) for vectors in (real, generated)))


@dataclasses.dataclass(frozen=True)
class _Gaussian:
    """Mean [D], a factor F [D, R] of the covariance F F^T, and the covariance's trace."""

    mean: np.ndarray
    factor: np.ndarray
    trace: float


def _distances(real: _Gaussian | None, generated: _Gaussian | None) -> dict[str, float]:
    distance = relative = float("nan")
    if real is not None and generated is not None:
        shift = real.mean - generated.mean
        overlap = np.linalg.svd(real.factor.T @ generated.factor, compute_uv=False).sum()
        spread = real.trace + generated.trace - 2.0 * overlap
        distance = max(0.0, float(shift @ shift + spread))
        relative = distance / real.trace if real.trace > 0.0 else relative
    return {"frechet_distance": distance, "relative_frechet_distance": relative}


def _gaussian_of_vectors(vectors: np.ndarray) -> _Gaussian | None:
    """None: fewer than two vectors, or some that are not finite."""
    count, dimension = vectors.shape
    if not 2 <= count <= dimension:
        return _gaussian_of_moments(Moments.of(vectors))
    if not np.isfinite(vectors).all():
        return None
    vectors = np.asarray(vectors, np.float64)
    mean = vectors.mean(axis=0)
    factor = (vectors - mean).T / np.sqrt(count - 1)
    return _Gaussian(mean, factor, float(np.sum(factor * factor)))


def _gaussian_of_moments(moments: Moments) -> _Gaussian | None:
    """None: of fewer than two vectors, or of some that are not finite."""
    mean, covariance = moments.mean, moments.covariance
    if not (np.isfinite(mean).all() and np.isfinite(covariance).all()):
        return None
    return _Gaussian(mean, _factor(covariance), float(np.trace(covariance)))


def _factor(covariance: np.ndarray) -> np.ndarray:
    """F [D, R] with F F^T = covariance [D, D] of rank R."""
    values, vectors = np.linalg.eigh(covariance)
    # Rounding makes tiny eigenvalues, of either sign, out of zero ones; the root of such a
    # remainder (1e-8 of 1e-16) would be far larger than the remainder itself.
    floor = values[-1] * len(values) * np.finfo(np.float64).eps
    kept = values > max(floor, 0.0)
    return vectors[:, kept] * np.sqrt(values[kept])
