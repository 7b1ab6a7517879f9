"""Squared distances against SciPy, and exact zeros."""

from __future__ import annotations

import numpy as np
import scipy.spatial.distance

from trainer.quality.distances import squared_distances
from trainer.quality.extractors.grid import on_grid


def test_squared_distances_equal_scipy():
    random = np.random.default_rng(0)
    first, second = random.normal(size=(40, 7)), random.normal(size=(30, 7)) + 3.0
    expected = scipy.spatial.distance.cdist(first, second, "sqeuclidean")
    np.testing.assert_allclose(squared_distances(first, second), expected, rtol=1e-12)


def test_squared_distances_identical_vectors_on_the_grid_are_exactly_zero():
    vectors = on_grid(np.random.default_rng(1).normal(100.0, 1.0, (500, 64)))
    squares = squared_distances(vectors, vectors[::-1])
    assert np.count_nonzero(np.fliplr(squares).diagonal()) == 0
    assert np.count_nonzero(squares) == 500 * 499
