"""Numbers of a metric with what is needed to judge them: error, floor, error of the change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from components.gan_evaluator.features import REAL_KEY, TRAINING_KEY, Group
from components.gan_evaluator.sample import Sample
from trainer.quality import catalogue, jackknife
from trainer.quality.frechet import of_moments
from trainer.quality.image_set import ImageSet
from trainer.quality.measures import MEASURES
from trainer.quality.moments import Moments

#: Numbers of one model by key: `<name>`, `<name>_error`, `<name>_floor`, `<name>_change_error`.
Estimates = dict[str, float]

FRECHET = "frechet"
MEMORISATION = "memorisation"
#: Images that errors are taken from, at most, where a measure compares every image with every
#: other and its replicates sort all of that: the first of the sample.
_REPLICATED = {"neighbours": 1000, "diversity": 1000}
_NOTHING = ImageSet(np.zeros((0, 1), np.float32), np.zeros((0, 1), np.float32), np.zeros(0))


def sampled(
    measure: str, sample: Sample, models: Sequence[str], baseline: str | None
) -> dict[str, Estimates]:
    """A measure of the sampled images.

    Args:
      measure: name of one of `MEASURES`.
      sample: of one slice.
      models: names of the models.
      baseline: the one among them that others are compared with; None: none.

    Returns:
      By model. NaN: cannot be measured.
    """
    values = {
        model: MEASURES[measure](_images(sample, REAL_KEY), _images(sample, model))
        for model in models
    }
    return _with_errors(measure, values, sample, baseline, _floor(measure, sample), scale=1.0)


def frechet(
    moments: Mapping[str, Moments], sample: Sample, models: Sequence[str], baseline: str | None
) -> dict[str, Estimates]:
    """Frechet distances of all images, with the errors of the sample's.

    Args:
      moments: of all images of one slice, by set.
      sample: of the same slice.
      models: names of the models.
      baseline: the one among them that others are compared with; None: none.

    Returns:
      By model. NaN: cannot be measured.
    """
    values = {model: _frechet(moments, model) for model in models}
    all_images = moments[REAL_KEY].count if REAL_KEY in moments else 0
    scale = math.sqrt(_count(sample.examples) / all_images) if all_images else math.nan
    floor = _frechet(moments, TRAINING_KEY)
    return _with_errors(FRECHET, values, sample, baseline, floor, scale)


def counts(moments: Mapping[str, Moments], sample: Sample) -> Estimates:
    """How many images the numbers are from: all, the sampled ones, those of the floors."""
    return {
        "example_count": _moments(moments, REAL_KEY).count,
        "sampled_count": _count(sample.examples),
        "training_count": _moments(moments, TRAINING_KEY).count,
    }


def _with_errors(
    measure: str,
    values: Mapping[str, Mapping[str, float]],
    sample: Sample,
    baseline: str | None,
    floor: Mapping[str, float],
    scale: float,
) -> dict[str, Estimates]:
    available = _count(sample.examples)
    rows = np.arange(min(available, _REPLICATED.get(measure, available)))
    if available:
        # An error falls with the root of the number of images.
        scale *= math.sqrt(len(rows) / available)
    real = _images(sample, REAL_KEY).take(rows)
    replicates = {
        model: jackknife.replicates(MEASURES[measure], real, _images(sample, model).take(rows))
        for model in values
    }
    estimates = {}
    for model, found in values.items():
        estimates[model] = dict(found)
        for name in found:
            if name not in catalogue.BY_NAME:  # says something about a metric, is none
                continue
            mine = replicates[model][name]
            estimates[model][f"{name}_error"] = scale * jackknife.standard_error(mine)
            estimates[model][f"{name}_floor"] = floor[name]
            if baseline is not None and model != baseline:
                change = mine - replicates[baseline][name]
                estimates[model][f"{name}_change_error"] = scale * jackknife.standard_error(change)
    return estimates


def _floor(measure: str, sample: Sample) -> dict[str, float]:
    """The measure of real images against as many other real images."""
    real, others = _images(sample, REAL_KEY), _images(sample, TRAINING_KEY)
    if measure == MEMORISATION:
        # A training image is its own nearest: held-out images take its place, every other one.
        rows = np.arange(len(real))
        real, others = real.take(rows[::2]), real.take(rows[1::2])
    rows = np.arange(min(len(real), len(others)))
    return MEASURES[measure](real.take(rows), others.take(rows))


def _frechet(moments: Mapping[str, Moments], name: str) -> dict[str, float]:
    return of_moments(_moments(moments, REAL_KEY), _moments(moments, name))


def _moments(moments: Mapping[str, Moments], name: str) -> Moments:
    # Dimension 1 stands in where there is nothing; every distance to it is NaN.
    return moments.get(name, Moments.empty(1))


def _images(sample: Sample, name: str) -> ImageSet:
    group = sample.training if name == TRAINING_KEY else sample.examples
    return _NOTHING if group is None else group.sets[name]


def _count(group: Group | None) -> int:
    return 0 if group is None else len(group)
