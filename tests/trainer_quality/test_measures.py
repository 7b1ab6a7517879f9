"""The registry of measures: the catalogue's names, and no number for what cannot be measured."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest

from trainer.quality import catalogue
from trainer.quality.image_set import ImageSet
from trainer.quality.measures import MEASURES


def images(count: int, seed: int = 0) -> ImageSet:
    random = np.random.default_rng(seed)
    return ImageSet(
        random.normal(size=(count, 8)).astype(np.float32),
        random.normal(size=(count, 4)).astype(np.float32),
        random.uniform(size=count).astype(np.float32),
    )


def measured(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = [measure(real, generated) for measure in MEASURES.values()]
    names = [name for part in parts for name in part]
    assert len(names) == len(set(names))
    return {name: value for part in parts for name, value in part.items()}


def test_measures_give_every_metric_of_the_catalogue():
    found = measured(images(50), images(50, 1))
    assert set(found) == set(catalogue.BY_NAME) | {"kernel_distance_deviation"}
    assert all(type(value) is float and math.isfinite(value) for value in found.values())


def test_measures_give_the_same_again():
    assert measured(images(50), images(50, 1)) == measured(images(50), images(50, 1))


@pytest.mark.parametrize(("real", "generated"), [(0, 0), (0, 50), (50, 0), (1, 1)])
def test_measures_of_too_few_images_are_nan(real, generated):
    found = measured(images(real), images(generated, 1))
    alone = {"sliced_wasserstein_distance", "memorisation"} if min(real, generated) else set()
    assert {name for name, value in found.items() if not math.isnan(value)} == alone


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("field", "hit"),
    [
        ("projections", {"sliced_wasserstein_distance"}),
        ("nearest", {"memorisation"}),
        (
            "features",
            {*catalogue.BY_NAME, "kernel_distance_deviation"}
            - {"sliced_wasserstein_distance", "memorisation"},
        ),
    ],
)
def test_measures_of_what_is_not_finite_are_nan(side, value, field, hit):
    pair = [images(50), images(50, 1)]
    broken = getattr(pair[side], field).copy()
    broken[3] = value
    pair[side] = dataclasses.replace(pair[side], **{field: broken})
    found = measured(*pair)
    assert {name for name, number in found.items() if math.isnan(number)} == hit
