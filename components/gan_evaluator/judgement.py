"""One metric of a candidate, held against its rule."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any, Literal

from components.gan_evaluator import wording
from components.gan_evaluator.comparison import Comparison, class_z
from components.gan_evaluator.measurements import ModelMetrics, SliceMetrics, finite
from components.gan_evaluator.options import GateRule
from trainer.quality.catalogue import Metric

Kind = Literal["not_measured", "incomparable", "bound", "worse", "not_better"]


@dataclasses.dataclass(frozen=True)
class Failure:
    """One thing that a candidate is refused for.

    Attributes:
      kind: what is wrong; `not_better` only where that is required.
      message: a clause that says it, numbers included.
      metric: name of the metric; None where the models cannot be compared at all.
      class_name: None: on all examples.
      value: the candidate's.
      error: its standard error, for a bound; else that of the difference.
      limit: the worst value that would have been accepted.
    """

    kind: Kind
    message: str
    metric: str | None = None
    class_name: str | None = None
    value: float = math.nan
    error: float = math.nan
    limit: float = math.nan

    @property
    def severity(self) -> tuple[bool, bool, float]:
        """The larger, the worse: on all examples before classes, then by share of the limit."""
        if math.isfinite(self.value) and math.isfinite(self.limit) and self.limit:
            share = abs(self.value - self.limit) / abs(self.limit)
        else:
            share = math.inf
        return self.class_name is None, self.kind != "not_better", share

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "metric": self.metric,
            "class": self.class_name,
            "kind": self.kind,
            "value": finite(self.value),
            "error": finite(self.error),
            "limit": finite(self.limit),
            "message": self.message,
        }


@dataclasses.dataclass(frozen=True)
class Case:
    """One metric's values and what is asked of them."""

    metric: Metric
    rule: GateRule
    candidate: ModelMetrics
    served: ModelMetrics | None

    @property
    def is_asked(self) -> bool:
        """Whether anything is asked on all examples."""
        return self.rule.bound is not None or self.rule.tolerance is not None

    @functools.cached_property
    def compared(self) -> Comparison | None:
        """Both models on all examples, where that is asked and was measured."""
        if self.rule.tolerance is None or self.served is None:
            return None
        new, old = (model.overall[self.metric.name] for model in (self.candidate, self.served))
        if not (new.measured and old.measured):
            return None
        return Comparison(self.metric, new, old, self.rule.tolerance)

    @functools.cached_property
    def compared_classes(self) -> list[Comparison]:
        """The same by class, of those whose difference has a known error."""
        if self.rule.class_tolerance is None or self.served is None:
            return []
        name = self.metric.name
        pairs = [
            (class_name, self.candidate.per_class[class_name][name], found[name])
            for class_name, found in self.served.per_class.items()
            if class_name in self.candidate.per_class
        ]
        measured = [
            (class_name, new, old)
            for class_name, new, old in pairs
            if new.measured and old.measured and math.isfinite(new.change_error)
        ]
        return [
            Comparison(
                self.metric, new, old, self.rule.class_tolerance, class_z(len(measured)), class_name
            )
            for class_name, new, old in measured
        ]

    @property
    def measured_classes(self) -> dict[str, SliceMetrics]:
        """The classes on which the candidate was measured."""
        return {
            class_name: found
            for class_name, found in self.candidate.per_class.items()
            if found[self.metric.name].measured
        }

    def judged_classes(self) -> set[str]:
        """Classes of which something is asked, and could be told."""
        return set().union(*(judged for _, judged in self._asked_classes()))

    def unjudged_classes(self) -> set[str]:
        """Classes of which something is asked that they have too few images for."""
        return set().union(*(asked - judged for asked, judged in self._asked_classes()))

    def _asked_classes(self) -> Iterator[tuple[set[str], set[str]]]:
        """For each part of the rule, the classes that it is asked of, and those that it can be."""
        classes = set(self.candidate.per_class)
        if self.rule.class_bound is not None:
            yield classes, set(self.measured_classes)
        if self.rule.class_tolerance is not None and self.served is not None:
            compared = {str(found.class_name) for found in self.compared_classes}
            yield classes & self.served.per_class.keys(), compared

    def held(self) -> str:
        """In words: the value on all examples, and what it was held against."""
        value = self.candidate.overall[self.metric.name]
        return wording.held(self.metric, value, self.rule.bound, self.compared)

    def failures(self) -> Iterator[Failure]:
        """Everything in which the rule is broken."""
        yield from self._not_measured()
        yield from self._beyond_bounds()
        found = [self.compared] if self.compared else []
        yield from (_worse(each) for each in found + self.compared_classes if each.is_worse)

    def _not_measured(self) -> Iterator[Failure]:
        rule = self.rule
        if self.is_asked and not self.candidate.overall[self.metric.name].measured:
            yield self._unknown("could not be measured")
        elif self.compared is None and rule.tolerance is not None and self.served is not None:
            yield self._unknown("of the served model could not be measured")
        # A comparison that no class has images enough for is counted in the verdict, not refused:
        # it is asked for by default, and then of data with few images of each class as well.
        if rule.class_bound is not None and self.candidate.per_class and not self.measured_classes:
            yield self._unknown("could not be measured in any class")

    def _unknown(self, what: str) -> Failure:
        return Failure("not_measured", f"{self.metric.title} {what}", self.metric.name)

    def _beyond_bounds(self) -> Iterator[Failure]:
        slices: list[tuple[str | None, SliceMetrics, float | None]] = [
            (None, self.candidate.overall, self.rule.bound),
            *(
                (class_name, found, self.rule.class_bound)
                for class_name, found in self.measured_classes.items()
            ),
        ]
        for class_name, found, bound in slices:
            value = found[self.metric.name]
            if bound is None or not value.measured:
                continue
            if self.metric.worsening(value.value - bound) > 0.0:
                yield Failure(
                    "bound",
                    wording.beyond_bound(self.metric, class_name, value, bound),
                    self.metric.name,
                    class_name,
                    value.value,
                    value.error,
                    bound,
                )


def _worse(found: Comparison) -> Failure:
    return Failure(
        "worse",
        wording.comparison(found),
        found.metric.name,
        found.class_name,
        found.new.value,
        found.error,
        found.limit,
    )
