"""Squared Euclidean distances between feature vectors, by one matrix product."""

from __future__ import annotations

import numpy as np


def squared_distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """|x|^2 + |y|^2 - 2 x.y, for every pair.

    In float64, where products of float32 numbers are exact. For features on a grid (see
    `extractors.grid`) so are their sums: the distance of identical vectors is exactly 0.

    Args:
      first: float32 [N, D].
      second: float32 [M, D].

    Returns:
      float64 [N, M], at least 0.
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    squares = (-2.0 * first) @ second.T
    squares += np.einsum("nd,nd->n", first, first)[:, np.newaxis]
    squares += np.einsum("md,md->m", second, second)
    return np.maximum(squares, 0.0, out=squares)
