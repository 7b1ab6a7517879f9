"""What a run remembers: the best of its past, and the way through JSON."""

import json
import math

import pytest
from pydantic import ValidationError

from trainer.history import History, Rollback, Validation


def _validations(*distances):
    return History(
        validations=tuple(
            Validation(step=10 * (i + 1), distance=distance, deviation=1.0)
            for i, distance in enumerate(distances)
        )
    )


@pytest.mark.parametrize(
    ("distances", "step"),
    [
        ((3.0, 1.0, 2.0), 20),
        ((2.0, 1.0, 1.0), 20),
        ((math.nan, 2.0, math.nan), 20),
        ((2.0, math.nan, 1.0), 30),
        ((math.inf, 5.0), 20),
        ((math.inf, math.inf), 10),
    ],
)
def test_best_is_the_first_of_the_smallest_distances(distances, step):
    assert _validations(*distances).best.step == step


@pytest.mark.parametrize("distances", [(), (math.nan,), (math.nan, math.nan)])
def test_best_nothing_measured_is_none(distances):
    assert _validations(*distances).best is None


def test_validated_and_rolled_back_append_and_leave_the_one_before():
    before = _validations(1.0)
    validation = Validation(step=20, distance=2.0, deviation=0.5)
    rollback = Rollback(step=25, to_step=20, fault="the penalty exploded")
    after = before.validated(validation).rolled_back(rollback)
    assert before == _validations(1.0)
    assert after.validations == (*before.validations, validation)
    assert after.rollbacks == (rollback,)
    assert after.rolled_back(rollback).rollbacks == (rollback, rollback)


@pytest.mark.parametrize("distance", [0.1 + 0.2, 1e-320, -0.0, math.inf, -math.inf, math.nan])
def test_history_through_json_is_the_same_bit_for_bit(distance):
    history = _validations(distance).rolled_back(Rollback(step=3, to_step=2, fault="ü\n"))
    for text in (history.model_dump_json(), json.dumps(history.model_dump(mode="json"))):
        again = History.model_validate(json.loads(text))
        assert repr(again) == repr(history)  # in which NaN equals itself, and -0.0 is not 0.0
        assert again.rollbacks == history.rollbacks


def test_history_unknown_key_is_refused():
    with pytest.raises(ValidationError, match="verdicts"):
        History.model_validate({"verdicts": []})


def test_history_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        _validations(1.0).rollbacks = ()
