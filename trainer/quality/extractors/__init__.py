"""Feature extractors: images to vectors that distances between sets of images are taken in.

Importing the package brings in nothing heavy; `create` imports what the extractor needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trainer.options import ExtractorOptions
from trainer.quality.extractors import files
from trainer.quality.extractors.errors import ExtractorError as ExtractorError

if TYPE_CHECKING:
    import numpy as np


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
      ExtractorError: there is no such extractor, it is not the pinned one, or it cannot be used.
    """
    if options.name == files.RANDOM:
        from trainer.quality.extractors.random import RandomExtractor

        files.check_pin(options, RandomExtractor.sha256)
        return RandomExtractor()
    if options.name == files.INCEPTION:
        from trainer.quality.extractors.inception import fetch, load

        path = fetch(options)
        sha256 = files.sha256(path)
        files.check_pin(options, sha256)
        return load(path, sha256)
    from trainer.quality.extractors.saved_model import SavedModelExtractor

    files.check_saved_model(options)
    sha256 = files.sha256(options.name)
    files.check_pin(options, sha256)
    return SavedModelExtractor(options.name, sha256)
