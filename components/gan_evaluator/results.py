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

from components.gan_evaluator.features import LABEL_KEY
from components.gan_evaluator.metrics import FRECHET_DISTANCE, RELATIVE_FRECHET_DISTANCE
from components.gan_evaluator.verdict import NOT_MEASURED, ModelMetrics, SliceMetrics, Verdict

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
    output_dir: str, model_name: str, class_names: Sequence[str], extractor: str
) -> ModelMetrics:
    """Metrics of one model.

    Args:
      output_dir: where TFMA wrote.
      model_name: TFMA's name of the model; '' when it was alone.
      class_names: names by class id; none to leave classes out.
      extractor: name of the features.
    """
    overall, per_class = NOT_MEASURED, {}
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
    return ModelMetrics(overall, ordered, extractor)


def write_verdict(output_dir: str, verdict: Verdict) -> None:
    """Publishes the verdict where TFMA wrote: as JSON, and as TFMA's ValidationResult."""
    with tf.io.gfile.GFile(os.path.join(output_dir, VERDICT_FILE), "w") as file:
        file.write(json.dumps(verdict.as_json(), indent=2) + "\n")
    path = os.path.join(output_dir, f"{tfma.VALIDATIONS_KEY}.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(_validation_result(verdict).SerializeToString())


def _slice_metrics(values: Mapping[str, Mapping[str, Any]]) -> SliceMetrics:
    count = _number(values.get("example_count"))
    return SliceMetrics(
        frechet_distance=_number(values.get(FRECHET_DISTANCE)),
        relative_frechet_distance=_number(values.get(RELATIVE_FRECHET_DISTANCE)),
        examples=int(count) if math.isfinite(count) else 0,
    )


def _number(value: Mapping[str, Any] | None) -> float:
    """A metric's value as TFMA gives it: a JSON form of its own protobuf."""
    return float((value or {}).get("doubleValue", math.nan))


def _validation_result(verdict: Verdict) -> validation_result_pb2.ValidationResult:
    overall = verdict.metrics.overall
    result = validation_result_pb2.ValidationResult(validation_ok=verdict.blessed)
    details = result.validation_details.slicing_details.add()
    details.slicing_spec.SetInParent()
    details.num_matching_slices = 1 if overall.examples else 0
    if not verdict.blessed:
        failures = result.metric_validations_per_slice.add()
        failures.slice_key.SetInParent()
        failure = failures.failures.add()
        failure.metric_key.name = FRECHET_DISTANCE
        failure.metric_value.double_value.value = overall.frechet_distance
        failure.message = verdict.reason
    return result
