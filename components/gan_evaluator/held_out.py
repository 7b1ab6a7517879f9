"""Held-out examples: one image is made for each by each model, and all of them are embedded."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.utils import shared

from components.gan_evaluator import embedding
from components.gan_evaluator.embedding import Reference
from components.gan_evaluator.examples import example_hashes, may_be_sampled
from components.gan_evaluator.features import REAL_KEY, Group
from components.gan_evaluator.generator import Generator, labels_for, latents
from components.gan_evaluator.options import GateOptions
from components.gan_evaluator.pictures import Pictures
from trainer import records
from trainer.quality import extractors

#: Outputs: TFMA's extracts, and `Pictures`.
EXTRACTS, PICTURES = "extracts", "pictures"


class EmbedHeldOut(beam.DoFn):
    """`records.Part`s of held-out examples to extracts, and to pictures of the candidate's.

    The latent of an image depends on the example alone.
    """

    def __init__(
        self,
        model_dirs: Mapping[str, str],
        options: GateOptions,
        by_label: bool,
        sampled_images: int,
    ):
        """Remembers what to load.

        Args:
          model_dirs: SavedModels by TFMA's names of the models, the candidate first.
          options: sizes, extractor, seed.
          by_label: whether there are slices by label.
          sampled_images: size of the samples that metrics take.
        """
        self._sampled_images = sampled_images
        self._model_dirs = dict(model_dirs)
        self._options = options
        self._by_label = by_label
        self._handles = {name: shared.Shared() for name in model_dirs}
        self._extractor = shared.Shared()

    def setup(self) -> None:
        """Loads models and network, once a process."""
        self._extract = self._extractor.acquire(
            functools.partial(extractors.create, self._options.extractor)
        )
        self._generators = {
            name: self._handles[name].acquire(functools.partial(Generator, path))
            for name, path in self._model_dirs.items()
        }
        # The candidate comes first, and its classes are those of the data.
        known = [generator.traits.class_names for generator in self._generators.values()]
        self._class_names = next(filter(None, known), ())

    def process(
        self, part: records.Part, reference: Reference, counts: Mapping[int, int]
    ) -> Iterator[Any]:
        """Embeds some examples; `counts` is how many there are in all, by label."""
        ids = list(part.ids)
        hashes = example_hashes(ids, "sample")
        sampled = may_be_sampled(
            hashes, part.labels, counts, self._sampled_images, by_label=self._by_label
        )
        images = {REAL_KEY: embedding.pixels(part, self._options)}
        for name, generator in self._generators.items():
            images[name] = self._generated(generator, ids, part.labels, set(counts))
        sets, closest = {}, {}
        for name, found in images.items():
            sets[name], closest[name] = embedding.embed(self._extract, found, sampled, reference)
        group = Group(hashes, sets)
        yield from embedding.extracts(group, part.labels, self._by_label)
        candidate = next(iter(self._generators))
        pictures = Pictures.of(
            example_hashes(ids, "pictures"),
            part.labels,
            images=(images[REAL_KEY], images[candidate]),
            nearest=(sets[REAL_KEY].nearest, sets[candidate].nearest),
            training=reference.hashes[closest[candidate]] if reference else None,
        )
        yield beam.pvalue.TaggedOutput(PICTURES, pictures)

    def _generated(
        self,
        generator: Generator,
        example_ids: list[bytes],
        labels: np.ndarray,
        all_labels: set[int],
    ) -> np.ndarray:
        traits = generator.traits
        told: np.ndarray | None = labels
        # Of all examples: that some of them have no label depends on how they are split up.
        if all_labels <= {records.NO_LABEL}:
            told = None
        elif traits.conditional:
            told = labels_for(traits, labels, self._class_names, example_ids)
        drawn = latents(example_ids, self._options.seed, traits.latent_dim)
        return generator(drawn, told)
