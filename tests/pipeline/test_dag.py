"""The pipeline as a graph: which nodes there are, and what flows between them."""

from __future__ import annotations

import json

import pytest
from tfx.dsl.compiler import compiler

from pipeline import config, dag

ALWAYS = [
    "ImageExampleGen",
    "StatisticsGen",
    "PinnedSchemaGen",
    "ExampleValidator",
    "DataGate",
    "Transform",
    "Trainer",
    "ServedModel",
    "Evaluator",
    "ServingValidator",
    "Pusher",
]


@pytest.fixture
def compiled(tmp_path):
    """Compiles the pipeline of some overrides; nodes by id, in the order they run in."""

    def compiled(*overrides):
        pipeline = dag.create_pipeline(config.load("digits", overrides, root=str(tmp_path)))
        nodes = compiler.Compiler().compile(pipeline).nodes
        return {node.pipeline_node.node_info.id: node.pipeline_node for node in nodes}

    return compiled


def _source(node, name):
    """Where one of a node's inputs comes from: node and output."""
    channel = node.inputs.inputs[name].channels[0]
    return channel.producer_node_query.id, channel.output_key


def _custom_config(node):
    value = node.parameters.parameters["custom_config"].field_value.string_value
    return json.loads(value)


def _job(node):
    return json.loads(_custom_config(node)["job"])


def test_create_pipeline_without_options_has_no_optional_node(compiled):
    nodes = compiled()
    assert sorted(nodes) == sorted(ALWAYS)
    assert not {"base_model", "hyperparameters"} & set(nodes["Trainer"].inputs.inputs)
    assert _job(nodes["Trainer"])["warm_start_dir"] is None


def test_create_pipeline_warm_start_served_reads_what_is_served_before_training(compiled):
    nodes = compiled("training.warm_start=served")
    assert sorted(nodes) == sorted([*ALWAYS, "WarmStartModel"])
    order = list(nodes)
    expected = ["Transform", "WarmStartModel", "Trainer", "ServedModel"]
    assert sorted(expected, key=order.index) == expected
    assert _source(nodes["Trainer"], "base_model") == ("WarmStartModel", "model")
    # What is compared with is read anew after training.
    assert _source(nodes["Evaluator"], "baseline_model") == ("ServedModel", "model")


def test_create_pipeline_warm_start_path_is_in_the_job(compiled):
    nodes = compiled("training.warm_start=/models/../models/7")
    assert sorted(nodes) == sorted(ALWAYS)
    assert _job(nodes["Trainer"])["warm_start_dir"] == "/models/7"


def test_create_pipeline_tuning_puts_a_search_between_transform_and_trainer(compiled):
    nodes = compiled("tuning.trials=3", "tuning.steps=70", "training.warm_start=served")
    order = list(nodes)
    assert sorted(nodes) == sorted([*ALWAYS, "Tuner", "WarmStartModel"])
    assert order.index("Transform") < order.index("Tuner") < order.index("Trainer")
    assert _source(nodes["Trainer"], "hyperparameters") == ("Tuner", "best_hyperparameters")
    assert _source(nodes["Tuner"], "examples") == ("Transform", "transformed_examples")
    assert _source(nodes["Tuner"], "base_model") == ("WarmStartModel", "model")
    assert _job(nodes["Tuner"]) == _job(nodes["Trainer"])
    tuning = json.loads(_custom_config(nodes["Tuner"])["tuning"])
    assert (tuning["trials"], tuning["steps"]) == (3, 70)


def test_create_pipeline_job_holds_the_configured_extractor(compiled):
    assert _job(compiled()["Trainer"])["extractor"]["name"] == "random"
