"""The verdict: a pure function of numbers and rules."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
from scipy import stats

from components.gan_evaluator.comparison import Comparison, class_z
from components.gan_evaluator.measurements import (
    ExtractorIdentity,
    ModelMetrics,
    SliceMetrics,
    Value,
)
from components.gan_evaluator.options import GateRule, GateRules
from components.gan_evaluator.verdict import decide
from trainer.quality import catalogue

DISTANCE = "relative_frechet_distance"
EXTRACTOR = ExtractorIdentity("random", "ab" * 32, 64)


def value(number: float, error: float = 0.01, change_error: float = 0.01) -> Value:
    return Value(number, error, change_error=change_error)


def measured(examples: int = 100, **values: float | Value) -> SliceMetrics:
    """One slice; `distance` stands for the first metric of the catalogue."""
    named = {name if name != "distance" else DISTANCE: found for name, found in values.items()}
    found = {n: v if isinstance(v, Value) else value(v) for n, v in named.items()}
    return SliceMetrics(found, examples, examples, examples)


def model(classes: dict[str, SliceMetrics] | None = None, **values) -> ModelMetrics:
    return ModelMetrics(measured(**values), classes or {}, EXTRACTOR, "eval")


def rules(**by_metric: dict[str, float]) -> GateRules:
    """These rules, and nothing asked of any other metric; `distance` as above."""
    given = {name if name != "distance" else DISTANCE: rule for name, rule in by_metric.items()}
    return GateRules(**{n: GateRule(**given.get(n, {})) for n in GateRules.model_fields})


RULES = rules(distance={"bound": 0.5, "tolerance": 0.1})


@pytest.mark.parametrize(
    ("candidate", "served", "reason"),
    [
        (
            value(0.0512, 0.0031),
            None,
            "Blessed: Relative Frechet distance 0.0512 ± 0.0031 (bound 0.5); nothing was served "
            "before (100 examples).",
        ),
        # A bound is a bound: the value itself counts, not its error.
        (
            value(0.5, 0.2),
            None,
            "Blessed: Relative Frechet distance 0.5 ± 0.2 (bound 0.5); nothing was served before "
            "(100 examples).",
        ),
        (
            value(0.5001, 0.2),
            None,
            "Refused: Relative Frechet distance 0.5001 ± 0.2 is above the bound 0.5 "
            "(100 examples).",
        ),
        # Nominally worse beyond the tolerance, but by chance as likely as not.
        (
            value(0.051, 0.004, 0.003),
            value(0.045),
            "Blessed: Relative Frechet distance 0.051 ± 0.004 (bound 0.5) against the served "
            "model's 0.045: worse by 0.006 ± 0.003, within 2 standard errors, so not called worse "
            "(100 examples).",
        ),
        (
            value(0.052, 0.004, 0.003),
            value(0.045),
            "Refused: Relative Frechet distance 0.052 ± 0.004 against the served model's 0.045: "
            "worse by 0.007 ± 0.003, beyond the tolerance of 10% and 2 standard errors "
            "(100 examples).",
        ),
        # Worse beyond chance, but by less than is tolerated.
        (
            value(0.109, 0.002, 0.001),
            value(0.1),
            "Blessed: Relative Frechet distance 0.109 ± 0.002 (bound 0.5) against the served "
            "model's 0.1: worse by 0.009 ± 0.001, within the tolerance of 10% (100 examples).",
        ),
        (
            value(0.1, 0.002, 0.001),
            value(0.109),
            "Blessed: Relative Frechet distance 0.1 ± 0.002 (bound 0.5) against the served "
            "model's 0.109: better by 0.009 ± 0.001 (100 examples).",
        ),
        (
            value(0.1, 0.002, 0.005),
            value(0.109),
            "Blessed: Relative Frechet distance 0.1 ± 0.002 (bound 0.5) against the served "
            "model's 0.109: better by 0.009 ± 0.005, within 2 standard errors, so not called "
            "better (100 examples).",
        ),
        (
            value(0.1),
            value(0.1),
            "Blessed: Relative Frechet distance 0.1 ± 0.01 (bound 0.5) against the served "
            "model's 0.1: the same (100 examples).",
        ),
        # An unknown error excuses nothing, and proves nothing.
        (
            value(0.12, math.nan, math.nan),
            value(0.1),
            "Refused: Relative Frechet distance 0.12 against the served model's 0.1: worse by "
            "0.02 with an unknown error, beyond the tolerance of 10% (100 examples).",
        ),
        (
            value(0.08, math.nan, math.nan),
            value(0.1),
            "Blessed: Relative Frechet distance 0.08 (bound 0.5) against the served model's 0.1: "
            "better by 0.02 with an unknown error (100 examples).",
        ),
        (
            value(0.6, 0.01, 0.01),
            value(0.9),
            "Refused: Relative Frechet distance 0.6 ± 0.01 is above the bound 0.5 (100 examples).",
        ),
        (
            value(math.nan),
            value(0.1),
            "Refused: Relative Frechet distance could not be measured (100 examples).",
        ),
        (
            value(math.inf),
            None,
            "Refused: Relative Frechet distance could not be measured (100 examples).",
        ),
        (
            value(0.1),
            value(math.nan),
            "Refused: Relative Frechet distance of the served model could not be measured "
            "(100 examples).",
        ),
    ],
)
def test_decide_one_metric_says_the_numbers(candidate, served, reason):
    before = None if served is None else model(distance=served)
    verdict = decide(model(distance=candidate), before, RULES)
    assert verdict.reason == reason
    assert verdict.blessed is reason.startswith("Blessed")
    assert bool(verdict.failures) is not verdict.blessed
    assert "\n" not in verdict.reason


def test_decide_metric_of_which_more_is_better_has_a_minimum():
    asked = rules(coverage={"bound": 0.3, "tolerance": 0.1})
    assert decide(model(coverage=0.3), None, asked).blessed
    low = decide(model(coverage=0.2999), None, asked)
    assert low.reason.startswith("Refused: Coverage 0.2999 ± 0.01 is below the bound 0.3 ")
    assert decide(model(coverage=0.6), model(coverage=0.4), asked).blessed
    lost = decide(model(coverage=0.4), model(coverage=0.6), asked)
    assert "worse by 0.2 ± 0.01, beyond the tolerance of 10%" in lost.reason
    assert lost.failures[0].limit == pytest.approx(0.54)


def test_decide_negative_value_is_compared_by_its_size():
    # The kernel distance is unbiased, so it may fall below 0.
    asked = rules(kernel_distance={"tolerance": 0.5})
    served = model(kernel_distance=-0.1)
    exact = {"error": 0.0, "change_error": 0.0}
    assert decide(model(kernel_distance=Value(-0.051, **exact)), served, asked).blessed
    assert not decide(model(kernel_distance=Value(-0.049, **exact)), served, asked).blessed


def test_decide_names_the_worst_first_and_lists_all():
    asked = rules(
        distance={"bound": 0.5, "tolerance": 0.1},
        recall={"bound": 0.4},
        coverage={"bound": 0.4, "tolerance": 0.1, "class_bound": 0.4},
        density={"bound": 0.5},
        diversity={"bound": 0.5},
    )
    classes = {"cat": measured(examples=40, coverage=0.1)}
    candidate = model(
        classes, distance=0.55, recall=0.2, coverage=0.38, density=math.nan, diversity=0.4
    )
    verdict = decide(candidate, model(distance=0.2, coverage=0.39), asked)
    found = [(one.metric, one.class_name, one.kind) for one in verdict.failures]
    assert found == [
        ("density", None, "not_measured"),
        (DISTANCE, None, "worse"),  # 0.55 for at most 0.22
        ("recall", None, "bound"),  # half of what is asked
        ("diversity", None, "bound"),  # a fifth below
        (DISTANCE, None, "bound"),  # a tenth above
        ("coverage", None, "bound"),  # a twentieth below
        ("coverage", "cat", "bound"),  # a class, however bad, comes after all images
    ]
    assert verdict.reason == (
        "Refused: Density could not be measured; also failed: Relative Frechet "
        "distance (worse than served), Recall (beyond its bound), Diversity (beyond its bound) "
        "and 3 more (100 examples)."
    )
    assert verdict.as_json()["failures"][1] == {
        "metric": DISTANCE,
        "class": None,
        "kind": "worse",
        "value": 0.55,
        "error": 0.01,
        "limit": pytest.approx(0.22),
        "message": "Relative Frechet distance 0.55 ± 0.01 against the served model's 0.2: worse "
        "by 0.35 ± 0.01, beyond the tolerance of 10% and 2 standard errors",
    }


def test_decide_blessing_speaks_of_three_metrics_and_counts_the_rest():
    asked = rules(
        distance={"bound": 0.5},
        precision={"bound": 0.1},
        recall={"bound": 0.1},
        density={"bound": 0.1},
        coverage={"bound": 0.1},
    )
    candidate = model(distance=0.1, precision=0.5, recall=0.6, density=0.7, coverage=0.8)
    assert decide(candidate, None, asked).reason == (
        "Blessed: Relative Frechet distance 0.1 ± 0.01 (bound 0.5); Precision 0.5 ± 0.01 "
        "(bound 0.1); Recall 0.6 ± 0.01 (bound 0.1); 2 more metrics hold; nothing was served "
        "before (100 examples)."
    )


def test_decide_one_more_metric_is_not_several():
    names = ("precision", "recall", "density", "coverage")
    asked = rules(**{name: {"bound": 0.1} for name in names})
    reason = decide(model(**dict.fromkeys(names, 0.5)), None, asked).reason
    assert "; 1 more metric holds; nothing was served before" in reason


def test_decide_sampled_images_are_told_where_they_are_fewer():
    some = SliceMetrics({DISTANCE: value(0.1)}, 5000, 2000, 2000)
    verdict = decide(ModelMetrics(some, {}, EXTRACTOR, "eval"), None, RULES)
    assert verdict.reason.endswith("(5000 examples, 2000 sampled).")


def test_decide_metric_that_is_not_asked_for_may_be_anything():
    poor = model(distance=0.1, coverage=0.0, recall=math.nan)
    assert decide(poor, model(distance=0.1, coverage=1.0), RULES).blessed


CLASS_RULES = rules(coverage={"class_bound": 0.2, "class_tolerance": 0.1})


def classes(**values: float | Value) -> dict[str, SliceMetrics]:
    return {name: measured(examples=30, coverage=found) for name, found in values.items()}


def test_decide_class_below_its_bound_is_refused_by_name():
    verdict = decide(model(classes(cat=0.3, dog=0.1), coverage=0.5), None, CLASS_RULES)
    assert verdict.reason == (
        "Refused: Coverage of class 'dog' 0.1 ± 0.01 is below the bound 0.2 (30 of 100 examples)."
    )
    assert [failure.class_name for failure in verdict.failures] == ["dog"]


def test_decide_class_worse_than_served_must_be_so_beyond_chance_for_all_classes():
    # Ten classes: 3.09 standard errors, where one would have 2.
    asked = rules(coverage={"class_tolerance": 0.1})
    served = model(classes(**{f"c{i}": 0.5 for i in range(10)}))
    for drop, blessed in ((0.3, True), (0.31, False)):
        one_worse = classes(**{f"c{i}": 0.5 for i in range(9)}, c9=value(0.5 - drop, 0.1, 0.1))
        verdict = decide(model(one_worse), served, asked)
        assert verdict.blessed is blessed
    assert verdict.reason == (
        "Refused: Coverage of class 'c9' 0.19 ± 0.1 against the served model's 0.5: worse by 0.31 "
        "± 0.1, beyond the tolerance of 10% and 3.09 standard errors (30 of 100 examples)."
    )


def test_decide_classes_too_small_are_counted_not_judged():
    candidate = model(classes(cat=0.3, dog=math.nan, owl=Value(0.25, change_error=math.nan)))
    # Of the owl there is a value, to be held against the bound, but no error.
    assert decide(candidate, None, CLASS_RULES).reason.endswith(
        "; 2 of 3 classes hold; nothing was served before "
        "(100 examples; 1 of 3 classes too small to be judged)."
    )
    served = model(classes(cat=0.3, dog=0.3, owl=0.9))
    verdict = decide(candidate, served, CLASS_RULES)
    assert verdict.blessed
    assert verdict.reason.endswith(
        "; 1 of 3 classes hold (100 examples; 2 of 3 classes too small to be judged)."
    )


def test_decide_no_class_that_can_be_measured_for_its_bound_is_refused():
    candidate = model(classes(cat=math.nan, dog=math.nan))
    verdict = decide(candidate, None, CLASS_RULES)
    assert verdict.reason == (
        "Refused: Coverage could not be measured in any class "
        "(100 examples; 2 of 2 classes too small to be judged)."
    )


def test_decide_no_class_that_can_be_compared_is_counted_not_refused():
    unknown = model(classes(cat=Value(0.5, change_error=math.nan)))
    verdict = decide(unknown, unknown, CLASS_RULES)
    assert verdict.blessed
    assert "1 of 1 classes too small to be judged" in verdict.reason


def test_decide_class_that_the_served_model_does_not_know_is_not_compared():
    verdict = decide(model(classes(cat=0.3)), model(classes(dog=0.9)), CLASS_RULES)
    assert verdict.blessed
    assert "too small" not in verdict.reason


def test_decide_without_classes_has_no_rule_for_classes():
    assert decide(model(coverage=0.5), None, CLASS_RULES).blessed


@pytest.mark.parametrize(
    ("candidate", "blessed"),
    [(value(0.07), True), (value(0.085), False), (value(0.105), False), (value(0.1), False)],
)
def test_decide_required_to_be_better_must_be_so_beyond_chance(candidate, blessed):
    served = model(distance=0.1)
    verdict = decide(model(distance=candidate), served, RULES, "better")
    assert verdict.blessed is blessed
    assert decide(model(distance=candidate), served, RULES).blessed


def test_decide_worse_is_not_called_not_better_as_well():
    verdict = decide(model(distance=0.4), model(distance=0.2), RULES, "better")
    assert [failure.kind for failure in verdict.failures] == ["worse"]


def test_decide_not_better_says_what_came_nearest():
    asked = rules(distance={"tolerance": 0.1}, coverage={"tolerance": 0.1, "bound": 0.1})
    verdict = decide(
        model(distance=0.1, coverage=0.51), model(distance=0.1, coverage=0.5), asked, "better"
    )
    assert verdict.reason == (
        "Refused: no metric is better than the served model's by more than chance, as "
        "evaluation.require asks: Coverage 0.51 ± 0.01 against the served model's 0.5: better by "
        "0.01 ± 0.01, within 2 standard errors, so not called better (100 examples)."
    )
    one_better = model(distance=0.1, coverage=0.54)
    assert decide(one_better, model(distance=0.1, coverage=0.5), asked, "better").blessed


def test_decide_better_is_not_required_of_the_first_model():
    assert decide(model(distance=0.4), None, RULES, "better").blessed


def test_decide_better_by_nothing_that_is_compared_is_refused():
    asked = rules(distance={"bound": 0.5})
    verdict = decide(model(distance=0.1), model(distance=0.4), asked, "better")
    assert verdict.reason.startswith("Refused: no metric is better than the served model's")


def test_decide_served_already_keeps_its_blessing():
    poor = model(distance=9.0)
    verdict = decide(poor, poor, RULES, is_served_already=True)
    assert verdict.blessed
    assert verdict.reason == (
        "Blessed: it is the model that is served already; Relative Frechet distance 9 ± 0.01 "
        "(bound 0.5) against the served model's 9: the same (100 examples)."
    )


def test_decide_served_already_that_could_not_be_measured_keeps_its_blessing():
    nothing = ModelMetrics(SliceMetrics(), {}, EXTRACTOR, "eval")
    verdict = decide(nothing, nothing, RULES, is_served_already=True)
    assert verdict.blessed
    assert "Relative Frechet distance not measured (0 examples)" in verdict.reason


@pytest.mark.parametrize(
    "other",
    [
        {"extractor": dataclasses.replace(EXTRACTOR, sha256="cd" * 32)},
        {"extractor": dataclasses.replace(EXTRACTOR, name="inception")},
        {"split": "train"},
        {"overall": measured(99, distance=0.1)},
    ],
)
def test_decide_models_that_were_not_measured_alike_raises(other):
    served = model(distance=0.1)
    with pytest.raises(ValueError, match="measure both in one run"):
        decide(served, dataclasses.replace(served, **other), RULES)


def test_decide_served_model_not_comparable_is_refused():
    verdict = decide(model(distance=0.1), None, RULES, incomparable="other sizes")
    assert verdict.reason == "Refused: other sizes."
    assert [failure.kind for failure in verdict.failures] == ["incomparable"]
    both = decide(model(distance=0.9), None, RULES, incomparable="other sizes")
    assert both.reason == (
        "Refused: other sizes; also failed: Relative Frechet distance (beyond its bound)."
    )


@pytest.mark.parametrize("classes", [1, 2, 10, 100, 1000])
def test_class_z_false_alarm_of_all_classes_is_that_of_one(classes):
    alarm = stats.t.sf(2.0, df=19)
    assert classes * stats.t.sf(class_z(classes), df=19) == pytest.approx(alarm)


def test_comparison_limit_is_where_worse_begins():
    for better, metric in ((-1.0, "frechet_distance"), (1.0, "coverage")):
        old = Value(2.0)
        compared = Comparison(catalogue.BY_NAME[metric], Value(2.0, change_error=0.3), old, 0.1)
        assert compared.limit == pytest.approx(2.0 - better * 0.6)
        for shift, worse in ((1e-9, False), (-1e-9, True)):
            new = Value(compared.limit + better * shift, change_error=0.3)
            assert Comparison(compared.metric, new, old, 0.1).is_worse is worse


def test_comparison_worsening_of_just_the_tolerance_is_not_worse():
    # All of these are exact in binary.
    new, old = Value(3.0, change_error=0.25), Value(2.0)
    metric = catalogue.BY_NAME["frechet_distance"]
    assert not Comparison(metric, new, old, tolerance=0.5).is_worse
    assert Comparison(metric, new, old, tolerance=0.4375).is_worse


def test_verdict_as_json_is_flat_and_has_null_for_what_was_not_measured():
    full = SliceMetrics({DISTANCE: Value(0.25, 0.5, 0.125, 0.75)}, 100, 50, 40)
    candidate = ModelMetrics(full, {"cat": SliceMetrics(examples=1)}, EXTRACTOR, "eval")
    found = json.loads(json.dumps(decide(candidate, None, RULES).as_json(), allow_nan=False))
    assert set(found) == {"blessed", "reason", "failures", "metrics", "baseline_metrics"}
    assert found["baseline_metrics"] is None
    assert found["failures"] == []
    nothing = dict.fromkeys(catalogue.BY_NAME)
    assert found["metrics"] == {
        **nothing,
        DISTANCE: 0.25,
        "examples": 100,
        "sampled": 50,
        "training": 40,
        "errors": {**nothing, DISTANCE: 0.5},
        "floors": {**nothing, DISTANCE: 0.125},
        "change_errors": {**nothing, DISTANCE: 0.75},
        "extractor": "random",
        "extractor_sha256": "ab" * 32,
        "split": "eval",
        "per_class": {
            "cat": {
                **nothing,
                "examples": 1,
                "sampled": 0,
                "training": 0,
                "errors": nothing,
                "floors": nothing,
                "change_errors": nothing,
            }
        },
    }
