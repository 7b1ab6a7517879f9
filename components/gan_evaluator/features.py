"""TFMA extractor: from serialised examples to features of real and generated images."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow_model_analysis as tfma
from apache_beam.utils import shared

from components.gan_evaluator.generator import Generator, labels_for, latents
from components.gan_evaluator.options import GateOptions
from trainer.quality import extractors

#: Keys below TFMA's `features`.
REAL_KEY = "real"
LABEL_KEY = "label"


def extractors_for(
    model_dirs: Mapping[str, str], options: GateOptions, eval_config: tfma.EvalConfig
) -> list[tfma.extractors.Extractor]:
    """The chain that TFMA's evaluators run after.

    Args:
      model_dirs: SavedModels by TFMA's names of the models; one model alone is called ''.
      options: sizes, extractor, seed.
      eval_config: what to slice by.

    Returns:
      Extractors for extracts that hold an Arrow record batch.
    """
    embed = tfma.extractors.Extractor(
        stage_name="EmbedImages",
        ptransform=beam.ParDo(_EmbedImages(dict(model_dirs), options)),
    )
    return [
        embed,
        # Before the slice keys, which are of single examples.
        tfma.extractors.UnbatchExtractor(),
        tfma.extractors.SliceKeyExtractor(eval_config=eval_config),
    ]


class _EmbedImages(beam.DoFn):
    """Replaces a record batch of N examples by their features.

    Adds `features`: {`real`: float32 [N, D], `label`: int64 [N, 1] when there are labels}, and
    `predictions`: float32 [N, D], features of one generated image for each example, by model
    when there are several.
    """

    def __init__(self, model_dirs: dict[str, str], options: GateOptions):
        self._model_dirs = model_dirs
        self._options = options
        self._handles = {name: shared.Shared() for name in model_dirs}

    def setup(self) -> None:
        """Loads models and network, once a process."""
        self._extract = extractors.create(self._options.extractor)
        self._generators = {
            name: self._handles[name].acquire(functools.partial(Generator, path))
            for name, path in self._model_dirs.items()
        }
        # The candidate comes first, and its classes are those of the data.
        known = [generator.traits.class_names for generator in self._generators.values()]
        self._class_names = next(filter(None, known), ())

    def process(self, extracts: tfma.types.Extracts) -> Iterator[tfma.types.Extracts]:
        """Embeds one batch."""
        batch = extracts[tfma.ARROW_RECORD_BATCH_KEY]
        labels = _labels(batch)
        features = {REAL_KEY: self._extract(self._real_images(batch))}
        if labels is not None:
            features[LABEL_KEY] = labels[:, np.newaxis]
        example_ids = _values(batch, "example_id").to_pylist()
        predictions = {
            name: self._extract(self._generated_images(generator, example_ids, labels))
            for name, generator in self._generators.items()
        }
        yield {
            tfma.FEATURES_KEY: features,
            tfma.PREDICTIONS_KEY: predictions.get("", predictions),
        }

    def _real_images(self, batch: pa.RecordBatch) -> np.ndarray:
        size = self._options.image_size
        pixels = b"".join(_values(batch, "image").to_pylist())
        return np.frombuffer(pixels, np.uint8).reshape(-1, size, size, self._options.channels)

    def _generated_images(
        self, generator: Generator, example_ids: list[bytes], labels: np.ndarray | None
    ) -> np.ndarray:
        traits = generator.traits
        if labels is not None and traits.conditional:
            labels = labels_for(traits, labels, self._class_names, example_ids)
        drawn = latents(example_ids, self._options.seed, traits.latent_dim)
        return generator(drawn, labels)


def _labels(batch: pa.RecordBatch) -> np.ndarray | None:
    if LABEL_KEY not in batch.schema.names:
        return None
    return _values(batch, LABEL_KEY).to_numpy(zero_copy_only=False).astype(np.int64)


def _values(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The one value that each of the N examples has in a column."""
    values = batch.column(batch.schema.get_field_index(name)).flatten()
    if len(values) != batch.num_rows:
        raise ValueError(
            f"transformed examples: {batch.num_rows} examples have {len(values)} values of "
            f"{name!r}; allowed: one each; run the pipeline's Transform anew"
        )
    return values
