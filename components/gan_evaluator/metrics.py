"""TFMA metrics over features of real and generated images.

Registered under their class names, so that any EvalConfig may ask for them: as `class_name` with
this module as `module`. They share one pass: the moments are private computations that TFMA
makes once, however many metrics are derived from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics import metric_types

from components.gan_evaluator.features import REAL_KEY
from trainer.quality.frechet import frechet_distance, relative_frechet_distance
from trainer.quality.moments import Moments

FRECHET_DISTANCE = "frechet_distance"
RELATIVE_FRECHET_DISTANCE = "relative_frechet_distance"

_Distance = Callable[[Moments, Moments], float]


class FrechetDistance(metric_types.Metric):
    """Frechet distance between the features of real and generated images."""

    def __init__(self, name: str = FRECHET_DISTANCE):
        super().__init__(_frechet_distances, name=name)


class RelativeFrechetDistance(metric_types.Metric):
    """The same over the trace of the real images' covariance."""

    def __init__(self, name: str = RELATIVE_FRECHET_DISTANCE):
        super().__init__(_relative_frechet_distances, name=name)


metric_types.register_metric(FrechetDistance)
metric_types.register_metric(RelativeFrechetDistance)


def _frechet_distances(
    name: str = FRECHET_DISTANCE, model_names: Sequence[str] | None = None
) -> metric_types.MetricComputations:
    return _distances(name, model_names, frechet_distance)


def _relative_frechet_distances(
    name: str = RELATIVE_FRECHET_DISTANCE, model_names: Sequence[str] | None = None
) -> metric_types.MetricComputations:
    return _distances(name, model_names, relative_frechet_distance)


def _distances(
    name: str, model_names: Sequence[str] | None, distance: _Distance
) -> metric_types.MetricComputations:
    """A distance for each model, and the moments that it is derived from."""
    real = _real_moments()
    computations: metric_types.MetricComputations = [real]
    for model_name in model_names or [""]:
        generated = _generated_moments(model_name)
        key = metric_types.MetricKey(name=name, model_name=model_name)
        computations.append(generated)
        computations.append(_derived(key, real.keys[0], generated.keys[0], distance))
    return computations


def _derived(
    key: metric_types.MetricKey,
    real: metric_types.MetricKey,
    generated: metric_types.MetricKey,
    distance: _Distance,
) -> metric_types.DerivedMetricComputation:
    def result(metrics: metric_types.MetricsDict) -> metric_types.MetricsDict:
        return {key: distance(metrics[real], metrics[generated])}

    return metric_types.DerivedMetricComputation(keys=[key], result=result)


def _real_moments() -> metric_types.MetricComputation:
    key = metric_types.MetricKey(name="_real_moments")
    return _moments(key, (tfma.FEATURES_KEY, REAL_KEY))


def _generated_moments(model_name: str) -> metric_types.MetricComputation:
    key = metric_types.MetricKey(name="_generated_moments", model_name=model_name)
    # TFMA names models only where there are several.
    path = (tfma.PREDICTIONS_KEY, model_name) if model_name else (tfma.PREDICTIONS_KEY,)
    return _moments(key, path)


def _moments(key: metric_types.MetricKey, path: tuple[str, ...]) -> metric_types.MetricComputation:
    wanted: dict = {}
    for part in reversed(path):
        wanted = {part: wanted}
    return metric_types.MetricComputation(
        keys=[key],
        preprocessors=[
            metric_types.StandardMetricInputsPreprocessor(
                include_filter=wanted, include_default_inputs=False
            )
        ],
        combiner=_MomentsFn(key, path),
    )


class _Accumulator:
    """Moments so far, and vectors that wait to be added as one block."""

    def __init__(self) -> None:
        self.moments: Moments | None = None
        self.rows: list[np.ndarray] = []

    def settled(self) -> Moments | None:
        """Moments of everything; None when there was nothing."""
        if self.rows:
            block = Moments.of(np.stack(self.rows))
            self.moments = self.moments + block if self.moments else block
            self.rows = []
        return self.moments


class _MomentsFn(beam.CombineFn):
    """Adds up moments of the vectors found at one place of TFMA's extracts."""

    #: Vectors in a block: one matrix product for all instead of one outer product each.
    _BLOCK = 256

    def __init__(self, key: metric_types.MetricKey, path: tuple[str, ...]):
        self._key = key
        self._path = path

    def create_accumulator(self) -> _Accumulator:
        return _Accumulator()

    def add_input(
        self, accumulator: _Accumulator, element: metric_types.StandardMetricInputs
    ) -> _Accumulator:
        vector = element
        for part in self._path:
            vector = vector[part]
        accumulator.rows.append(np.asarray(vector).reshape(-1))
        if len(accumulator.rows) >= self._BLOCK:
            accumulator.settled()
        return accumulator

    def compact(self, accumulator: _Accumulator) -> _Accumulator:
        accumulator.settled()
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[_Accumulator]) -> _Accumulator:
        merged = _Accumulator()
        for accumulator in accumulators:
            part = accumulator.settled()
            if part is not None:
                merged.moments = merged.moments + part if merged.moments else part
        return merged

    def extract_output(self, accumulator: _Accumulator) -> metric_types.MetricsDict:
        moments = accumulator.settled()
        # Dimension 1 stands in where there is nothing; every distance to it is NaN.
        return {self._key: moments if moments is not None else Moments.empty(1)}
