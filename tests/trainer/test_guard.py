"""When training is taken back: bounds on numbers."""

import math

import pytest

from trainer import guard
from trainer.history import History, Validation
from trainer.options import GuardOptions

FINE = {
    "critic_loss": 5.0,
    "wasserstein": 3.0,
    "gradient_penalty": 0.1,
    "gradient_norm": 1.1,
    "generator_loss": 2.0,
    "weights": 0.0,
}


def _history(*distances, deviation=1.0):
    """Validations at steps 10, 20, ..."""
    return History(
        validations=tuple(
            Validation(step=10 * i, distance=distance, deviation=deviation)
            for i, distance in enumerate(distances, start=1)
        )
    )


def _newest(distance, deviation=1.0):
    return Validation(step=100, distance=distance, deviation=deviation)


def test_check_metrics_within_bounds_is_no_fault():
    assert guard.check_metrics(FINE, GuardOptions()) is None


@pytest.mark.parametrize("name", FINE)
def test_check_metrics_not_finite_names_the_quantity(name):
    fault = guard.check_metrics(FINE | {name: math.inf}, GuardOptions())
    assert fault is not None
    assert str(fault) == f"{name} is not a finite number"
    assert fault.in_weights


@pytest.mark.parametrize("name", ["gradient_norm", "gradient_penalty"])
def test_check_metrics_beyond_a_bound_names_quantity_and_setting(name):
    options = GuardOptions(**{f"max_{name}": 50.0})
    assert guard.check_metrics(FINE | {name: 50.0}, options) is None
    fault = guard.check_metrics(FINE | {name: 50.1}, options)
    assert str(fault) == f"{name} is 50.1, above training.guard.max_{name}=50"
    assert "training.optimizer.critic_learning_rate" in fault.advice


def test_check_validation_first_one_is_no_fault():
    assert guard.check_validation(_newest(50.0, deviation=0.0), History(), GuardOptions()) is None


@pytest.mark.parametrize("distance", [math.nan, math.inf])
def test_check_validation_not_finite_is_a_fault_of_the_weights(distance):
    fault = guard.check_validation(_newest(distance), _history(1.0), GuardOptions())
    assert str(fault) == "validation_distance is not a finite number"
    assert fault.in_weights


@pytest.mark.parametrize(
    ("before", "now", "is_fault"),
    [
        (0.8, 0.09, False),  # of 0.8: 0.08 is the bound
        (0.8, 0.07, True),
        (3.0, 0.11, False),  # more varied than the real images does not count
        (3.0, 0.09, True),
        (0.001, 0.0, True),
        (0.0, 0.0, False),  # has never varied, as at the start of training
    ],
)
def test_check_validation_deviation_far_below_what_it_was_is_collapse(before, now, is_fault):
    options = GuardOptions(min_sample_deviation=0.1)
    history = _history(1.0, deviation=before)
    fault = guard.check_validation(_newest(1.0, deviation=now), history, options)
    assert (fault is not None) == is_fault
    if fault:
        assert str(fault).startswith(f"sample_deviation is {now:.3g} of the real images', below")
        assert "training.guard.min_sample_deviation=0.1" in str(fault)
        assert not fault.in_weights


def test_check_validation_distance_beyond_the_factor_of_the_best_is_a_fault():
    options = GuardOptions(max_distance_factor=4.0)
    history = _history(2.0, 0.5, 1.0)
    assert guard.check_validation(_newest(2.0), history, options) is None
    fault = guard.check_validation(_newest(2.1), history, options)
    assert str(fault) == (
        "validation_distance is 2.1, above training.guard.max_distance_factor=4 times the best "
        "one, 0.5 at step 20"
    )
    assert not fault.in_weights


def test_check_validation_small_distances_are_no_fault_whatever_the_best():
    options = GuardOptions(max_distance_factor=4.0)
    history = _history(0.0001)
    bound = 4.0 * guard.SMALL_DISTANCE
    assert guard.check_validation(_newest(bound), history, options) is None
    assert guard.check_validation(_newest(bound * 1.01), history, options) is not None


@pytest.mark.parametrize(
    ("distances", "patience", "stalled"),
    [
        ((), 1, False),
        ((1.0,), 1, False),
        ((1.0, 1.0), 1, True),  # as good as the best is not better
        ((1.0, 2.0, 0.9), 2, False),
        ((1.0, 2.0, 3.0), 2, True),
        ((1.0, 2.0, 3.0), 3, False),
        ((1.0, 2.0, 3.0), None, False),
    ],
)
def test_has_stalled_counts_validations_since_the_best(distances, patience, stalled):
    assert guard.has_stalled(_history(*distances), patience) == stalled
