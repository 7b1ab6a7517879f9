"""Whether a model may replace the one that is served: a pure function of numbers and bounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class SliceMetrics:
    """What was measured on one set of examples. NaN: could not be measured."""

    frechet_distance: float
    relative_frechet_distance: float
    examples: int

    def as_json(self) -> dict[str, Any]:
        """Plain data; what could not be measured is null."""
        return {
            "frechet_distance": _or_none(self.frechet_distance),
            "relative_frechet_distance": _or_none(self.relative_frechet_distance),
            "examples": self.examples,
        }


NOT_MEASURED = SliceMetrics(math.nan, math.nan, 0)


@dataclasses.dataclass(frozen=True)
class ModelMetrics:
    """What was measured of one model.

    Attributes:
      overall: on all examples.
      per_class: by class name; empty where classes mean nothing to the model.
      extractor: name of the features that the distances were taken in.
    """

    overall: SliceMetrics
    per_class: Mapping[str, SliceMetrics]
    extractor: str

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            **self.overall.as_json(),
            "extractor": self.extractor,
            "per_class": {name: found.as_json() for name, found in self.per_class.items()},
        }


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What a candidate must reach.

    Attributes:
      max_relative_frechet_distance: the most that the relative distance may be.
      max_frechet_increase: the most by which the distance may exceed the served model's, as a
        share of it.
    """

    max_relative_frechet_distance: float
    max_frechet_increase: float


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A decision and the sentence that gives its reason, numbers included."""

    blessed: bool
    reason: str
    metrics: ModelMetrics
    baseline_metrics: ModelMetrics | None

    def as_json(self) -> dict[str, Any]:
        """Plain data, as it is published."""
        served = self.baseline_metrics
        return {
            "blessed": self.blessed,
            "reason": self.reason,
            "metrics": self.metrics.as_json(),
            "baseline_metrics": served.as_json() if served else None,
        }


def decide(
    candidate: ModelMetrics,
    served: ModelMetrics | None,
    bounds: Bounds,
    *,
    is_served_already: bool = False,
    incomparable: str | None = None,
) -> Verdict:
    """Judges a candidate. What cannot be shown to be good is refused.

    Args:
      candidate: what was measured of it.
      served: what was measured of the served model on the same examples; None: nothing served.
      bounds: what the candidate must reach.
      is_served_already: whether the candidate is the served model, file by file.
      incomparable: why the served model could not be measured on the same examples.

    Returns:
      The decision.
    """
    blessed, reason = _judge(candidate.overall, served, bounds, is_served_already, incomparable)
    return Verdict(blessed, reason, candidate, served)


def _judge(
    found: SliceMetrics,
    served: ModelMetrics | None,
    bounds: Bounds,
    is_served_already: bool,
    incomparable: str | None,
) -> tuple[bool, str]:
    distance, relative = found.frechet_distance, found.relative_frechet_distance
    bound = bounds.max_relative_frechet_distance
    if is_served_already:
        return True, (
            "Blessed: it is the model that is served already "
            f"(relative Frechet distance {relative:.4g} on {found.examples} examples)."
        )
    if not (math.isfinite(distance) and math.isfinite(relative)):
        return False, (
            f"Refused: no Frechet distance could be computed from {found.examples} examples."
        )
    if not relative <= bound:
        return False, (
            f"Refused: the relative Frechet distance {relative:.4g} is above the bound {bound:.4g} "
            f"({found.examples} examples)."
        )
    if incomparable:
        return False, f"Refused: {incomparable}."
    within = f"relative Frechet distance {relative:.4g}, bound {bound:.4g}"
    if served is None:
        return True, f"Blessed: {within}; nothing was served before ({found.examples} examples)."
    other = served.overall.frechet_distance
    tolerance = bounds.max_frechet_increase
    if not math.isfinite(other):
        return False, (
            "Refused: the served model's Frechet distance could not be computed from "
            f"{served.overall.examples} examples."
        )
    comparison = (
        f"Frechet distance {distance:.4g} against the served model's {other:.4g}, "
        f"tolerated increase {tolerance:.3g}"
    )
    if not distance <= other * (1.0 + tolerance):
        return False, f"Refused: {comparison} ({found.examples} examples)."
    return True, f"Blessed: {within}; {comparison} ({found.examples} examples)."


def _or_none(number: float) -> float | None:
    return number if math.isfinite(number) else None
