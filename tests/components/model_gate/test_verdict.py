"""The verdict: a pure function of numbers and bounds."""

from __future__ import annotations

import json
import math

import pytest

from components.gan_evaluator.verdict import Bounds, ModelMetrics, SliceMetrics, decide

BOUNDS = Bounds(max_relative_frechet_distance=0.5, max_frechet_increase=0.1)


def metrics(distance: float, relative: float = 0.2, examples: int = 100) -> ModelMetrics:
    return ModelMetrics(SliceMetrics(distance, relative, examples), {}, "random")


@pytest.mark.parametrize(
    ("candidate", "served", "blessed", "reason"),
    [
        (metrics(1.0), None, True, "nothing was served before"),
        (metrics(1.0, 0.5), None, True, "bound 0.5"),
        (metrics(1.0, 0.5001), None, False, "0.5001 is above the bound 0.5"),
        (metrics(1.0), metrics(2.0), True, "1 against the served model's 2"),
        (metrics(1.0999), metrics(1.0), True, "tolerated increase 0.1"),
        (metrics(1.1001), metrics(1.0), False, "1.1 against the served model's 1"),
        # A share of the served model's distance, whatever its size.
        (metrics(20.0), metrics(19.0), True, "20 against the served model's 19"),
        (metrics(0.02), metrics(0.01), False, "0.02 against the served model's 0.01"),
        (metrics(1.0, 0.6), metrics(2.0, 0.9), False, "above the bound"),
        (metrics(0.0), metrics(0.0), True, "0 against the served model's 0"),
        (metrics(math.nan), None, False, "no Frechet distance could be computed from 100"),
        (metrics(1.0, math.nan), None, False, "no Frechet distance could be computed"),
        (metrics(math.inf, math.inf), None, False, "no Frechet distance could be computed"),
        (metrics(math.nan, math.nan, 0), None, False, "from 0 examples"),
        (metrics(1.0), metrics(math.nan), False, "the served model's Frechet distance could not"),
    ],
)
def test_decide_names_the_numbers(candidate, served, blessed, reason):
    verdict = decide(candidate, served, BOUNDS)
    assert verdict.blessed is blessed
    assert reason in verdict.reason
    assert verdict.reason.startswith("Blessed: " if blessed else "Refused: ")
    assert verdict.reason.endswith(".")
    assert "\n" not in verdict.reason


def test_decide_served_already_keeps_its_verdict():
    poor = metrics(9.0, 9.0)
    verdict = decide(poor, poor, BOUNDS, is_served_already=True)
    assert verdict.blessed
    assert "it is the model that is served already" in verdict.reason


def test_decide_served_model_not_comparable_is_refused():
    verdict = decide(metrics(1.0), None, BOUNDS, incomparable="other sizes")
    assert not verdict.blessed
    assert verdict.reason == "Refused: other sizes."


def test_verdict_as_json_has_null_for_what_was_not_measured():
    candidate = ModelMetrics(
        SliceMetrics(1.5, 0.25, 100), {"cat": SliceMetrics(math.nan, math.nan, 1)}, "random"
    )
    text = json.dumps(decide(candidate, None, BOUNDS).as_json(), allow_nan=False)
    found = json.loads(text)
    assert found.pop("reason").startswith("Blessed")
    assert found == {
        "blessed": True,
        "metrics": {
            "frechet_distance": 1.5,
            "relative_frechet_distance": 0.25,
            "examples": 100,
            "extractor": "random",
            "per_class": {
                "cat": {
                    "frechet_distance": None,
                    "relative_frechet_distance": None,
                    "examples": 1,
                }
            },
        },
        "baseline_metrics": None,
    }
