"""Standard errors of measures by the delete-a-group jackknife.

Kott 2001, "The delete-a-group jackknife", Journal of Official Statistics 17. It errs on the safe
side (Efron and Stein 1981, "The jackknife estimate of variance"): by little for what is nearly a
mean, by up to a factor of 2 for shares of images within balls, such as precision and coverage.
"""

from __future__ import annotations

import numpy as np

from trainer.quality.image_set import ImageSet
from trainer.quality.measures import Measure, OfRows, PairMeasure

#: How many groups the images are split in.
GROUPS = 20


def replicates(
    measure: Measure, real: ImageSet, generated: ImageSet, groups: int = GROUPS
) -> dict[str, np.ndarray]:
    """A measure, again and again without one group of images.

    Image i belongs to group i modulo `groups`, on both sides, so that what is made from one
    example is left out with it. Replicates of two models against the same real images are
    paired: the error of their difference is that of the replicates' differences.

    A measure of pairs compares the images once, not for every group anew.

    Args:
      measure: what to measure.
      real: real images, in an order that says nothing.
      generated: generated images, row by row from the real ones where they are paired.
      groups: number of groups.

    Returns:
      float64 [groups] by name; NaN when there are fewer images than groups.
    """
    if min(len(real), len(generated)) < groups:
        names = measure(real, generated)
        return {name: np.full(groups, np.nan) for name in names}
    of_rows = _of_rows(measure, real, generated)
    found = [
        of_rows(_without(group, groups, len(real)), _without(group, groups, len(generated)))
        for group in range(groups)
    ]
    return {name: np.array([values[name] for values in found]) for name in found[0]}


def standard_error(replicates: np.ndarray) -> float:
    """Standard error of what was replicated, or of a difference of replicates.

    Args:
      replicates: float64 [G].

    Returns:
      sqrt((G - 1) / G sum((r - mean r)^2)); NaN where any replicate is.
    """
    groups = len(replicates)
    return float(np.sqrt((groups - 1) * np.var(replicates)))


def _of_rows(measure: Measure, real: ImageSet, generated: ImageSet) -> OfRows:
    """The measure of some of the images, prepared where it can be."""
    if isinstance(measure, PairMeasure):
        return measure.prepare(real, generated)
    return lambda *rows: measure(real.take(rows[0]), generated.take(rows[1]))


def _without(group: int, groups: int, count: int) -> np.ndarray:
    """The rows that are not in the group: bool [count]."""
    return np.arange(count) % groups != group
