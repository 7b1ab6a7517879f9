"""What TFMA wrote, read back; and what is written beside it."""

from __future__ import annotations

import json
import math

import apache_beam as beam
import pytest
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics import metric_types
from tfx.types import standard_artifacts

from components.gan_evaluator import results
from components.gan_evaluator.measurements import (
    ExtractorIdentity,
    ModelMetrics,
    SliceMetrics,
    Value,
)
from components.gan_evaluator.options import GateRule, GateRules
from components.gan_evaluator.verdict import decide
from trainer.quality import catalogue

EXTRACTOR = ExtractorIdentity("random", "ab" * 32, 64)
CLASSES = ("cat", "dog", "owl")
COUNTS = {"example_count": 50.0, "sampled_count": 40.0, "training_count": 30.0}

#: By slice and model, as the metrics of the Evaluator name them.
WRITTEN = {
    (): {
        "candidate": {
            "coverage": 0.5,
            "coverage_error": 0.25,
            "coverage_floor": 0.75,
            "coverage_change_error": 0.125,
            "kernel_distance": -0.5,
            "kernel_distance_deviation": 8.0,
            "memorisation": math.nan,
            **COUNTS,
        },
        "baseline": {"coverage": 0.625, "coverage_error": 0.5, **COUNTS},
    },
    (("label", 2),): {"candidate": {"coverage": 0.25, "example_count": 7.0}, "baseline": {}},
    (("label", 0),): {"candidate": {"coverage": 0.125}, "baseline": {}},
    (("label", 9),): {"candidate": {"coverage": 0.0625}, "baseline": {}},
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder that TFMA's own writers have written to."""
    folder = str(tmp_path_factory.mktemp("evaluation"))
    config = tfma.EvalConfig(
        model_specs=[
            tfma.ModelSpec(name="candidate"),
            tfma.ModelSpec(name="baseline", is_baseline=True),
        ],
        slicing_specs=[tfma.SlicingSpec(), tfma.SlicingSpec(feature_keys=["label"])],
    )
    records = [
        (
            slice_key,
            {
                metric_types.MetricKey(name=name, model_name=model): value
                for model, values in models.items()
                for name, value in values.items()
            },
        )
        for slice_key, models in WRITTEN.items()
    ]
    with beam.Pipeline() as pipeline:
        metrics = pipeline | beam.Create(records)
        _ = {tfma.METRICS_KEY: metrics} | tfma.WriteResults(
            writers=results.writers_for(folder, config, {"candidate": "a", "baseline": "b"})
        )
    return folder


def test_read_metrics_finds_each_number_of_each_model(written):
    found = results.read_metrics(written, "candidate", CLASSES, EXTRACTOR, "eval")
    assert found.extractor == EXTRACTOR
    assert found.split == "eval"
    overall = found.overall
    assert overall["coverage"] == Value(0.5, 0.25, 0.75, 0.125)
    assert overall["kernel_distance"].value == -0.5
    assert (overall.examples, overall.sampled, overall.training) == (50, 40, 30)
    assert set(overall.values) == set(catalogue.BY_NAME)
    baseline = results.read_metrics(written, "baseline", CLASSES, EXTRACTOR, "eval").overall
    assert (baseline["coverage"].value, baseline["coverage"].error) == (0.625, 0.5)
    assert math.isnan(baseline["coverage"].change_error)


def test_read_metrics_what_is_not_there_or_nan_is_not_measured(written):
    overall = results.read_metrics(written, "candidate", CLASSES, EXTRACTOR, "eval").overall
    assert not overall["memorisation"].measured
    assert not overall["recall"].measured


def test_read_metrics_classes_have_their_names_in_the_order_of_ids(written):
    found = results.read_metrics(written, "candidate", CLASSES, EXTRACTOR, "eval").per_class
    assert list(found) == ["cat", "owl"]
    assert {name: one["coverage"].value for name, one in found.items()} == {
        "cat": 0.125,
        "owl": 0.25,
    }
    assert (found["owl"].examples, found["cat"].examples) == (7, 0)
    assert not results.read_metrics(written, "candidate", (), EXTRACTOR, "eval").per_class


NOTHING_ASKED = {name: GateRule() for name in GateRules.model_fields}


def refused():
    overall = SliceMetrics({"coverage": Value(0.5, 0.25), "recall": Value(0.125)}, 50, 40, 30)
    owl = SliceMetrics({"coverage": Value(0.25)}, 7, 7, 7)
    metrics = ModelMetrics(overall, {"owl": owl}, EXTRACTOR, "eval")
    asked = NOTHING_ASKED | {"coverage": GateRule(bound=0.6, class_bound=0.5)}
    return decide(metrics, None, GateRules(**asked))


def test_write_verdict_lists_every_failure_in_its_slice_for_tfma(tmp_path):
    results.write_verdict(str(tmp_path), refused(), CLASSES)
    found = tfma.load_validation_result(str(tmp_path))
    assert not found.validation_ok
    stated = [
        (
            [(key.column, key.int64_value) for key in of_slice.slice_key.single_slice_keys],
            failure.metric_key.name,
            failure.metric_value.double_value.value,
            failure.message,
        )
        for of_slice in found.metric_validations_per_slice
        for failure in of_slice.failures
    ]
    assert stated == [
        ([], "coverage", 0.5, "Coverage 0.5 ± 0.25 is below the bound 0.6"),
        ([("label", 2)], "coverage", 0.25, "Coverage of class 'owl' 0.25 is below the bound 0.5"),
    ]


def test_write_verdict_of_models_that_cannot_be_compared_names_no_metric(tmp_path):
    metrics = ModelMetrics(SliceMetrics(), {}, EXTRACTOR, "eval")
    rules = GateRules(**(NOTHING_ASKED | {"coverage": GateRule(tolerance=0.1)}))
    results.write_verdict(str(tmp_path), decide(metrics, None, rules, incomparable="why"), CLASSES)
    found = tfma.load_validation_result(str(tmp_path)).metric_validations_per_slice[0]
    assert [failure.message for failure in found.failures][-1] == "why"


def test_write_verdict_is_the_verdict_as_json(tmp_path):
    verdict = refused()
    results.write_verdict(str(tmp_path), verdict, CLASSES)
    assert json.loads((tmp_path / "verdict.json").read_text()) == verdict.as_json()


def test_describe_artifact_keeps_what_runs_are_compared_by():
    artifact = standard_artifacts.ModelEvaluation()
    verdict = refused()
    results.describe_artifact(artifact, verdict)
    for name in ("coverage", "coverage_error", "recall"):
        assert artifact.get_float_custom_property(name) == results.properties(verdict)[name]
    assert artifact.get_float_custom_property("coverage_error") == 0.25
    assert artifact.get_string_custom_property("extractor_sha256") == EXTRACTOR.sha256
    assert artifact.get_string_custom_property("reason") == verdict.reason
    assert artifact.get_int_custom_property("blessed") == 0
    counts = [
        artifact.get_int_custom_property(name) for name in ("examples", "sampled", "training")
    ]
    assert counts == [50, 40, 30]
    assert set(results.properties(verdict)) == {
        *("blessed", "reason", "extractor", "extractor_sha256", "split"),
        *("examples", "sampled", "training"),
        *("coverage", "coverage_error", "recall"),
    }
