"""Memorisation: copies are seen, an honest set scores five percent."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.spatial.distance

from trainer.quality.memorisation import memorisation, near_quantile, nearest_distances


def draw(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)


@pytest.mark.parametrize("batch", [1, 7, 1024])
def test_nearest_distances_equal_scipy_whatever_the_batch(batch):
    features, training = draw(0, 30), draw(1, 200)
    expected = scipy.spatial.distance.cdist(features, training)
    distances, indices = nearest_distances(features, training, batch)
    assert distances.dtype == np.float32
    assert indices.dtype == np.int64
    np.testing.assert_array_equal(indices, expected.argmin(axis=1))
    np.testing.assert_allclose(distances, expected.min(axis=1), rtol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_nearest_distances_identical_vectors_are_exactly_zero(offset):
    training = draw(1, 200) + np.float32(offset)
    distances, indices = nearest_distances(training[[17, 3]], training)
    assert distances.tolist() == [0.0, 0.0]
    assert indices.tolist() == [17, 3]


def test_nearest_distances_no_vectors():
    distances, indices = nearest_distances(draw(0, 0), draw(1, 3))
    assert distances.shape == indices.shape == (0,)
    with pytest.raises(ValueError, match="training: got no vectors"):
        nearest_distances(draw(0, 3), draw(1, 0))


def measured(held_out, generated, training) -> float:
    return memorisation(
        nearest_distances(held_out, training)[0], nearest_distances(generated, training)[0]
    )


def test_memorisation_another_honest_set_scores_five_percent():
    found = [measured(draw(i, 400), draw(100 + i, 400), draw(200, 1000)) for i in range(30)]
    # Deviation of one: about sqrt(2 * 0.05 * 0.95 / 400) = 0.015.
    assert np.mean(found) == pytest.approx(0.05, abs=0.009)


@pytest.mark.parametrize("copies", [8, 40, 400])
def test_memorisation_copies_count_each(copies):
    training, held_out, honest = draw(200, 1000), draw(0, 400), draw(1, 400)
    generated = np.concatenate([training[:copies], honest[copies:]])
    near = nearest_distances(honest[copies:], training)[0]
    near = np.count_nonzero(near <= near_quantile(nearest_distances(held_out, training)[0]))
    assert measured(held_out, generated, training) == pytest.approx((copies + near) / 400)


def test_memorisation_copies_in_the_data_leave_five_percent_fair_and_copies_visible():
    held_out = np.concatenate([np.zeros(20), np.linspace(1, 2, 80)]).astype(np.float32)
    assert memorisation(held_out, held_out) == pytest.approx(0.05, abs=1e-12)
    assert memorisation(held_out, np.zeros(50, np.float32)) == pytest.approx(0.05 / 0.2)
    assert memorisation(held_out, np.ones(50, np.float32)) == 0.0


def test_memorisation_by_hand():
    held_out = np.arange(1.0, 41.0, dtype=np.float32)  # the second of forty is the threshold
    assert near_quantile(held_out) == 2.0
    generated = np.array([0.0, 1.5, 2.0, 2.5], np.float32)
    # Two below; the one at it counts by (0.05 - 1 / 40) / (1 / 40) = 1.
    assert memorisation(held_out, generated) == pytest.approx(3 / 4)


@pytest.mark.parametrize("broken", [[], [np.nan, 1.0], [np.inf, 1.0]])
def test_memorisation_not_measured_is_nan(broken):
    fine, broken = np.ones(5, np.float32), np.array(broken, np.float32)
    assert math.isnan(memorisation(fine, broken))
    assert math.isnan(memorisation(broken, fine))
