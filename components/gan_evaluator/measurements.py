"""What was measured of a model, as plain data. NaN: could not be measured."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from trainer.quality import catalogue


@dataclasses.dataclass(frozen=True)
class Value:
    """One metric of one model on one set of images.

    Attributes:
      value: of the metric.
      error: its standard error.
      floor: what real training images get in place of generated ones.
      change_error: standard error of this value less the served model's on the same examples.
    """

    value: float = math.nan
    error: float = math.nan
    floor: float = math.nan
    change_error: float = math.nan

    @property
    def measured(self) -> bool:
        """Whether there is a number."""
        return math.isfinite(self.value)


@dataclasses.dataclass(frozen=True)
class SliceMetrics:
    """What was measured on one set of examples.

    Attributes:
      values: by the metric's name.
      examples: real images, and as many generated ones.
      sampled: images of either kind that metrics of single images have seen.
      training: training images that the floor was measured with.
    """

    values: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    examples: int = 0
    sampled: int = 0
    training: int = 0

    def __getitem__(self, name: str) -> Value:
        """A metric's value; NaN in all its parts where nothing was measured."""
        return self.values.get(name, Value())

    def as_json(self) -> dict[str, Any]:
        """Plain data, flat; what could not be measured is null."""
        return {
            **self._part("value"),
            "examples": self.examples,
            "sampled": self.sampled,
            "training": self.training,
            "errors": self._part("error"),
            "floors": self._part("floor"),
            "change_errors": self._part("change_error"),
        }

    def _part(self, part: str) -> dict[str, float | None]:
        return {
            metric.name: finite(getattr(self[metric.name], part)) for metric in catalogue.METRICS
        }


@dataclasses.dataclass(frozen=True)
class ExtractorIdentity:
    """The function whose features were compared; numbers of two functions cannot be.

    Attributes:
      name: of the extractor.
      sha256: of all that decides what it computes.
      dimension: length of a feature vector.
    """

    name: str
    sha256: str
    dimension: int


@dataclasses.dataclass(frozen=True)
class ModelMetrics:
    """What was measured of one model.

    Attributes:
      overall: on all examples.
      per_class: by class name; empty where classes mean nothing to the model.
      extractor: of the features.
      split: of the examples.
    """

    overall: SliceMetrics
    per_class: Mapping[str, SliceMetrics]
    extractor: ExtractorIdentity
    split: str

    def as_json(self) -> dict[str, Any]:
        """Plain data, flat."""
        return {
            **self.overall.as_json(),
            "extractor": self.extractor.name,
            "extractor_sha256": self.extractor.sha256,
            "split": self.split,
            "per_class": {name: found.as_json() for name, found in self.per_class.items()},
        }


def finite(number: float) -> float | None:
    """The number, or None where it is none: JSON has no NaN."""
    return number if math.isfinite(number) else None
