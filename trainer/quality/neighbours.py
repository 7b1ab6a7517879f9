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
    if min(len(real), len(generated)) <= neighbours:
        return dict.fromkeys(("precision", "recall", "density", "coverage"), float("nan"))
    # Squares compare like distances. Single precision: half the memory, and what is equal but
    # for the last bits of a product is equal.
    between = squared_distances(real, generated).astype(np.float32)
    in_real = between < _radii(real, neighbours)[:, np.newaxis]
    in_generated = between < _radii(generated, neighbours)
    return {
        "precision": float(in_real.any(axis=0).mean()),
        "recall": float(in_generated.any(axis=1).mean()),
        "density": float(np.count_nonzero(in_real) / (neighbours * len(generated))),
        "coverage": float(in_real.any(axis=1).mean()),
    }


def _radii(vectors: np.ndarray, neighbours: int) -> np.ndarray:
    """Squared distance float32 [N] of each vector to its k-th nearest other vector."""
    squares = squared_distances(vectors, vectors).astype(np.float32)
    np.fill_diagonal(squares, 0.0)
    return np.partition(squares, neighbours, axis=1)[:, neighbours]
