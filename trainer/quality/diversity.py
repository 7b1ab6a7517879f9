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
    every = np.ones(count, bool)
    return Pairs(real[:count], generated[:count]).diversity(every, every)


class Pairs:
    """The distances of all pairs of vectors: what tells the diversity of any of their rows."""

    def __init__(self, real: np.ndarray, generated: np.ndarray) -> None:
        """Computes the distances.

        Args:
          real: float32 [N, D].
          generated: float32 [M, D].
        """
        self._among_real, self._among_generated = _squares(real), _squares(generated)

    def diversity(self, real_rows: np.ndarray, generated_rows: np.ndarray) -> float:
        """The diversity of some rows, bool [N] and [M]: see the function."""
        count = min(np.count_nonzero(real_rows), np.count_nonzero(generated_rows))
        if count < 2:
            return float("nan")
        among_real = _among(self._among_real, real_rows, count)
        apart = among_real[among_real > 0.0]  # data may hold copies, by the hundred blank ones
        if not len(apart):
            return float("nan")
        # Every pair counts twice, as in the kernel's matrix.
        alike = round(_ALIKE * 2 * len(apart)) // 2
        width = np.partition(apart, alike)[alike]
        among_generated = _among(self._among_generated, generated_rows, count)
        return _mean_square(among_real, count, width) / _mean_square(among_generated, count, width)


def _squares(vectors: np.ndarray) -> np.ndarray:
    """Squared distances float32 [N, N]."""
    return squared_distances(vectors, vectors).astype(np.float32)


def _among(squares: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """Squares of the pairs among the first so many of some rows: each pair once, float32 [P]."""
    first = np.flatnonzero(rows)[:count]
    return squares[first][:, first][np.tri(count, k=-1, dtype=bool)]


def _mean_square(squares: np.ndarray, count: int, width: np.float32) -> float:
    """Mean of the squared kernel exp(-d^2 / (2 w^2)) over the matrix of so many vectors."""
    return float((count + 2.0 * np.exp(squares / -width).sum(dtype=np.float64)) / count**2)
