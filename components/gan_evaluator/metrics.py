"""TFMA metrics over features of real and generated images.

Registered under their class names, so that any EvalConfig may ask for them: as `class_name` with
this module as `module`. They share one pass: moments and sample are private computations that
TFMA makes once, however many metrics are derived from them, and so is what one measure gives for
several metrics.

For each model and slice there are, with the names of `trainer.quality.catalogue`, `<name>`,
`<name>_error` (its standard error), `<name>_floor` (the same between real images), and for every
model but the baseline `<name>_change_error` (standard error of the difference to the baseline,
whose images are made for the same examples). NaN: cannot be measured.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics import metric_types

from components.gan_evaluator import estimates, features
from components.gan_evaluator.estimates import Estimates
from components.gan_evaluator.features import Group
from components.gan_evaluator.sample import MomentsFn, Sample, SampleFn
from trainer.quality.moments import Moments

#: Images that metrics of single images are taken from, in each slice.
SAMPLED_IMAGES = 2_000

_Estimate = Callable[
    [Mapping[str, Moments], Sample, Sequence[str], str | None], Mapping[str, Estimates]
]


class _ImageMetric(metric_types.Metric):
    """Some of the numbers that one estimate gives."""

    def __init__(self, estimate: str, names: Sequence[str], name: str, sampled_images: int):
        def computations(
            name: str,
            sampled_images: int,
            model_names: Sequence[str] | None = None,
            eval_config: tfma.EvalConfig | None = None,
        ) -> metric_types.MetricComputations:
            models = tuple(model_names or [""])
            return _computations(
                estimate, names, models, _baseline(eval_config, models), sampled_images
            )

        super().__init__(computations, name=name, sampled_images=sampled_images)


class FrechetDistance(_ImageMetric):
    """Frechet distance between the features of all real and all generated images.

    Its error is from the sample, scaled to the number of all images.
    """

    def __init__(self, name: str = "frechet_distance", sampled_images: int = SAMPLED_IMAGES):
        super().__init__(estimates.FRECHET, ["frechet_distance"], name, sampled_images)


class RelativeFrechetDistance(_ImageMetric):
    """The same over the trace of the real images' covariance."""

    def __init__(
        self, name: str = "relative_frechet_distance", sampled_images: int = SAMPLED_IMAGES
    ):
        super().__init__(estimates.FRECHET, ["relative_frechet_distance"], name, sampled_images)


class KernelDistance(_ImageMetric):
    """Kernel distance, and its standard deviation over subsets."""

    def __init__(self, name: str = "kernel_distance", sampled_images: int = SAMPLED_IMAGES):
        names = ["kernel_distance", "kernel_distance_deviation"]
        super().__init__("kernel", names, name, sampled_images)


class PrecisionRecall(_ImageMetric):
    """Precision and recall."""

    def __init__(self, name: str = "precision", sampled_images: int = SAMPLED_IMAGES):
        super().__init__("neighbours", ["precision", "recall"], name, sampled_images)


class DensityCoverage(_ImageMetric):
    """Density and coverage."""

    def __init__(self, name: str = "density", sampled_images: int = SAMPLED_IMAGES):
        super().__init__("neighbours", ["density", "coverage"], name, sampled_images)


class SlicedWassersteinDistance(_ImageMetric):
    """Sliced Wasserstein distance between the pixels."""

    def __init__(
        self, name: str = "sliced_wasserstein_distance", sampled_images: int = SAMPLED_IMAGES
    ):
        names = ["sliced_wasserstein_distance"]
        super().__init__("sliced_wasserstein", names, name, sampled_images)


class Memorisation(_ImageMetric):
    """Share of samples that are suspiciously near to a training image."""

    def __init__(self, name: str = "memorisation", sampled_images: int = SAMPLED_IMAGES):
        super().__init__(estimates.MEMORISATION, ["memorisation"], name, sampled_images)


class Diversity(_ImageMetric):
    """Effective number of distinct samples over that of the real images."""

    def __init__(self, name: str = "diversity", sampled_images: int = SAMPLED_IMAGES):
        super().__init__("diversity", ["diversity"], name, sampled_images)


class ImageCount(_ImageMetric):
    """Numbers of real images: all, sampled, and of the training images that floors are from."""

    def __init__(self, name: str = "example_count", sampled_images: int = SAMPLED_IMAGES):
        names = ["example_count", "sampled_count", "training_count"]
        super().__init__(_COUNTS, names, name, sampled_images)


for _metric in (
    FrechetDistance,
    RelativeFrechetDistance,
    KernelDistance,
    PrecisionRecall,
    DensityCoverage,
    SlicedWassersteinDistance,
    Memorisation,
    Diversity,
    ImageCount,
):
    metric_types.register_metric(_metric)

_COUNTS = "counts"
_SUFFIXES = ("", "_error", "_floor", "_change_error")


class _Groups(metric_types.Preprocessor):
    """Extracts to groups of images."""

    def __init__(self, model_names: Sequence[str]):
        super().__init__(name=f"groups of {','.join(model_names)}")
        self._model_names = tuple(model_names)

    def process(self, extracts: tfma.types.Extracts) -> Iterator[Sequence[Group]]:
        """The groups in one extract."""
        yield features.from_extracts(extracts, self._model_names)


def _computations(
    estimate: str,
    names: Sequence[str],
    models: tuple[str, ...],
    baseline: str | None,
    sampled_images: int,
) -> metric_types.MetricComputations:
    """What the numbers need, in the order of need; TFMA drops what others asked for already."""
    which = f"{','.join(models)}_{sampled_images}"
    moments = metric_types.MetricKey(name=f"_moments_{which}")
    sample = metric_types.MetricKey(name=f"_sample_{which}")
    everything = metric_types.MetricKey(name=f"_{estimate}_{which}")
    keys = [
        metric_types.MetricKey(name=name + suffix, model_name=model)
        for model in models
        for name in names
        for suffix in _SUFFIXES
    ]

    def estimated(metrics: metric_types.MetricsDict) -> metric_types.MetricsDict:
        found = _estimate(estimate)(metrics[moments], metrics[sample], models, baseline)
        return {everything: found}

    def picked(metrics: metric_types.MetricsDict) -> metric_types.MetricsDict:
        found = metrics[everything]
        return {
            key: float(found[key.model_name][key.name])
            for key in keys
            if key.name in found[key.model_name]
        }

    preprocessors = [_Groups(models)]
    return [
        metric_types.MetricComputation([moments], preprocessors, MomentsFn(moments)),
        metric_types.MetricComputation([sample], preprocessors, SampleFn(sample, sampled_images)),
        metric_types.DerivedMetricComputation([everything], estimated),
        metric_types.DerivedMetricComputation(keys, picked),
    ]


def _estimate(name: str) -> _Estimate:
    if name == estimates.FRECHET:
        return estimates.frechet
    if name == _COUNTS:
        return lambda moments, sample, models, _: dict.fromkeys(
            models, estimates.counts(moments, sample)
        )
    return lambda _, sample, models, baseline: estimates.sampled(name, sample, models, baseline)


def sampled_images(eval_config: tfma.EvalConfig) -> int:
    """Size of the largest sample that any metric of a configuration takes."""
    configs = [metric.config for spec in eval_config.metrics_specs for metric in spec.metrics]
    given = [json.loads(config or "{}").get("sampled_images", SAMPLED_IMAGES) for config in configs]
    return max(given, default=SAMPLED_IMAGES)


def _baseline(eval_config: tfma.EvalConfig | None, models: Sequence[str]) -> str | None:
    specs = eval_config.model_specs if eval_config is not None else []
    return next((spec.name for spec in specs if spec.is_baseline and spec.name in models), None)
