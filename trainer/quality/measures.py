"""The measures: functions of two sets of images, which give metrics by their catalogue name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from trainer.quality import diversity, frechet, kernel, memorisation, neighbours, sliced
from trainer.quality.image_set import ImageSet

#: (real, generated) -> numbers by name. Pure and deterministic; NaN for what cannot be measured.
Measure = Callable[[ImageSet, ImageSet], dict[str, float]]
#: (rows of the real images, rows of the generated ones), bool [N] and [M] -> numbers by name.
OfRows = Callable[[np.ndarray, np.ndarray], dict[str, float]]


@dataclasses.dataclass(frozen=True)
class PairMeasure:
    """A measure that compares every image with every other: once, for as many subsets as wanted.

    Attributes:
      whole: the measure.
      prepare: compares all images; what it returns measures some of them. Gives the metrics, and
        none of what only describes the whole.
    """

    whole: Measure
    prepare: Callable[[ImageSet, ImageSet], OfRows]

    def __call__(self, real: ImageSet, generated: ImageSet) -> dict[str, float]:
        """Measures all images."""
        return self.whole(real, generated)


def _frechet(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    return frechet.of_vectors(real.features, generated.features)


def _kernel(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    distance, deviation = kernel.kernel_distance(real.features, generated.features)
    return {"kernel_distance": distance, "kernel_distance_deviation": deviation}


def _kernel_pairs(real: ImageSet, generated: ImageSet) -> OfRows:
    pairs = kernel.Pairs(real.features, generated.features)
    return lambda *rows: {"kernel_distance": pairs.distance(*rows)}


def _neighbours(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    return neighbours.precision_recall_density_coverage(real.features, generated.features)


def _neighbours_pairs(real: ImageSet, generated: ImageSet) -> OfRows:
    return neighbours.Pairs(real.features, generated.features).of_rows


def _sliced_wasserstein(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    distance = sliced.sliced_wasserstein_distance(real.projections, generated.projections)
    return {"sliced_wasserstein_distance": distance}


def _memorisation(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    return {"memorisation": memorisation.memorisation(real.nearest, generated.nearest)}


def _diversity(real: ImageSet, generated: ImageSet) -> dict[str, float]:
    return {"diversity": diversity.diversity(real.features, generated.features)}


def _diversity_pairs(real: ImageSet, generated: ImageSet) -> OfRows:
    pairs = diversity.Pairs(real.features, generated.features)
    return lambda *rows: {"diversity": pairs.diversity(*rows)}


def _of_finite(measure: Measure, field: str) -> Measure:
    """The measure, with NaN for everything where the field that it reads has what is not finite."""

    def guarded(real: ImageSet, generated: ImageSet) -> dict[str, float]:
        if _finite(field, real, generated):
            return measure(real, generated)
        nothing = np.arange(0)
        return measure(real.take(nothing), generated.take(nothing))

    return guarded


def _pairs_of_finite(
    measure: Measure, prepare: Callable[[ImageSet, ImageSet], OfRows]
) -> PairMeasure:
    """The measure of features, with NaN for everything where they have what is not finite."""
    whole = _of_finite(measure, "features")

    def guarded(real: ImageSet, generated: ImageSet) -> OfRows:
        if _finite("features", real, generated):
            return prepare(real, generated)
        # One image among the pairs would spoil the sums of subsets that it is not in.
        return lambda *rows: whole(real.take(rows[0]), generated.take(rows[1]))

    return PairMeasure(whole, guarded)


def _finite(field: str, *sets: ImageSet) -> bool:
    return all(np.isfinite(getattr(images, field)).all() for images in sets)


#: By group: what is computed together.
MEASURES: Mapping[str, Measure] = {
    "frechet": _of_finite(_frechet, "features"),
    "kernel": _pairs_of_finite(_kernel, _kernel_pairs),
    "neighbours": _pairs_of_finite(_neighbours, _neighbours_pairs),
    "sliced_wasserstein": _of_finite(_sliced_wasserstein, "projections"),
    "memorisation": _of_finite(_memorisation, "nearest"),
    "diversity": _pairs_of_finite(_diversity, _diversity_pairs),
}
