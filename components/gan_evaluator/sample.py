"""The two things that every metric is derived from: exact moments, and a bounded sample.

Both are the same however Beam splits the images up and in whatever order it adds parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import apache_beam as beam
import numpy as np
from tensorflow_model_analysis.metrics import metric_types

from components.gan_evaluator.features import REAL_KEY, TRAINING_KEY, Group
from trainer.quality.moments import Moments


class MomentsSum:
    """Moments of vectors that arrive in parts.

    Vectors wait until there are more of them than they have dimensions: memory is
    min(N, D) * D.
    """

    def __init__(self) -> None:
        self._moments: Moments | None = None
        self._waiting: list[np.ndarray] = []

    def add(self, features: np.ndarray) -> None:
        """Adds vectors float32 [n, D]."""
        self._waiting.append(features)
        if sum(map(len, self._waiting)) > features.shape[-1]:
            self._moments, self._waiting = self.moments(), []

    def merge(self, other: MomentsSum) -> None:
        """Adds what another one has."""
        for features in other._waiting:
            self.add(features)
        if other._moments is not None:
            self._moments = _sum(self._moments, other._moments)

    def moments(self) -> Moments:
        """Moments of everything so far; of dimension 1 when there is nothing."""
        if not self._waiting:
            return Moments.empty(1) if self._moments is None else self._moments
        return _sum(self._moments, Moments.of(np.concatenate(self._waiting)))


def _sum(first: Moments | None, second: Moments) -> Moments:
    return second if first is None else first + second


class LowestHashes:
    """The rows with the lowest hashes among all that arrive, `limit` at most."""

    def __init__(self, limit: int):
        self._limit = limit
        self._groups: list[Group] = []

    def add(self, group: Group) -> None:
        """Adds rows."""
        self._groups.append(group)
        if sum(map(len, self._groups)) > 2 * self._limit:
            self.compact()

    def merge(self, other: LowestHashes) -> None:
        """Adds what another one has."""
        for group in other._groups:
            self.add(group)

    def compact(self) -> None:
        """Lets go of what cannot be among the lowest any more."""
        if self._groups:
            everything = Group.concatenate(self._groups)
            order = np.argsort(everything.hashes, kind="stable")[: self._limit]
            self._groups = [everything.take(order)]

    def group(self) -> Group | None:
        """The rows, in the order of their hashes; None when there are none."""
        self.compact()
        return self._groups[0] if self._groups else None


@dataclasses.dataclass(frozen=True)
class Sample:
    """Some of the images of a slice, the same examples for every model.

    Attributes:
      examples: real images and what each model made for them; None: no examples.
      training: training images; None: none.
    """

    examples: Group | None
    training: Group | None


class MomentsFn(beam.CombineFn):
    """Groups to moments by the name of the set."""

    def __init__(self, key: metric_types.MetricKey):
        self._key = key

    def create_accumulator(self) -> dict[str, MomentsSum]:
        """No sets."""
        return {}

    def add_input(
        self, accumulator: dict[str, MomentsSum], groups: Sequence[Group]
    ) -> dict[str, MomentsSum]:
        """Adds the groups of one extract."""
        for group in groups:
            for name, images in group.sets.items():
                accumulator.setdefault(name, MomentsSum()).add(images.features)
        return accumulator

    def merge_accumulators(
        self, accumulators: Iterable[dict[str, MomentsSum]]
    ) -> dict[str, MomentsSum]:
        """Adds up."""
        merged = self.create_accumulator()
        for accumulator in accumulators:
            for name, part in accumulator.items():
                merged.setdefault(name, MomentsSum()).merge(part)
        return merged

    def extract_output(
        self, accumulator: dict[str, MomentsSum]
    ) -> dict[metric_types.MetricKey, Mapping[str, Moments]]:
        """Moments by set."""
        return {self._key: {name: part.moments() for name, part in accumulator.items()}}


class SampleFn(beam.CombineFn):
    """Groups to a `Sample`."""

    def __init__(self, key: metric_types.MetricKey, limit: int):
        self._key = key
        self._limit = limit

    def create_accumulator(self) -> dict[str, LowestHashes]:
        """Nothing of either kind."""
        return {name: LowestHashes(self._limit) for name in (REAL_KEY, TRAINING_KEY)}

    def add_input(
        self, accumulator: dict[str, LowestHashes], groups: Sequence[Group]
    ) -> dict[str, LowestHashes]:
        """Adds the groups of one extract."""
        for group in groups:
            accumulator[REAL_KEY if REAL_KEY in group.sets else TRAINING_KEY].add(group)
        return accumulator

    def merge_accumulators(
        self, accumulators: Iterable[dict[str, LowestHashes]]
    ) -> dict[str, LowestHashes]:
        """The lowest of all."""
        merged = self.create_accumulator()
        for accumulator in accumulators:
            for name, part in accumulator.items():
                merged[name].merge(part)
        return merged

    def compact(self, accumulator: dict[str, LowestHashes]) -> dict[str, LowestHashes]:
        """Before it is sent elsewhere."""
        for part in accumulator.values():
            part.compact()
        return accumulator

    def extract_output(
        self, accumulator: dict[str, LowestHashes]
    ) -> dict[metric_types.MetricKey, Sample]:
        """The sample."""
        sample = Sample(accumulator[REAL_KEY].group(), accumulator[TRAINING_KEY].group())
        return {self._key: sample}
