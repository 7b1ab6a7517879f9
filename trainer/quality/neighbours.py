"""Precision, recall, density and coverage: whether samples and real images lie among each other.

Kynkaanniemi et al. 2019, arXiv 1904.06991, equation 1; Naeem et al. 2020, arXiv 2002.09797,
equations 3 and 4.
"""

from __future__ import annotations

import numpy as np

from trainer.quality.distances import squared_distances

#: How many nearest neighbours make the ball around a vector.
NEIGHBOURS = 5
_NOT_MEASURED = dict.fromkeys(("precision", "recall", "density", "coverage"), float("nan"))


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
    if min(len(real), len(generated)) <= neighbours:
        return dict(_NOT_MEASURED)
    real_radii, generated_radii = _radii(real, neighbours), _radii(generated, neighbours)
    return _overlap(_squares(real, generated), real_radii, generated_radii, neighbours)


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
        if min(map(np.count_nonzero, (real_rows, generated_rows))) <= self._neighbours:
            return dict(_NOT_MEASURED)
        between = self._between[real_rows][:, generated_rows]
        real_radii = self._near_real.radii(real_rows, self._neighbours)
        generated_radii = self._near_generated.radii(generated_rows, self._neighbours)
        return _overlap(between, real_radii, generated_radii, self._neighbours)


class _Near:
    """Vectors with all the others in the order of their distance: radii among many subsets.

    Dearer than the radii of one subset, cheaper than those of many.
    """

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


def _overlap(
    between: np.ndarray, real_radii: np.ndarray, generated_radii: np.ndarray, neighbours: int
) -> dict[str, float]:
    """The numbers, of squared distances [N, M] and squared radii [N] and [M]."""
    in_real = between < real_radii[:, np.newaxis]
    in_generated = between < generated_radii
    return {
        "precision": float(in_real.any(axis=0).mean()),
        "recall": float(in_generated.any(axis=1).mean()),
        "density": float(np.count_nonzero(in_real) / (neighbours * len(generated_radii))),
        "coverage": float(in_real.any(axis=1).mean()),
    }


def _radii(vectors: np.ndarray, neighbours: int) -> np.ndarray:
    """Squared distance float32 [N] of each vector to its k-th nearest other vector."""
    squares = _squares(vectors, vectors)
    np.fill_diagonal(squares, 0.0)
    return np.partition(squares, neighbours, axis=1)[:, neighbours]


def _squares(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Squared distances float32 [N, M]."""
    # Squares compare like distances. Single precision: half the memory, and what is equal but
    # for the last bits of a product is equal.
    return squared_distances(first, second).astype(np.float32)
