"""Whether a model may replace the one that is served: a pure function of numbers and rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from components.gan_evaluator import wording
from components.gan_evaluator.judgement import Case, Failure
from components.gan_evaluator.measurements import (
    ExtractorIdentity,
    ModelMetrics,
    SliceMetrics,
    Value,
)
from components.gan_evaluator.options import GateRules
from trainer.quality.catalogue import BY_NAME

__all__ = [
    "ExtractorIdentity",
    "Failure",
    "ModelMetrics",
    "SliceMetrics",
    "Value",
    "Verdict",
    "decide",
]

#: Metrics that a reason speaks of; beside the worst, where it refuses.
_NAMED = 3

_SHORT = {
    "not_measured": "not measured",
    "bound": "beyond its bound",
    "worse": "worse than served",
    "not_better": "not better than served",
}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A decision, the sentence that gives its reason, and all that was wrong, worst first."""

    blessed: bool
    reason: str
    metrics: ModelMetrics
    baseline_metrics: ModelMetrics | None
    failures: tuple[Failure, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain data, as it is published."""
        served = self.baseline_metrics
        return {
            "blessed": self.blessed,
            "reason": self.reason,
            "failures": [failure.as_json() for failure in self.failures],
            "metrics": self.metrics.as_json(),
            "baseline_metrics": served.as_json() if served else None,
        }


def decide(
    candidate: ModelMetrics,
    served: ModelMetrics | None,
    rules: GateRules,
    require: Literal["not_worse", "better"] = "not_worse",
    *,
    is_served_already: bool = False,
    incomparable: str | None = None,
) -> Verdict:
    """Judges a candidate. What cannot be shown to be good is refused.

    Args:
      candidate: what was measured of it.
      served: what was measured of the served model on the same examples; None: nothing served.
      rules: what the candidate must reach, by metric.
      require: better: also better than the served model by one metric that has a tolerance.
      is_served_already: whether the candidate is the served model, file by file.
      incomparable: why the served model could not be measured on the same examples.

    Returns:
      The decision.

    Raises:
      ValueError: the two were not measured alike, so nothing can be said of their difference.
    """
    if served is not None:
        _check_measured_alike(candidate, served)
    cases = [Case(metric, rule, candidate, served) for metric, rule in rules.items()]
    if is_served_already:
        return Verdict(True, _blessing(cases, is_served_already), candidate, served)
    failures = [failure for case in cases for failure in case.failures()]
    if incomparable:
        failures.append(Failure("incomparable", incomparable))
    elif require == "better" and served is not None and not failures:
        failures.extend(_not_better(cases))
    if failures:
        failures.sort(key=lambda failure: failure.severity, reverse=True)
        return Verdict(False, _refusal(failures, cases), candidate, served, tuple(failures))
    return Verdict(True, _blessing(cases), candidate, served)


def _check_measured_alike(candidate: ModelMetrics, served: ModelMetrics) -> None:
    ours, theirs = (
        f"{found.overall.examples} examples of split {found.split} with extractor "
        f"{found.extractor.name}, sha256 {found.extractor.sha256}"
        for found in (candidate, served)
    )
    if ours != theirs:
        raise ValueError(
            f"candidate measured on {ours}; served model on {theirs}; measure both in one run"
        )


def _not_better(cases: Sequence[Case]) -> Iterator[Failure]:
    """The failure to be better by any metric that is compared."""
    compared = [case.compared for case in cases if case.compared]
    if any(found.is_better for found in compared):
        return
    what = "no metric is better than the served model's by more than chance"
    if not compared:
        yield Failure("not_better", what)
        return
    best = min(compared, key=lambda found: found.worsening / (abs(found.old.value) or 1.0))
    yield Failure(
        "not_better",
        f"{what}, as evaluation.require asks: {wording.comparison(best)}",
        best.metric.name,
        None,
        best.new.value,
        best.error,
        best.old.value,
    )


def _refusal(failures: Sequence[Failure], cases: Sequence[Case]) -> str:
    worst, *others = failures
    also = ", ".join(_in_short(failure) for failure in others[:_NAMED])
    if len(others) > _NAMED:
        also += f" and {len(others) - _NAMED} more"
    reason = f"{worst.message}; also failed: {also}" if others else worst.message
    # That models cannot be compared has nothing to do with numbers of images.
    scope = f" ({_scope(cases, worst.class_name)})" if worst.metric else ""
    return f"Refused: {reason}{scope}."


def _in_short(failure: Failure) -> str:
    if failure.metric is None:
        return failure.message
    return f"{wording.title(BY_NAME[failure.metric], failure.class_name)} ({_SHORT[failure.kind]})"


def _blessing(cases: Sequence[Case], is_served_already: bool = False) -> str:
    asked = [case for case in cases if case.is_asked] or cases[:1]
    parts = [case.held() for case in asked[:_NAMED]]
    if len(asked) > _NAMED:
        more = len(asked) - _NAMED
        parts.append(f"{more} more metrics hold" if more > 1 else "1 more metric holds")
    judged = set().union(*(case.judged_classes() for case in cases)) - _unjudged(cases)
    if judged:
        parts.append(f"{len(judged)} of {len(cases[0].candidate.per_class)} classes hold")
    if is_served_already:
        parts = ["it is the model that is served already", parts[0]]
    elif cases[0].served is None:
        parts.append("nothing was served before")
    return f"Blessed: {'; '.join(parts)} ({_scope(cases)})."


def _scope(cases: Sequence[Case], class_name: str | None = None) -> str:
    """What the numbers are from, and what could not be judged."""
    candidate = cases[0].candidate
    scope = wording.counts(candidate.overall)
    if class_name is not None:
        scope = f"{candidate.per_class[class_name].examples} of {scope}"
    unjudged = len(_unjudged(cases))
    if unjudged:
        scope += f"; {unjudged} of {len(candidate.per_class)} classes too small to be judged"
    return scope


def _unjudged(cases: Sequence[Case]) -> set[str]:
    return set().union(*(case.unjudged_classes() for case in cases))
