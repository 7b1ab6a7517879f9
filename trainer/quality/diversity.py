"""Diversity: the effective number of distinct samples over that of the real images.

The effective number is the Vendi score of order 2, Pasarkar and Dieng 2023, arXiv 2310.12952:
with eigenvalues l of K / N it is 1 / sum(l^2) = 1 / mean(k^2), N for samples that have nothing
in common and 1 for copies of one.
"""

from __future__ import annotations

import numpy as np

from trainer.quality.distances import squared_distances

#: Share of pairs of real images, of those that differ, that the kernel takes for alike.
_ALIKE = 0.01


def diversity(real: np.ndarray, generated: np.ndarray) -> float:
    """Effective number of generated over that of real images, from equally many of each.

    The kernel is Gaussian. Its width is the distance below which 1% of pairs of real images lie,
    copies left out: narrow enough to tell a class from another, wide enough that near copies are
    alike.

    Args:
      real: float32 [N, D].
      generated: float32 [M, D].

    Returns:
      A ratio, about 1 for another set of real images; NaN for fewer than two images or real
      images that are all alike.
    """
    count = min(len(real), len(generated))
    if count < 2:
        return float("nan")
    among_real, among_generated = _squares(real[:count]), _squares(generated[:count])
    apart = among_real[among_real > 0.0]  # data may hold copies, by the hundred blank ones
    if not len(apart):
        return float("nan")
    alike = round(_ALIKE * len(apart))
    width = np.partition(apart, alike)[alike]
    return _mean_square(among_real, width) / _mean_square(among_generated, width)


def _squares(vectors: np.ndarray) -> np.ndarray:
    """Float32 [N, N], 0 on the diagonal."""
    squares = squared_distances(vectors, vectors).astype(np.float32)
    np.fill_diagonal(squares, 0.0)
    return squares


def _mean_square(squares: np.ndarray, width: np.float32) -> float:
    """Mean of the squared kernel exp(-d^2 / (2 w^2))."""
    return float(np.exp(squares / -width).mean(dtype=np.float64))
