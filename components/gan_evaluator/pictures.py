"""A few images to look at: held-out ones, samples, and the samples nearest to training images."""

from __future__ import annotations

import dataclasses
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np
import tensorflow as tf

from components.gan_evaluator.examples import ReadExamples
from components.gan_evaluator.training import reference_hashes
from trainer import records
from trainer.quality.memorisation import near_quantile

PICTURES_FILE = "pictures.npz"
#: How many held-out examples are shown, and how many samples beside the nearest training image.
_SHOWN, _CLOSEST = 64, 16
#: Held-out images, at most, that tell how near to a training image is near.
_COMPARED = 10_000


@dataclasses.dataclass(frozen=True)
class Pictures:
    """Some examples out of many, and what the candidate made for them.

    Attributes:
      hashes: uint64 [S], ascending.
      labels: int64 [S], -1: unknown.
      real: uint8 [S, H, W, C].
      generated: uint8 [S, H, W, C].
      distances: float32 [T], of samples to the nearest training image, ascending.
      closest: uint8 [T, H, W, C], those samples.
      closest_hashes: uint64 [T], hashes of the examples that they were made for.
      training: uint64 [T], hashes of the training images.
      compared: uint64 [N], hashes of the held-out images whose distances are in `nearest`.
      nearest: float32 [N], of theirs to the nearest training image.
    """

    hashes: np.ndarray
    labels: np.ndarray
    real: np.ndarray
    generated: np.ndarray
    distances: np.ndarray
    closest: np.ndarray
    closest_hashes: np.ndarray
    training: np.ndarray
    compared: np.ndarray
    nearest: np.ndarray

    @classmethod
    def of(
        cls,
        hashes: np.ndarray,
        labels: np.ndarray,
        *,
        images: tuple[np.ndarray, np.ndarray],
        nearest: tuple[np.ndarray, np.ndarray],
        training: np.ndarray | None,
    ) -> Pictures:
        """Picks out of some examples.

        Args:
          hashes: uint64 [N], an order of the examples.
          labels: int64 [N].
          images: real ones and those made for them, uint8 [N, H, W, C] each.
          nearest: their distances to the nearest training image, float32 [N] each; NaN for
            what was not looked for.
          training: uint64 [N], hashes of the training images nearest to the samples; None: there
            are no training images.
        """
        real, generated = images
        looked_for = np.isfinite(nearest[1]) & (training is not None)
        everything = cls(
            hashes,
            np.maximum(labels, -1),
            real,
            generated,
            nearest[1][looked_for],
            generated[looked_for],
            hashes[looked_for],
            np.zeros(0, np.uint64) if training is None else training[looked_for],
            hashes[np.isfinite(nearest[0])],
            nearest[0][np.isfinite(nearest[0])],
        )
        return everything._picked()

    def _picked(self) -> Pictures:
        shown = np.argsort(self.hashes, kind="stable")[:_SHOWN]
        # Two samples may be as near as each other: copies.
        near = np.lexsort((self.closest_hashes, self.distances))[:_CLOSEST]
        compared = np.argsort(self.compared, kind="stable")[:_COMPARED]
        return Pictures(
            self.hashes[shown],
            self.labels[shown],
            self.real[shown],
            self.generated[shown],
            self.distances[near],
            self.closest[near],
            self.closest_hashes[near],
            self.training[near],
            self.compared[compared],
            self.nearest[compared],
        )

    @classmethod
    def merged(cls, parts: Sequence[Pictures]) -> Pictures:
        """Picks out of what was picked."""
        columns = [
            np.concatenate([getattr(part, field.name) for part in parts])
            for field in dataclasses.fields(cls)
        ]
        return cls(*columns)._picked()


class WritePictures(beam.PTransform):
    """`Pictures` to the file, with the training images that the closest samples are nearest to.

    Training examples are read once more for those few images: to keep them all until they are
    known would take the memory of the whole reference.
    """

    def __init__(
        self, output_dir: str, training_files: Sequence[str], image_shape: tuple[int, int, int]
    ):
        super().__init__()
        self._output_dir = output_dir
        self._training_files = list(training_files)
        self._image_shape = image_shape

    def expand(self, pictures: beam.PCollection) -> beam.PCollection:
        """One element when the file is written."""
        combined = pictures | beam.CombineGlobally(_Combine()).without_defaults()
        training = (
            pictures.pipeline
            | "ReadTrainingAgain" >> ReadExamples(self._training_files, self._image_shape)
            | "PickClosest" >> beam.FlatMap(_wanted, beam.pvalue.AsIter(combined))
        )
        return combined | "Write" >> beam.Map(
            _write, beam.pvalue.AsDict(training), self._output_dir, self._image_shape
        )


class _Combine(beam.CombineFn):
    def create_accumulator(self) -> list[Pictures]:
        return []

    def add_input(self, accumulator: list[Pictures], pictures: Pictures) -> list[Pictures]:
        return [Pictures.merged([*accumulator, pictures])]

    def merge_accumulators(self, accumulators: Iterable[list[Pictures]]) -> list[Pictures]:
        parts = [part for accumulator in accumulators for part in accumulator]
        return [Pictures.merged(parts)] if parts else []

    def extract_output(self, accumulator: list[Pictures]) -> Pictures:
        [pictures] = accumulator
        return pictures


def _wanted(part: records.Part, combined: Iterable[Pictures]) -> Iterator[tuple[int, bytes]]:
    """Training images by hash: those that any of the closest samples is nearest to."""
    for pictures in combined:
        hashes = reference_hashes(part.ids)
        for row in np.flatnonzero(np.isin(hashes, pictures.training)):
            yield int(hashes[row]), part.pixels[row].tobytes()


def _write(
    pictures: Pictures,
    training: Mapping[int, bytes],
    output_dir: str,
    image_shape: tuple[int, int, int],
) -> None:
    found = b"".join(training[int(name)] for name in pictures.training)
    file = io.BytesIO()
    np.savez_compressed(
        file,
        real=pictures.real,
        real_label=pictures.labels,
        generated=pictures.generated,
        generated_label=pictures.labels,
        closest=pictures.closest,
        closest_training=np.frombuffer(found, np.uint8).reshape(-1, *image_shape),
        closest_distance=pictures.distances,
        heldout_nearest_quantile=np.float32(near_quantile(pictures.nearest)),
    )
    with tf.io.gfile.GFile(os.path.join(output_dir, PICTURES_FILE), "wb") as out:
        out.write(file.getvalue())
