"""Feature extractors: images to vectors that distances between sets of images are taken in."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from trainer.options import ExtractorOptions
from trainer.quality.extractors.random import RandomExtractor


class Extractor(Protocol):
    """A pinned function from images to feature vectors.

    The features of an image do not depend on the images that it is handed over with.

    Attributes:
      name: what the user calls it.
      sha256: hash of what it consists of, 64 hexadecimal digits.
      dimension: length D of a feature vector.
    """

    name: str
    sha256: str
    dimension: int

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Features float32 [N, D], on a grid, of images uint8 [N, H, W, C], C being 1 or 3."""


def create(options: ExtractorOptions) -> Extractor:
    """The extractor that is asked for, ready to use.

    Raises:
      ValueError: where there is no such extractor.
    """
    if options.name != RandomExtractor.name:
        raise ValueError(f"extractor: got {options.name!r}; allowed: {RandomExtractor.name}")
    return RandomExtractor()
