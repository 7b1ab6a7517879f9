"""Features on a grid, so that sums over them are exact."""

from __future__ import annotations

import numpy as np

#: Distance between two neighbouring values of a feature.
STEP = 2.0**-14


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
