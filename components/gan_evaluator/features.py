"""What TFMA's extracts hold here: not one image each, but a group of them, as arrays.

A group keeps TFMA's work per element small. An extract of held-out images holds

    features:    real [n, D], real_projections [n, P], real_nearest [n], hash [n], label [1]
    predictions: by model, or alone where there is one: features, projections, nearest

and one of training images, which give the floor of every metric,

    features:    training, training_projections, training_nearest, training_hash, label.

Only the features are needed; an extract of a single image, with vectors for matrices, is a group
of one.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow_model_analysis as tfma

from trainer.quality.image_set import ImageSet

#: Names of sets of images; models have TFMA's names for them.
REAL_KEY = "real"
TRAINING_KEY = "training"
LABEL_KEY = "label"
_HASHES = {REAL_KEY: "hash", TRAINING_KEY: "training_hash"}


@dataclasses.dataclass(frozen=True)
class Group:
    """Sets of n images that belong together row by row.

    Attributes:
      hashes: uint64 [n], an order of the examples.
      sets: by name: `real` and what each model made for the same examples, or `training`.
    """

    hashes: np.ndarray
    sets: Mapping[str, ImageSet]

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, rows: np.ndarray) -> Group:
        """Some rows: an index or a mask."""
        return Group(
            self.hashes[rows], {name: images.take(rows) for name, images in self.sets.items()}
        )

    @classmethod
    def concatenate(cls, groups: Sequence[Group]) -> Group:
        """Groups of the same sets, at least one, as one."""
        if len(groups) == 1:
            return groups[0]
        sets = {
            name: ImageSet(
                np.concatenate([group.sets[name].features for group in groups]),
                np.concatenate([group.sets[name].projections for group in groups]),
                np.concatenate([group.sets[name].nearest for group in groups]),
            )
            for name in groups[0].sets
        }
        return cls(np.concatenate([group.hashes for group in groups]), sets)


def to_extracts(group: Group, label: int | None) -> tfma.types.Extracts:
    """The extract of a group.

    Args:
      group: of held-out or of training images.
      label: class id of all of them; None: not to be sliced by.
    """
    name = TRAINING_KEY if TRAINING_KEY in group.sets else REAL_KEY
    images = group.sets[name]
    features = {
        name: images.features,
        f"{name}_projections": images.projections,
        f"{name}_nearest": images.nearest,
        _HASHES[name]: group.hashes,
    }
    if label is not None:
        features[LABEL_KEY] = np.array([label], np.int64)
    predictions = {
        model: {
            "features": made.features,
            "projections": made.projections,
            "nearest": made.nearest,
        }
        for model, made in group.sets.items()
        if model != name
    }
    return {
        tfma.FEATURES_KEY: features,
        tfma.PREDICTIONS_KEY: predictions.get("", predictions),
    }


def from_extracts(extracts: tfma.types.Extracts, model_names: Sequence[str]) -> list[Group]:
    """The groups in an extract: of held-out images, of training images, both or none.

    Args:
      extracts: see the module; what is missing but the features is NaN, and hashes are made of
        the features.
      model_names: the models to look for; '' for one alone.

    Raises:
      ValueError: the parts of a group are not of equally many images.
    """
    features = extracts.get(tfma.FEATURES_KEY) or {}
    predictions = extracts.get(tfma.PREDICTIONS_KEY)
    groups = []
    for name in (REAL_KEY, TRAINING_KEY):
        if name not in features:
            continue
        images = _images(
            features[name], features.get(f"{name}_projections"), features.get(f"{name}_nearest")
        )
        sets = {name: images}
        if name == REAL_KEY:
            for model in model_names:
                sets[model] = _predicted(predictions[model] if model else predictions)
        group = Group(_hashes(features.get(_HASHES[name]), images.features), sets)
        _check_rows(group)
        groups.append(group)
    return groups


def _check_rows(group: Group) -> None:
    counts = {"hash": len(group)}
    for name, images in group.sets.items():
        for field in dataclasses.fields(images):
            counts[f"{name} {field.name}".strip()] = len(getattr(images, field.name))
    if len(set(counts.values())) > 1:
        raise ValueError(
            f"extract: got numbers of images {counts}; allowed: the same, since row i of each is "
            "of example i"
        )


def _predicted(prediction: Any) -> ImageSet:
    if isinstance(prediction, Mapping):
        return _images(
            prediction["features"], prediction.get("projections"), prediction.get("nearest")
        )
    return _images(prediction, None, None)


def _images(features: Any, projections: Any, nearest: Any) -> ImageSet:
    vectors = _matrix(features)
    count = len(vectors)
    return ImageSet(
        vectors,
        np.full((count, 1), np.nan, np.float32) if projections is None else _matrix(projections),
        np.full(count, np.nan, np.float32)
        if nearest is None
        else np.asarray(nearest, np.float32).reshape(-1),
    )


def _matrix(array: Any) -> np.ndarray:
    found = np.asarray(array, np.float32)
    return found.reshape(-1, found.shape[-1])


def _hashes(given: Any, features: np.ndarray) -> np.ndarray:
    if given is not None:
        return np.asarray(given, np.uint64).reshape(-1)
    digests = b"".join(hashlib.sha256(row.tobytes()).digest()[:8] for row in features)
    return np.frombuffer(digests, ">u8").astype(np.uint64)
