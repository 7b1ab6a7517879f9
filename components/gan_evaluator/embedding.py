"""Images to what metrics see of them, and to TFMA's extracts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import tensorflow_model_analysis as tfma

from components.gan_evaluator import features
from components.gan_evaluator.features import Group
from components.gan_evaluator.options import GateOptions
from trainer import records
from trainer.quality import extractors, sliced
from trainer.quality.image_set import ImageSet
from trainer.quality.memorisation import nearest_distances


@dataclasses.dataclass(frozen=True)
class Reference:
    """Training images that others are compared with.

    Attributes:
      hashes: uint64 [M], that they were chosen by, in ascending order.
      features: float32 [M, D].
    """

    hashes: np.ndarray
    features: np.ndarray

    def __len__(self) -> int:
        return len(self.hashes)


def embed(
    extract: extractors.Extractor,
    images: np.ndarray,
    sampled: np.ndarray,
    reference: Reference | None,
) -> tuple[ImageSet, np.ndarray]:
    """What metrics see of images.

    Args:
      extract: of features.
      images: uint8 [N, H, W, C].
      sampled: bool [N], whether an image can be in a sample; of the others there is nothing but
        features, all else is NaN.
      reference: training images; where there are none, distances to the nearest are NaN.

    Returns:
      The set, and the place int64 [N] of the nearest training image in `reference`.
    """
    features = extract(images)
    projections = np.full((len(images), sliced.DIRECTIONS), np.nan, np.float32)
    projections[sampled] = sliced.project(images[sampled])
    nearest, places = np.full(len(images), np.nan, np.float32), np.zeros(len(images), np.int64)
    if reference:
        nearest[sampled], places[sampled] = nearest_distances(features[sampled], reference.features)
    return ImageSet(features, projections, nearest), places


def extracts(group: Group, labels: np.ndarray, by_label: bool) -> Iterator[tfma.types.Extracts]:
    """Extracts of a group.

    Args:
      group: of held-out or of training images.
      labels: int64 [n].
      by_label: whether classes are sliced by.

    Yields:
      One extract for all images, or one for each class; those without label are in no class.
    """
    if not by_label:
        yield features.to_extracts(group, None)
        return
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        known = None if label == records.NO_LABEL else int(label)
        yield features.to_extracts(group.take(rows), known)


def pixels(part: records.Part, options: GateOptions) -> np.ndarray:
    """Images uint8 [n, H, W, C]."""
    return part.pixels.reshape(-1, options.image_size, options.image_size, options.channels)
