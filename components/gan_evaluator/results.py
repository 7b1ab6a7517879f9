"""What TFMA wrote, read back as numbers; and what is written beside it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import validation_result_pb2
from tfx import types

from components.gan_evaluator.features import LABEL_KEY
from components.gan_evaluator.judgement import Failure
from components.gan_evaluator.measurements import (
    ExtractorIdentity,
    ModelMetrics,
    SliceMetrics,
    Value,
    finite,
)
from components.gan_evaluator.verdict import Verdict
from trainer.quality import catalogue

VERDICT_FILE = "verdict.json"


def writers_for(
    output_dir: str, eval_config: tfma.EvalConfig, model_dirs: Mapping[str, str]
) -> list[tfma.writers.Writer]:
    """TFMA's writers of configuration and metrics: all but the validation, which is ours."""
    paths = {tfma.METRICS_KEY: os.path.join(output_dir, tfma.METRICS_KEY)}
    return [
        tfma.writers.EvalConfigWriter(
            output_dir, eval_config=eval_config, model_locations=dict(model_dirs)
        ),
        tfma.writers.MetricsPlotsAndValidationsWriter(
            output_paths=paths, eval_config=eval_config, output_file_format="tfrecord"
        ),
    ]


def read_metrics(
    output_dir: str,
    model_name: str,
    class_names: Sequence[str],
    extractor: ExtractorIdentity,
    split: str,
) -> ModelMetrics:
    """Metrics of one model.

    Args:
      output_dir: where TFMA wrote.
      model_name: TFMA's name of the model; '' when it was alone.
      class_names: names by class id; none to leave classes out.
      extractor: of the features.
      split: of the examples.
    """
    overall, per_class = SliceMetrics(), {}
    result = tfma.load_eval_result(output_dir, model_name=model_name)
    for slice_key, values in result.slicing_metrics:
        found = _slice_metrics(values[""][""])
        if not slice_key:
            overall = found
            continue
        feature, value = slice_key[0]
        if feature == LABEL_KEY and 0 <= value < len(class_names):
            per_class[class_names[value]] = found
    ordered = {name: per_class[name] for name in class_names if name in per_class}
    return ModelMetrics(overall, ordered, extractor, split)


def properties(verdict: Verdict) -> dict[str, str | int | float]:
    """What is kept of a verdict in ML Metadata, where runs are compared over time.

    Returns:
      Every measured metric of the candidate on all examples, `<name>` and `<name>_error`, with
      what is needed to tell whether two runs' numbers can be compared. Of numbers SQLite's
      metadata keeps six decimals; `verdict.json` has them in full.
    """
    found = verdict.metrics
    kept: dict[str, str | int | float] = {
        "blessed": int(verdict.blessed),
        "reason": verdict.reason,
        "extractor": found.extractor.name,
        "extractor_sha256": found.extractor.sha256,
        "split": found.split,
        "examples": found.overall.examples,
        "sampled": found.overall.sampled,
        "training": found.overall.training,
    }
    for metric in catalogue.METRICS:
        value = found.overall[metric.name]
        for key, number in ((metric.name, value.value), (f"{metric.name}_error", value.error)):
            if finite(number) is not None:
                kept[key] = number
    return kept


def describe_artifact(evaluation: types.Artifact, verdict: Verdict) -> None:
    """Sets the verdict's `properties` on the evaluation artifact; the executor calls it."""
    for key, value in properties(verdict).items():
        if isinstance(value, str):
            evaluation.set_string_custom_property(key, value)
        elif isinstance(value, int):
            evaluation.set_int_custom_property(key, value)
        else:
            evaluation.set_float_custom_property(key, value)


def write_verdict(output_dir: str, verdict: Verdict, class_names: Sequence[str]) -> None:
    """Publishes the verdict where TFMA wrote: as JSON, and as TFMA's ValidationResult.

    Args:
      output_dir: where TFMA wrote.
      verdict: to publish.
      class_names: names by class id, which is what TFMA slices by.
    """
    with tf.io.gfile.GFile(os.path.join(output_dir, VERDICT_FILE), "w") as file:
        file.write(json.dumps(verdict.as_json(), indent=2) + "\n")
    path = os.path.join(output_dir, f"{tfma.VALIDATIONS_KEY}.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(_validation_result(verdict, class_names).SerializeToString())


def _slice_metrics(found: Mapping[str, Mapping[str, Any]]) -> SliceMetrics:
    def number(key: str) -> float:
        # TFMA gives a JSON form of its own protobuf.
        return float(found.get(key, {}).get("doubleValue", math.nan))

    def count(key: str) -> int:
        return int(finite(number(key)) or 0)

    values = {
        name: Value(
            number(name),
            number(f"{name}_error"),
            number(f"{name}_floor"),
            number(f"{name}_change_error"),
        )
        for name in catalogue.BY_NAME
    }
    return SliceMetrics(
        values, count("example_count"), count("sampled_count"), count("training_count")
    )


def _validation_result(
    verdict: Verdict, class_names: Sequence[str]
) -> validation_result_pb2.ValidationResult:
    """The verdict as TFMA's own tools read it, a record for each slice that failed."""
    result = validation_result_pb2.ValidationResult(validation_ok=verdict.blessed)
    details = result.validation_details.slicing_details.add()
    details.slicing_spec.SetInParent()
    details.num_matching_slices = 1 if verdict.metrics.overall.examples else 0
    by_class: dict[str | None, list[Failure]] = {}
    for failure in verdict.failures:
        by_class.setdefault(failure.class_name, []).append(failure)
    for class_name, failures in by_class.items():
        of_slice = result.metric_validations_per_slice.add()
        of_slice.slice_key.SetInParent()
        if class_name is not None:
            key = of_slice.slice_key.single_slice_keys.add(column=LABEL_KEY)
            key.int64_value = class_names.index(class_name)
        for failure in failures:
            record = of_slice.failures.add()
            record.metric_key.name = failure.metric or ""
            record.metric_value.double_value.value = failure.value
            record.message = failure.message
    return result
