"""From a trained model to a served one: the four nodes together, with real metadata."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tensorflow as tf
from tfx.dsl.components.common.importer import Importer
from tfx.orchestration import metadata, pipeline
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.types import standard_artifacts

from components.gan_evaluator.component import GanEvaluator
from components.pusher.component import Pusher
from components.served_model.component import ServedModel
from components.serving_validator.component import ServingValidator
from pipeline import gate
from pipeline.config import Config


@pytest.fixture
def examples_dir(tmp_path, digits):
    folder = tmp_path / "examples" / "Split-eval"
    folder.mkdir(parents=True)
    held_out = digits.part(1).part(0)
    with tf.io.TFRecordWriter(str(folder / "examples-00000-of-00001.gz"), "GZIP") as writer:
        for index, (image, label) in enumerate(zip(held_out.images, held_out.labels, strict=True)):
            example = tf.train.Example()
            feature = example.features.feature
            feature["image"].bytes_list.value.append(image.tobytes())
            feature["label"].int64_list.value.append(int(label))
            feature["example_id"].bytes_list.value.append(b"%d" % index)
            writer.write(example.SerializeToString())
    return folder.parent


def run(root: Path, candidate: Path, examples_dir: Path, config: Config) -> None:
    examples = Importer(
        source_uri=str(examples_dir),
        artifact_type=standard_artifacts.Examples,
        properties={"split_names": '["eval"]'},
    ).with_id("Transform")
    trained = Importer(
        source_uri=str(candidate.parent), artifact_type=standard_artifacts.Model
    ).with_id("Trainer")
    served = ServedModel(push_destination=str(root / "serving"))
    evaluator = GanEvaluator(
        examples=examples.outputs["result"],
        model=trained.outputs["result"],
        baseline_model=served.outputs["model"],
        eval_config=gate.eval_config(config),
        options=gate.gate_options(config),
    ).with_id("Evaluator")
    validator = ServingValidator(model=trained.outputs["result"], image_size=16, channels=1)
    pusher = Pusher(
        model=trained.outputs["result"],
        model_blessing=evaluator.outputs["blessing"],
        infra_blessing=validator.outputs["blessing"],
        push_destination=str(root / "serving"),
    )
    LocalDagRunner().run(
        pipeline.Pipeline(
            pipeline_name="gate",
            pipeline_root=str(root / "pipeline"),
            components=[examples, trained, served, evaluator, validator, pusher],
            enable_cache=True,
            metadata_connection_config=metadata.sqlite_metadata_connection_config(
                str(root / "metadata.sqlite")
            ),
        )
    )


def test_gate_good_model_is_served_and_a_worse_one_does_not_replace_it(
    tmp_path, models, examples_dir, last_run
):
    config = Config.model_validate(
        {
            "data": {"image_size": 16, "channels": 1},
            # There is no training split here that copies could be looked for in.
            "evaluation": {"gate": {"memorisation": {"bound": None}}},
        }
    )
    database = tmp_path / "metadata.sqlite"

    def verdict() -> dict:
        folder = Path(last_run(database, "Evaluator").uris["evaluation"])
        return json.loads((folder / "verdict.json").read_text())

    run(tmp_path, models["good"], examples_dir, config)
    assert verdict()["blessed"]
    pushed = last_run(database, "Pusher")
    assert (pushed["pushed"], pushed["copied"]) == (1, 1)

    run(tmp_path, models["good"], examples_dir, config)
    assert "served already" in verdict()["reason"]
    again = last_run(database, "Pusher")
    assert (again["pushed"], again["copied"]) == (1, 0)
    assert again["pushed_version"] == pushed["pushed_version"]
    assert last_run(database, "ServingValidator").cached

    run(tmp_path, models["noise"], examples_dir, config)
    assert not verdict()["blessed"]
    assert verdict()["baseline_metrics"]["relative_frechet_distance"] < 0.1
    assert last_run(database, "Pusher")["pushed"] == 0
    assert [path.name for path in (tmp_path / "serving").iterdir()] == [pushed["pushed_version"]]

    run(tmp_path, models["good"], examples_dir, config)
    nodes = ("ServedModel", "Evaluator", "ServingValidator", "Pusher")
    assert all(last_run(database, node).cached for node in nodes)
