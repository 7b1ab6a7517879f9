"""Precision, recall, density and coverage: whether samples and real images lie among each other.

Kynkaanniemi et al. 2019, arXiv 1904.06991, equation 1; Naeem et al. 2020, arXiv 2002.09797,
equations 3 and 4.
"""

from __future__ import annotations

import numpy as np

from trainer.quality.distances import squared_distances

#: How many nearest neighbours make the ball around a vector.
NEIGHBOURS = 5


def precision_recall_density_coverage(
    real: np.ndarray, generated: np.ndarray, neighbours: int = NEIGHBOURS
) -> dict[str, float]:
    """How far two sets of vectors overlap, seen through balls that reach to the k-th neighbour.

    Args:
      real: float32 [N, D].
      generated: float32 [M, D].
      neighbours: k.

    Returns:
      `precision`, the share of generated vectors within a real ball; `recall`, the share of real
      vectors within a generated ball; `density`, in how many real balls a generated vector lies,
      over k; `coverage`, the share of real balls with a generated vector inside. NaN when either
      set has no k-th neighbour.
    """
    pairs = Pairs(real, generated, neighbours)
    return pairs.of_rows(np.ones(len(real), bool), np.ones(len(generated), bool))


class Pairs:
    """The distances of all pairs of vectors: what tells the overlap of any of their rows."""

    def __init__(
        self, real: np.ndarray, generated: np.ndarray, neighbours: int = NEIGHBOURS
    ) -> None:
        """Computes the distances.

        Args:
          real: float32 [N, D].
          generated: float32 [M, D].
          neighbours: k.
        """
        self._neighbours = neighbours
        self._between = _squares(real, generated)
        self._near_real, self._near_generated = _Near(real), _Near(generated)

    def of_rows(self, real_rows: np.ndarray, generated_rows: np.ndarray) -> dict[str, float]:
        """The overlap of some rows, bool [N] and [M]: see `precision_recall_density_coverage`."""
        generated_count = np.count_nonzero(generated_rows)
        if min(np.count_nonzero(real_rows), generated_count) <= self._neighbours:
            return dict.fromkeys(("precision", "recall", "density", "coverage"), float("nan"))
        between = self._between[real_rows][:, generated_rows]
        in_real = between < self._near_real.radii(real_rows, self._neighbours)[:, np.newaxis]
        in_generated = between < self._near_generated.radii(generated_rows, self._neighbours)
        return {
            "precision": float(in_real.any(axis=0).mean()),
            "recall": float(in_generated.any(axis=1).mean()),
            "density": float(np.count_nonzero(in_real) / (self._neighbours * generated_count)),
            "coverage": float(in_real.any(axis=1).mean()),
        }


class _Near:
    """Vectors with all the others in the order of their distance."""

    def __init__(self, vectors: np.ndarray) -> None:
        squares = _squares(vectors, vectors)
        np.fill_diagonal(squares, 0.0)
        self._nearest = np.argsort(squares, axis=1)
        self._squares = np.take_along_axis(squares, self._nearest, axis=1)

    def radii(self, rows: np.ndarray, neighbours: int) -> np.ndarray:
        """Squared distance float32 of each of the rows to the k-th nearest other one of them."""
        # Among so many are the vector itself and k others, were all that is left out nearest.
        enough = 1 + neighbours + np.count_nonzero(~rows)
        kept = rows[self._nearest[rows, :enough]]
        kth = np.argmax(np.cumsum(kept, axis=1) > neighbours, axis=1)
        return self._squares[rows, kth]


def _squares(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Squared distances float32 [N, M]."""
    # Squares compare like distances. Single precision: half the memory, and what is equal but
    # for the last bits of a product is equal.
    return squared_distances(first, second).astype(np.float32)
