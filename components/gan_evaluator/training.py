"""The training split's part in an evaluation: a reference to look for copies in, and the floor.

Both are chosen by hash, so they are the same whatever the order of the examples, and neither
holds more images than asked for, whatever the size of the split.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.utils import shared

from components.gan_evaluator import embedding
from components.gan_evaluator.embedding import Reference
from components.gan_evaluator.examples import chosen, example_hashes, may_be_sampled
from components.gan_evaluator.features import TRAINING_KEY, Group
from components.gan_evaluator.options import GateOptions
from trainer import records
from trainer.quality import extractors

#: Split of the examples that models are trained on.
SPLIT = "train"
#: Outputs: TFMA's extracts for the floor, and pieces of the reference.
EXTRACTS, REFERENCE = "extracts", "reference"


def reference_hashes(example_ids: Iterable[bytes]) -> np.ndarray:
    """Hashes uint64 [N] that name training images in the reference."""
    return example_hashes(example_ids, "reference")


class EmbedTraining(beam.DoFn):
    """`records.Part`s of training examples to extracts for the floor, and to the reference.

    For the floor, about as many images as are held out.
    """

    def __init__(self, options: GateOptions, by_label: bool, sampled_images: int):
        """Remembers what to load.

        Args:
          options: sizes, extractor, how many images the reference has.
          by_label: whether there are slices by label.
          sampled_images: size of the samples that metrics take.
        """
        self._options = options
        self._by_label = by_label
        self._sampled_images = sampled_images
        self._extractor = shared.Shared()

    def setup(self) -> None:
        """Loads the network, once a process."""
        self._extract = self._extractor.acquire(
            functools.partial(extractors.create, self._options.extractor)
        )

    def process(
        self, part: records.Part, available: Mapping[int, int], held_out: Mapping[int, int]
    ) -> Iterator[Any]:
        """Embeds what was chosen of some examples; how many there are of each is by label."""
        total = sum(available.values())
        hashes = reference_hashes(part.ids), example_hashes(part.ids, "floor")
        in_reference = chosen(hashes[0], self._options.training_images, total)
        in_floor = chosen(hashes[1], sum(held_out.values()), total)
        sampled = in_floor & may_be_sampled(
            hashes[1], part.labels, available, self._sampled_images, by_label=self._by_label
        )
        rows = np.flatnonzero(in_reference | in_floor)
        if not len(rows):
            return
        images, _ = embedding.embed(
            self._extract, embedding.pixels(part, self._options)[rows], sampled[rows], None
        )
        kept = in_reference[rows]
        reference = Reference(hashes[0][rows][kept], images.features[kept])
        yield beam.pvalue.TaggedOutput(REFERENCE, reference)
        kept = in_floor[rows]
        if kept.any():
            group = Group(hashes[1][rows][kept], {TRAINING_KEY: images.take(kept)})
            yield from embedding.extracts(group, part.labels[rows][kept], self._by_label)


class CombineReference(beam.CombineFn):
    """Pieces of the reference to one, in the order of the hashes."""

    def create_accumulator(self) -> list[Reference]:
        """No pieces."""
        return []

    def add_input(self, accumulator: list[Reference], piece: Reference) -> list[Reference]:
        """Adds a piece."""
        return [*accumulator, piece]

    def merge_accumulators(self, accumulators: Iterable[list[Reference]]) -> list[Reference]:
        """All pieces."""
        return [piece for accumulator in accumulators for piece in accumulator]

    def extract_output(self, accumulator: list[Reference]) -> Reference:
        """The reference."""
        if not accumulator:
            return Reference(np.zeros(0, np.uint64), np.zeros((0, 1), np.float32))
        hashes = np.concatenate([piece.hashes for piece in accumulator])
        features = np.concatenate([piece.features for piece in accumulator])
        order = np.argsort(hashes, kind="stable")
        return Reference(hashes[order], features[order])
