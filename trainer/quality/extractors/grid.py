"""Features on a grid, so that sums over them are exact."""

from __future__ import annotations

import numpy as np

#: Distance between two neighbouring values of a feature near 1, as a power of two.
STEP_EXPONENT = -14
STEP = 2.0**STEP_EXPONENT


def on_grid(features: np.ndarray, step: float = STEP) -> np.ndarray:
    """Features rounded to whole multiples of a step.

    Sums of them, and of their products, are then exact in float64 up to some millions of images
    of features near 1: moments do not depend on the order in which parts are added up, nor on
    how many workers computed the parts.

    Args:
      features: float32 [N, D].
      step: a power of two, some thousands of times smaller than the features' spread.

    Returns:
      float32 [N, D].
    """
    return (np.rint(np.asarray(features, np.float64) / step) * step).astype(np.float32)


def step_for(features: np.ndarray) -> float:
    """A step for features of any scale: as far below their largest as `STEP` is below 1.

    Args:
      features: [N, D], a sample; finite, and not all zero.

    Returns:
      A power of two.
    """
    scale = np.sqrt(np.max(np.mean(np.square(features, dtype=np.float64), axis=0)))
    return float(2.0 ** (np.rint(np.log2(scale)) + STEP_EXPONENT))
