"""Tuner and Trainer as TFX runs them: their own executors, real trainings, real artifacts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import json_format
from tfx.components.trainer import executor as trainer_executor
from tfx.components.tuner import executor as tuner_executor
from tfx.dsl.compiler import compiler
from tfx.dsl.components.base import base_executor
from tfx.types import standard_artifacts

from pipeline import config, dag
from trainer.errors import TrainerError


@pytest.fixture
def examples(tmp_path):
    """Transformed examples, 24 to train with and 12 held out: grey 16x16 noise."""
    artifact = standard_artifacts.Examples()
    artifact.uri = str(tmp_path / "examples")
    artifact.split_names = '["train", "eval"]'
    artifact.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    random = np.random.default_rng(0)
    for split, count in (("train", 24), ("eval", 12)):
        path = tmp_path / "examples" / f"Split-{split}" / "transformed_examples-00000-of-00001.gz"
        path.parent.mkdir(parents=True)
        with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
            for i in range(count):
                example = tf.train.Example()
                features = example.features.feature
                features["image"].bytes_list.value.append(random.bytes(16 * 16))
                features["example_id"].bytes_list.value.append(f"{split} {i}".encode())
                writer.write(example.SerializeToString())
    return artifact


@pytest.fixture
def execute(tmp_path, examples):
    """Runs the executors of the compiled Tuner or Trainer, with these inputs more."""
    graph = _artifact(standard_artifacts.TransformGraph, tmp_path / "graph")

    def execute(node_id, overrides, outputs, **inputs):
        built = dag.create_pipeline(config.load("digits", overrides, root=str(tmp_path / "root")))
        nodes = compiler.Compiler().compile(built).nodes
        (node,) = (n.pipeline_node for n in nodes if n.pipeline_node.node_info.id == node_id)
        executor = {
            "Tuner": tuner_executor.Executor,
            "Trainer": trainer_executor.GenericExecutor,
        }[node_id]
        context = base_executor.BaseExecutor.Context(tmp_dir=str(tmp_path), unique_id="1")
        executor(context).Do(
            {"examples": [examples], "transform_graph": [graph]}
            | {name: [artifact] for name, artifact in inputs.items()},
            {name: [artifact] for name, artifact in outputs.items()},
            _parameters(node),
        )

    return execute


def _parameters(node):
    """As the launcher hands them to an executor."""
    found = {}
    for name, parameter in node.parameters.parameters.items():
        value = parameter.field_value
        found[name] = json_format.MessageToDict(value).get("stringValue")
    return found


def _artifact(kind, path):
    artifact = kind()
    artifact.uri = str(path)
    Path(path).mkdir(parents=True)
    return artifact


def test_tuner_and_trainer_the_best_options_and_the_served_weights_are_trained_with(
    execute, tmp_path
):
    overrides = [
        "model={latent_dim: 8, generator_channels: 4, critic_channels: 4}",
        "training={steps: 3, global_batch_size: 8, critic_steps: 1, warm_start: served}",
        "tuning={trials: 2, steps: 2, penalty_weight: [20, 30]}",
    ]
    best = _artifact(standard_artifacts.HyperParameters, tmp_path / "best")
    results = _artifact(standard_artifacts.TunerResults, tmp_path / "results")
    served = _artifact(standard_artifacts.Model, tmp_path / "served")
    execute(
        "Tuner",
        overrides,
        {"best_hyperparameters": best, "tuner_results": results},
        base_model=served,
    )
    found = json.loads(Path(results.uri, "tuner_results.json").read_text())
    assert {trial["trial_id"] for trial in found} == {"0", "1"}
    assert found[0]["score"] <= found[1]["score"]
    chosen = json.loads(Path(best.uri, "best_hyperparameters.txt").read_text())["values"]
    assert chosen == {key: found[0][key] for key in chosen}
    weights = sorted(trial["penalty.weight"] for trial in found)
    assert weights[0] == 10.0  # as configured
    assert 20.0 <= weights[1] <= 30.0

    def train(name, base_model):
        model = _artifact(standard_artifacts.Model, tmp_path / name)
        run = _artifact(standard_artifacts.ModelRun, tmp_path / f"{name}_run")
        outputs = {"model": model, "model_run": run}
        execute("Trainer", overrides, outputs, base_model=base_model, hyperparameters=best)
        result = json.loads(Path(run.uri, "training.json").read_text())
        assert result["steps"] == 3
        assert Path(model.uri, "Format-Serving", "saved_model.pb").is_file()
        return model, result

    first, cold = train("first", served)  # nothing is served yet
    _, warm = train("second", first)
    assert cold["work_dir"] != warm["work_dir"]


def test_trainer_job_that_is_wrong_fails_with_one_line(execute, tmp_path):
    bad = _artifact(standard_artifacts.HyperParameters, tmp_path / "bad")
    Path(bad.uri, "best_hyperparameters.txt").write_text('{"values": {"critic_steps": 0}}')
    outputs = {
        "model": _artifact(standard_artifacts.Model, tmp_path / "model"),
        "model_run": _artifact(standard_artifacts.ModelRun, tmp_path / "run"),
    }
    with pytest.raises(TrainerError, match=r"^hyperparameters: training\.critic_steps"):
        execute("Trainer", [], outputs, hyperparameters=bad)
