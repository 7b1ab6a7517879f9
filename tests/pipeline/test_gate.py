"""TFMA's EvalConfig from the configuration."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import tensorflow_model_analysis as tfma

from components.gan_evaluator.options import GateOptions, GateRule, GateRules
from pipeline import gate
from pipeline.config import Config
from trainer.options import ExtractorOptions
from trainer.quality import catalogue


def config(**sections) -> Config:
    return Config.model_validate(sections)


@pytest.mark.parametrize("conditional", ["auto", True, False])
def test_eval_config_slices_by_label_unless_told_to_ignore_labels(conditional):
    found = gate.eval_config(config(model={"conditional": conditional}))
    expected = [[]] if conditional is False else [[], ["label"]]
    assert [list(spec.feature_keys) for spec in found.slicing_specs] == expected


def test_eval_config_is_valid_and_its_metrics_are_found():
    found = gate.eval_config(config())
    tfma.utils.verify_eval_config(found, baseline_required=True)
    assert [spec.name for spec in found.model_specs] == ["candidate", "baseline"]
    from tensorflow_model_analysis.metrics import metric_specs

    computations = metric_specs.to_computations(found.metrics_specs, eval_config=found)
    keys = {(key.name, key.model_name) for made in computations for key in made.keys}
    for name in (*catalogue.BY_NAME, "example_count"):
        assert {model for found_name, model in keys if found_name == name} == {""}


def test_eval_config_gives_every_metric_the_size_of_its_sample():
    found = gate.eval_config(config(evaluation={"sampled_images": 77}))
    metrics = found.metrics_specs[0].metrics
    assert {json.loads(metric.config)["sampled_images"] for metric in metrics} == {77}


def test_gate_options_carry_the_rules_and_survive_json():
    options = gate.gate_options(
        config(
            data={"image_size": 28, "channels": 1},
            evaluation={
                "gate": {"coverage": {"bound": 0.3}},
                "require": "better",
                "sampled_images": 40,
                "training_images": 50,
                "seed": 5,
            },
        )
    )
    assert options == GateOptions(
        image_size=28,
        channels=1,
        extractor=ExtractorOptions(),
        gate=GateRules(coverage=GateRule(bound=0.3, tolerance=0.1)),
        require="better",
        sampled_images=40,
        training_images=50,
        seed=5,
        split="eval",
    )
    assert GateOptions.model_validate_json(options.model_dump_json()) == options


def test_gate_is_imported_without_tensorflow():
    code = "import sys, pipeline.gate; print({'tensorflow', 'tfx'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
