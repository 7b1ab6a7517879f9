"""Projections that do not know their batch, and the distance against SciPy's."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import scipy.stats

from trainer.quality import sliced
from trainer.quality.sliced import project, sliced_wasserstein_distance


def images(count: int, seed: int = 0, shape=(9, 7, 3)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)


def test_project_is_these_numbers_for_ever():
    digest = hashlib.sha256(project(images(3, shape=(8, 8, 1))).astype("<f4").tobytes())
    assert digest.hexdigest()[:16] == "62bbd7edac844e32"


def test_project_same_image_same_bits_whatever_the_batch():
    many = images(70)
    together = project(many)
    assert together.dtype == np.float32
    assert together.shape == (70, 128)
    for rows in (slice(0, 1), slice(3, 20), slice(69, 70)):
        np.testing.assert_array_equal(project(many[rows]), together[rows])
    np.testing.assert_array_equal(project(many[::-1])[::-1], together)


def test_project_black_to_white_is_one_on_average():
    black, white = np.zeros((2, 6, 5, 3), np.uint8), np.full((3, 6, 5, 3), 255, np.uint8)
    assert not project(black).any()
    distance = sliced_wasserstein_distance(project(black), project(white))
    assert distance == pytest.approx(1.0, rel=1e-6)


def test_project_directions_have_equal_lengths_and_no_preference():
    whole, scale = sliced._directions(200)
    unit = whole / np.linalg.norm(whole, axis=0)
    lengths = np.linalg.norm(whole / scale, axis=0)
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-12)
    # Cosines between random directions in 200 dimensions: mean 0, deviation 1 / sqrt(200).
    cosines = (unit.T @ unit)[np.triu_indices(128, 1)]
    assert np.mean(cosines) == pytest.approx(0.0, abs=0.005)
    assert np.std(cosines) == pytest.approx(1 / math.sqrt(200), rel=0.05)
    assert scipy.stats.kstest(whole.ravel() / whole.std(), "norm").statistic < 0.02


@pytest.mark.parametrize("wrong", [np.zeros((2, 8, 8, 1), np.float32), np.zeros((2, 64), np.uint8)])
def test_project_other_images_raise(wrong):
    with pytest.raises(ValueError, match=r"allowed: uint8 \[N, H, W, C\]"):
        project(wrong)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (50, 50), (50, 75), (31, 100), (1, 9)])
def test_sliced_wasserstein_distance_equals_scipy(n, m):
    random = np.random.default_rng(n)
    first, second = random.normal(size=(n, 6)), random.normal(0.3, 2.0, size=(m, 6))
    each = [scipy.stats.wasserstein_distance(first[:, p], second[:, p]) for p in range(6)]
    found = sliced_wasserstein_distance(first, second)
    assert found == pytest.approx(np.mean(each), rel=1e-9)
    assert sliced_wasserstein_distance(second, first) == pytest.approx(found, rel=1e-12)


def test_sliced_wasserstein_distance_to_itself_is_zero_in_any_order_and_number():
    projections = project(images(20))
    assert sliced_wasserstein_distance(projections, projections[::-1]) == 0.0
    assert sliced_wasserstein_distance(projections, np.tile(projections, (3, 1))) == 0.0


def test_sliced_wasserstein_distance_empty_is_nan():
    projections = project(images(4))
    assert math.isnan(sliced_wasserstein_distance(projections, projections[:0]))
    assert math.isnan(sliced_wasserstein_distance(projections[:0], projections))
