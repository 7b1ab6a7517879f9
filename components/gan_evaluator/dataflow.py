"""The Beam pipeline of an evaluation: examples in, what TFMA writes and pictures out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apache_beam as beam
import tensorflow_model_analysis as tfma

from components.gan_evaluator import held_out, metrics, training
from components.gan_evaluator.examples import CountExamples, ReadExamples
from components.gan_evaluator.features import LABEL_KEY
from components.gan_evaluator.held_out import EmbedHeldOut
from components.gan_evaluator.options import GateOptions
from components.gan_evaluator.pictures import WritePictures
from components.gan_evaluator.training import CombineReference, EmbedTraining


def measure(
    pipeline: beam.Pipeline,
    *,
    held_out_files: Sequence[str],
    training_files: Sequence[str],
    model_dirs: Mapping[str, str],
    options: GateOptions,
    eval_config: tfma.EvalConfig,
    writers: list[tfma.writers.Writer],
    output_dir: str,
) -> None:
    """Adds everything that is measured to a pipeline.

    Args:
      pipeline: to add to.
      held_out_files: transformed examples that models are measured on.
      training_files: those that they were trained on; may be none.
      model_dirs: SavedModels by TFMA's names, the candidate first; one alone is called ''.
      options: sizes, extractor, seed, how many images.
      eval_config: metrics and slices.
      writers: of what TFMA computes.
      output_dir: where to put the pictures.
    """
    shape = (options.image_size, options.image_size, options.channels)
    by_label = any(LABEL_KEY in spec.feature_keys for spec in eval_config.slicing_specs)
    sampled_images = metrics.sampled_images(eval_config)
    counts = {
        "available": pipeline | "CountTraining" >> CountExamples(training_files),
        "held_out": pipeline | "CountHeldOut" >> CountExamples(held_out_files),
    }
    trained = (
        pipeline
        | "ReadTraining" >> ReadExamples(training_files, shape)
        | "EmbedTraining"
        >> beam.ParDo(
            EmbedTraining(options, by_label, sampled_images),
            **{name: beam.pvalue.AsSingleton(count) for name, count in counts.items()},
        ).with_outputs(training.REFERENCE, main=training.EXTRACTS)
    )
    reference = trained[training.REFERENCE] | beam.CombineGlobally(CombineReference())
    measured = (
        pipeline
        | "ReadHeldOut" >> ReadExamples(held_out_files, shape)
        | "EmbedHeldOut"
        >> beam.ParDo(
            EmbedHeldOut(model_dirs, options, by_label, sampled_images),
            reference=beam.pvalue.AsSingleton(reference),
            counts=beam.pvalue.AsSingleton(counts["held_out"]),
        ).with_outputs(held_out.PICTURES, main=held_out.EXTRACTS)
    )
    _ = (
        (measured[held_out.EXTRACTS], trained[training.EXTRACTS])
        | "Flatten" >> beam.Flatten()
        # One by one: TFMA's own composition misses record batches in every extract, aloud.
        | "ExtractSliceKeys"
        >> tfma.extractors.SliceKeyExtractor(eval_config=eval_config).ptransform
        | "Evaluate"
        >> tfma.evaluators.MetricsPlotsAndValidationsEvaluator(eval_config=eval_config).ptransform
        | "WriteResults" >> tfma.WriteResults(writers=writers)
    )
    _ = measured[held_out.PICTURES] | "WritePictures" >> WritePictures(
        output_dir, training_files, shape
    )
