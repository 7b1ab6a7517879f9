"""Kernel distance against a computation pair by pair."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer.quality.kernel import kernel_distance


def by_pairs(real, generated) -> float:
    """The unbiased estimator, as its sums are written."""

    def kernel(x, y):
        return (x @ y / len(x) + 1.0) ** 3

    def among(vectors):
        n = len(vectors)
        pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
        return sum(kernel(vectors[i], vectors[j]) for i, j in pairs) / len(pairs)

    between = np.mean([[kernel(x, y) for y in generated] for x in real])
    return float(among(real) + among(generated) - 2.0 * between)


def draw(seed: int, count: int, shift: float = 0.0, dimension: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 1.0, (count, dimension)).astype(np.float32)


@pytest.mark.parametrize(("n", "m"), [(4, 4), (20, 31)])
def test_kernel_distance_equals_the_sum_over_pairs(n, m):
    real, generated = draw(0, n), draw(1, m, 0.5)
    expected = by_pairs(real.astype(np.float64), generated.astype(np.float64))
    assert kernel_distance(real, generated)[0] == pytest.approx(expected, rel=1e-10)


def test_kernel_distance_of_two_known_points_equals_the_sum_by_hand():
    # D = 1, k = (xy + 1)^3: among zeros 1, among ones 8, between 1.
    zeros, ones = np.zeros((4, 1), np.float32), np.ones((5, 1), np.float32)
    distance, deviation = kernel_distance(zeros, ones)
    assert distance == pytest.approx(1.0 + 8.0 - 2.0, rel=1e-12)
    assert deviation == pytest.approx(0.0, abs=1e-12)


def test_kernel_distance_equal_distributions_is_zero_on_average():
    found = [kernel_distance(draw(2 * i, 60), draw(2 * i + 1, 60))[0] for i in range(200)]
    assert abs(np.mean(found)) < 3.0 * np.std(found) / math.sqrt(len(found))
    assert min(found) < 0.0 < max(found)


def test_kernel_distance_deviation_equals_that_of_independent_subsets():
    real, generated = draw(0, 80), draw(1, 80, 0.7)
    random = np.random.default_rng(5)
    drawn = [
        kernel_distance(
            real[random.choice(80, 40, replace=False)],
            generated[random.choice(80, 40, replace=False)],
        )[0]
        for _ in range(400)
    ]
    deviation = kernel_distance(real, generated)[1]
    assert deviation == pytest.approx(np.std(drawn), rel=0.2)
    # And their mean is the distance of all, to which it is said to tend.
    assert kernel_distance(real, generated)[0] == pytest.approx(np.mean(drawn), rel=0.03)


def test_kernel_distance_grows_with_a_shift_and_is_the_same_again():
    real = draw(0, 200)
    found = [kernel_distance(real, draw(1, 200, shift)) for shift in (0.0, 0.2, 0.5, 1.0)]
    assert [distance for distance, _ in found] == sorted(distance for distance, _ in found)
    assert found[1] == kernel_distance(real, draw(1, 200, 0.2))


def test_kernel_distance_fewer_than_four_is_nan():
    for pair in ((draw(0, 3), draw(1, 9)), (draw(0, 9), draw(1, 3)), (draw(0, 0), draw(1, 0))):
        assert all(math.isnan(value) for value in kernel_distance(*pair))
