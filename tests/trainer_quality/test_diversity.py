"""Diversity: falls with copies and with classes that are gone."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer.quality.diversity import diversity


def classes(seed: int, count: int, kept: int = 10) -> np.ndarray:
    """Vectors of ten classes, of which only the first so many are drawn."""
    centres = 4.0 * np.random.default_rng(99).normal(size=(10, 16))
    random = np.random.default_rng(seed)
    return (centres[random.integers(0, kept, count)] + random.normal(size=(count, 16))).astype("f")


def test_diversity_another_set_is_about_one():
    found = [diversity(classes(i, 300), classes(50 + i, 300)) for i in range(10)]
    assert np.mean(found) == pytest.approx(1.0, abs=0.05)
    assert diversity(classes(0, 300), classes(0, 300)) == 1.0


def test_diversity_falls_with_copies():
    real, other = classes(0, 600), classes(1, 600)
    found = [diversity(real, np.resize(other[:kept], other.shape)) for kept in (600, 200, 50, 5, 1)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.9
    assert found[1] < 0.9
    assert found[3] < 0.15


def test_diversity_falls_with_classes_that_are_gone():
    found = [diversity(classes(0, 600), classes(1, 600, kept)) for kept in (10, 7, 4, 2, 1)]
    assert found == sorted(found, reverse=True)
    assert found[2] < 0.6


def test_diversity_of_one_repeated_vector_equals_the_closed_form():
    # The effective number of copies of one is 1; of these reals 1 / mean(k^2), pair by pair.
    real = np.random.default_rng(3).normal(size=(30, 4)).astype(np.float32)
    squares = ((real[:, np.newaxis] - real) ** 2).sum(axis=2)
    width = np.sort(squares[np.triu_indices(30, 1)])[round(0.01 * 30 * 29) // 2]
    expected = np.exp(-squares / width).mean()
    found = diversity(real, np.ones((30, 4), np.float32))
    assert found == pytest.approx(expected, rel=1e-5)


def test_diversity_of_data_with_many_copies_is_measured():
    # A fifth of the images are blank: 4% of the pairs are copies.
    real, other = classes(0, 500), classes(1, 500)
    collapsed = np.resize(other[:5], other.shape)
    real[::5] = other[1::5] = 0.0
    assert diversity(real, other) == pytest.approx(1.0, abs=0.1)
    assert diversity(real, classes(1, 500)) > 1.5
    assert diversity(real, collapsed) < 0.5


def test_diversity_takes_equally_many_of_each():
    real, other = classes(0, 300), classes(1, 900)
    assert diversity(real, other) == diversity(real, other[:300])
    assert diversity(other, real) == diversity(other[:300], real)


def test_diversity_not_measured_is_nan():
    some, same = classes(0, 20), np.ones((20, 16), np.float32)
    assert math.isnan(diversity(some, some[:1]))
    assert math.isnan(diversity(some[:0], some))
    assert math.isnan(diversity(same, some))
    assert diversity(some, same) < 0.2
