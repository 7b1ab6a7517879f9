"""A set of images as metrics see it."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class ImageSet:
    """What is left of N images: enough for every metric that needs single images.

    Attributes:
      features: float32 [N, D], of the extractor.
      projections: float32 [N, P], pixels along P fixed directions, see `sliced`.
      nearest: float32 [N], distance of the features to those of the nearest training image; NaN
        where that was not looked for.
    """

    features: np.ndarray
    projections: np.ndarray
    nearest: np.ndarray

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: np.ndarray) -> ImageSet:
        """Some of the images: an index or a mask."""
        return ImageSet(self.features[rows], self.projections[rows], self.nearest[rows])
