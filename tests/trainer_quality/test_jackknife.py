"""Standard errors against the deviation over independent draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainer.quality.extractors.grid import on_grid
from trainer.quality.image_set import ImageSet
from trainer.quality.jackknife import replicates, standard_error
from trainer.quality.measures import MEASURES


def images(random: np.random.Generator, count: int, shift: float = 0.0) -> ImageSet:
    """Gaussian features; unlike the real ones in mean and spread by `shift`."""
    features = random.normal(shift, 1.0 + shift, (count, 6)).astype(np.float32)
    return ImageSet(features, features, np.abs(features[:, 0]))


#: The jackknife bounds a variance from above (Efron and Stein 1981), closely so for what is nearly
#: a mean; which image lies within which ball depends on six images at a time.
CLOSE, ABOVE = (0.7, 1.5), (0.9, 2.5)


@pytest.mark.parametrize(
    ("group", "name", "between"),
    [
        ("frechet", "frechet_distance", CLOSE),
        ("frechet", "relative_frechet_distance", CLOSE),
        ("kernel", "kernel_distance", CLOSE),
        ("neighbours", "coverage", ABOVE),
        ("neighbours", "precision", ABOVE),
        ("neighbours", "recall", ABOVE),
        ("neighbours", "density", CLOSE),
        ("sliced_wasserstein", "sliced_wasserstein_distance", CLOSE),
        ("memorisation", "memorisation", CLOSE),
        ("diversity", "diversity", CLOSE),
    ],
)
@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_standard_error_is_near_the_deviation_over_independent_draws(group, name, between, shift):
    random = np.random.default_rng(7)
    draws = [(images(random, 400), images(random, 400, shift)) for _ in range(50)]
    truth = np.std([MEASURES[group](*pair)[name] for pair in draws], ddof=1)
    errors = [standard_error(replicates(MEASURES[group], *pair)[name]) for pair in draws[:10]]
    assert between[0] < np.sqrt(np.mean(np.square(errors))) / truth < between[1]


def test_standard_error_of_a_paired_difference_is_near_the_deviation_of_the_difference():
    random = np.random.default_rng(8)
    measure = MEASURES["frechet"]
    differences, errors, apart = [], [], []
    for _ in range(60):
        real, one, other = images(random, 200), images(random, 200, 0.3), images(random, 200, 0.3)
        differences.append(
            measure(real, one)["frechet_distance"] - measure(real, other)["frechet_distance"]
        )
        each = [replicates(measure, real, side)["frechet_distance"] for side in (one, other)]
        errors.append(standard_error(each[0] - each[1]))
        apart.append(math.hypot(*(standard_error(side) for side in each)))
    ratio = np.mean(errors) / np.std(differences, ddof=1)
    assert 0.7 < ratio < 1.5
    assert np.mean(errors) < np.mean(apart)


def test_replicates_leave_one_group_out_of_both_sides():
    real = ImageSet(np.arange(6.0).reshape(6, 1), np.zeros((6, 1)), np.zeros(6))
    generated = ImageSet(10 * np.arange(7.0).reshape(7, 1), np.zeros((7, 1)), np.zeros(7))

    def rows(real, generated):
        return {"real": real.features.sum(), "generated": generated.features.sum()}

    found = replicates(rows, real, generated, groups=3)
    # Of 0..5 without (0, 3), (1, 4), (2, 5); of 0..60 without (0, 30, 60), (10, 40), (20, 50).
    assert found["real"].tolist() == [12.0, 10.0, 8.0]
    assert found["generated"].tolist() == [120.0, 160.0, 140.0]
    assert found["real"].dtype == np.float64


@pytest.mark.parametrize("group", ["kernel", "neighbours", "diversity"])
@pytest.mark.parametrize(("n", "m"), [(100, 100), (107, 150), (150, 107), (20, 20)])
def test_replicates_of_pairs_equal_the_measure_of_the_images_that_are_left(group, n, m):
    random = np.random.default_rng(11)
    real, generated = images(random, n), images(random, m, 0.3)
    for side in (real, generated):  # as extractors give them: products are exact
        side.features[:] = on_grid(side.features)
    # Copies: within a set, across groups, and from one set to the other.
    real.features[5:9] = real.features[3]
    generated.features[10:16] = real.features[3]
    found = replicates(MEASURES[group], real, generated)
    assert found
    left = [[np.arange(count) % 20 != i for count in (n, m)] for i in range(20)]
    direct = [MEASURES[group](real.take(rows), generated.take(others)) for rows, others in left]
    for name, values in found.items():
        expected = [each[name] for each in direct]
        np.testing.assert_allclose(
            values, expected, rtol=0.0 if group == "neighbours" else 1e-12, err_msg=name
        )
        assert len(set(expected)) > 1 or n == 20


def test_replicates_of_pairs_give_no_deviation_over_subsets():
    random = np.random.default_rng(0)
    assert set(replicates(MEASURES["kernel"], images(random, 30), images(random, 30))) == {
        "kernel_distance"
    }


@pytest.mark.parametrize("group", ["kernel", "neighbours", "diversity"])
def test_replicates_of_pairs_only_those_with_an_image_that_is_not_finite_are_nan(group):
    random = np.random.default_rng(0)
    real, generated = images(random, 60), images(random, 60)
    generated.features[23] = np.nan
    for values in replicates(MEASURES[group], real, generated).values():
        assert np.flatnonzero(np.isfinite(values)).tolist() == [3]


def test_standard_error_of_a_mean_equals_the_textbook():
    # Groups of one: the jackknife of a mean is deviation / sqrt(n).
    values = np.array([1.0, 4.0, 4.0, 9.0])
    left_out = np.array([np.delete(values, i).mean() for i in range(4)])
    assert standard_error(left_out) == pytest.approx(np.std(values, ddof=1) / 2.0)


def test_replicates_fewer_images_than_groups_are_nan():
    random = np.random.default_rng(0)
    found = replicates(MEASURES["frechet"], images(random, 19), images(random, 30))
    assert set(found) == {"frechet_distance", "relative_frechet_distance"}
    assert all(np.isnan(values).all() and len(values) == 20 for values in found.values())
    assert math.isnan(standard_error(found["frechet_distance"]))
