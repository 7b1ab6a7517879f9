"""Frechet distance and moments against independent computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg

from trainer.quality.frechet import frechet_distance, of_vectors, relative_frechet_distance
from trainer.quality.moments import Moments


def features(count: int, dimension: int, seed: int) -> np.ndarray:
    """Correlated vectors with a mean of their own."""
    random = np.random.default_rng(seed)
    mixing = random.standard_normal((dimension, dimension))
    return random.standard_normal((count, dimension)) @ mixing + random.standard_normal(dimension)


def by_sqrtm(first: np.ndarray, second: np.ndarray) -> float:
    """The textbook form, with a root of the product of the covariances."""
    covariances = [np.cov(part, rowvar=False) for part in (first, second)]
    shift = first.mean(axis=0) - second.mean(axis=0)
    root = scipy.linalg.sqrtm(covariances[0] @ covariances[1])
    return float(shift @ shift + np.trace(covariances[0] + covariances[1] - 2 * root.real))


@pytest.mark.parametrize(("count", "dimension"), [(500, 2), (500, 16), (1000, 64)])
def test_frechet_distance_full_rank_equals_scipy(count, dimension):
    first, second = features(count, dimension, 1), features(count + 7, dimension, 2)
    found = frechet_distance(Moments.of(first), Moments.of(second))
    assert found == pytest.approx(by_sqrtm(first, second), rel=1e-9)


@pytest.mark.parametrize("count", [2, 10, 63])
def test_frechet_distance_fewer_vectors_than_dimensions_equals_scipy(count):
    first, second = features(count, 64, 3), features(count + 1, 64, 4)
    found = frechet_distance(Moments.of(first), Moments.of(second))
    assert math.isfinite(found)
    # The root of a singular product is what SciPy knows least well.
    assert found == pytest.approx(by_sqrtm(first, second), rel=1e-5)


def test_frechet_distance_one_dimension_equals_the_closed_form():
    # For N(m, s^2): (m1 - m2)^2 + (s1 - s2)^2.
    first = np.array([[-1.0], [1.0], [3.0]])  # mean 1, deviation 2
    second = np.array([[1.0], [6.0], [11.0]])  # mean 6, deviation 5
    found = frechet_distance(Moments.of(first), Moments.of(second))
    assert found == pytest.approx(25.0 + 9.0, rel=1e-12)
    relative = relative_frechet_distance(Moments.of(first), Moments.of(second))
    assert relative == pytest.approx(34.0 / 4.0, rel=1e-12)


def test_frechet_distance_of_a_line_to_a_ball_equals_the_closed_form():
    # Covariances a u u^T, of rank 1, and b I, in D dimensions: a + D b - 2 sqrt(a b).
    direction = np.full(64, 1 / 8)
    basis = np.linalg.qr(features(64, 64, 10))[0]
    line = Moments.of(np.outer([-1.0, 1.0], direction) + 3.0)
    ball = Moments.of(np.concatenate([basis, -basis]) + 3.0)
    a, b = 2.0, 2.0 / 127.0
    expected = a + 64 * b - 2 * np.sqrt(a * b)
    # Rounding remainders taken for variance would show at 1e-8.
    assert frechet_distance(line, ball) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("count", [5, 40, 400])
def test_frechet_distance_to_itself_is_zero(count):
    moments = Moments.of(features(count, 40, 5))
    assert frechet_distance(moments, moments) <= 1e-12 * np.trace(moments.covariance)


@pytest.mark.parametrize("counts", [(2, 3), (20, 31), (64, 64), (30, 400), (400, 30), (300, 301)])
def test_frechet_distances_of_vectors_equal_those_of_their_moments(counts):
    first, second = features(counts[0], 64, 3), features(counts[1], 64, 4)
    moments = Moments.of(first), Moments.of(second)
    found = of_vectors(first, second)
    assert found["frechet_distance"] == pytest.approx(frechet_distance(*moments), rel=1e-10)
    expected = relative_frechet_distance(*moments)
    assert found["relative_frechet_distance"] == pytest.approx(expected, rel=1e-10)
    assert found["frechet_distance"] == pytest.approx(by_sqrtm(first, second), rel=1e-5)


@pytest.mark.parametrize("count", [0, 1, 10])
def test_frechet_distances_of_vectors_too_few_or_not_finite_are_nan(count):
    enough, broken = features(10, 30, 8), features(count, 30, 9)
    broken[4:5, 1] = np.inf
    for pair in ((enough, broken), (broken, enough)):
        assert all(math.isnan(value) for value in of_vectors(*pair).values())
    same = of_vectors(np.ones((5, 30)), enough)
    assert math.isfinite(same["frechet_distance"])
    assert math.isnan(same["relative_frechet_distance"])


def test_frechet_distance_is_symmetric_and_grows_by_the_square_of_a_shift():
    vectors = features(300, 8, 6)
    moments, shifted = Moments.of(vectors), Moments.of(vectors + 0.5)
    assert frechet_distance(moments, shifted) == pytest.approx(8 * 0.25, rel=1e-9)
    other = Moments.of(features(300, 8, 7))
    assert frechet_distance(moments, other) == pytest.approx(frechet_distance(other, moments))


def test_frechet_distance_too_few_or_not_finite_is_nan():
    enough = Moments.of(features(10, 3, 8))
    broken = features(10, 3, 9)
    broken[4, 1] = np.nan
    for other in (Moments.empty(3), Moments.of(features(1, 3, 9)), Moments.of(broken)):
        assert math.isnan(frechet_distance(enough, other))
        assert math.isnan(frechet_distance(other, enough))
        assert math.isnan(relative_frechet_distance(other, enough))


def test_relative_frechet_distance_real_images_all_equal_is_nan():
    same = Moments.of(np.ones((5, 3)))
    assert math.isnan(relative_frechet_distance(same, Moments.of(features(10, 3, 1))))


def test_relative_frechet_distance_does_not_know_the_scale():
    first, second = features(100, 8, 1), features(100, 8, 2)
    found = relative_frechet_distance(Moments.of(first), Moments.of(second))
    scaled = relative_frechet_distance(Moments.of(1e3 * first), Moments.of(1e3 * second))
    assert scaled == pytest.approx(found, rel=1e-9)


def test_moments_of_parts_add_up_to_those_of_the_whole():
    vectors = features(100, 5, 3)
    parts = [Moments.of(part) for part in np.split(vectors, [1, 1, 40])]
    merged = parts[3] + parts[1] + (parts[0] + parts[2])
    whole = Moments.of(vectors)
    assert merged.count == whole.count == 100
    np.testing.assert_allclose(merged.mean, vectors.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(merged.covariance, np.cov(vectors, rowvar=False), rtol=1e-10)


def test_moments_of_float32_are_summed_in_float64():
    # In float32 the sum of 1 + tiny loses the tiny part altogether.
    vectors = np.full((1000, 1), 1.0 + 2.0**-23, np.float32)
    moments = Moments.of(vectors)
    assert moments.total.dtype == moments.outer.dtype == np.float64
    assert moments.total[0] == 1000.0 + 1000.0 * 2.0**-23


def test_moments_of_another_rank_raises():
    with pytest.raises(ValueError, match=r"features: got shape \[3\]; allowed: \[N, D\]"):
        Moments.of(np.zeros(3))
