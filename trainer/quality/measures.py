"""The measures: functions of two sets of images, which give metrics by their catalogue name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from trainer.quality import diversity, frechet, kernel, memorisation, neighbours, sliced
from trainer.quality.image_set import ImageSet

#: (real, generated) -> numbers by name. Pure and deterministic; NaN for what cannot be measured.
Measure = Callable[[ImageSet, ImageSet], dict[str, float]]


def _frechet(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    return frechet.of_vectors(real.features, generated.features)


def _kernel(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    distance, deviation = kernel.kernel_distance(real.features, generated.features)
    return {"kernel_distance": distance, "kernel_distance_deviation": deviation}


def _neighbours(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    return neighbours.precision_recall_density_coverage(real.features, generated.features)


def _sliced_wasserstein(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    distance = sliced.sliced_wasserstein_distance(real.projections, generated.projections)
    return {"sliced_wasserstein_distance": distance}


def _memorisation(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    return {"memorisation": memorisation.memorisation(real.nearest, generated.nearest)}


def _diversity(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    return {"diversity": diversity.diversity(real.features, generated.features)}


def _of_finite(measure: Measure, field: str) -> Measure:
    """The measure, with NaN for everything where the field that it reads has what is not finite."""

    def guarded(real: ImageSet, generated: ImageSet) -> dict[str, float]:
        if all(np.isfinite(getattr(images, field)).all() for images in (real, generated)):
            return measure(real, generated)
        nothing = np.arange(0)
        return measure(real.take(nothing), generated.take(nothing))

    return guarded


#: By group: what is computed together.
MEASURES: Mapping[str, Measure] = {
    "frechet": _of_finite(_frechet, "features"),
    "kernel": _of_finite(_kernel, "features"),
    "neighbours": _of_finite(_neighbours, "features"),
    "sliced_wasserstein": _of_finite(_sliced_wasserstein, "projections"),
    "memorisation": _of_finite(_memorisation, "nearest"),
    "diversity": _of_finite(_diversity, "features"),
}
