"""What is gathered after a run: real files and a real metadata database."""

import json
import os

import numpy as np
import pytest
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2 as pb

from components.run_report import making, pictures, scores
from pipeline import lineage, reporting

RUN = "20260102-030405"


def _summary(folder, **changes):
    return {
        "run_id": folder.name,
        "status": "failed",
        "error": "Trainer: no",
        "verdict": None,
        "samples": None,
        "model": None,
        "training": None,
        "artifacts": {},
        "components": {},
        **changes,
    }


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "runs" / RUN
    found.mkdir(parents=True)
    return found


def test_publish_of_a_run_that_stopped_at_once_leaves_a_page(folder):
    summary = _summary(folder)
    reporting.publish(folder, summary)
    assert "Trainer: no" in (folder / "report.html").read_text()
    assert summary["samples"] is None


def test_publish_model_that_cannot_be_loaded_leaves_a_page_without_samples(folder, capsys):
    summary = _summary(folder, model=str(folder / "nowhere"))
    reporting.publish(folder, summary)
    assert (folder / "report.html").exists()
    assert summary["samples"] is None
    assert "cannot be loaded" in capsys.readouterr().err


def test_publish_copies_pictures_and_at_most_eight_sample_grids(folder, tmp_path):
    evaluation, training = tmp_path / "evaluation", tmp_path / "training"
    evaluation.mkdir()
    np.savez(evaluation / pictures.PICTURES_FILE, real=np.zeros([0, 4, 4, 1], np.uint8))
    failure = {"metric": "recall", "message": "recall below the bound", "value": None}
    (evaluation / scores.VERDICT_FILE).write_text(json.dumps({"failures": [failure]}))
    (training / "samples").mkdir(parents=True)
    for step in range(0, 2001, 100):
        (training / "samples" / f"step-{step:08d}.png").touch()
    reporting.publish(
        folder,
        _summary(
            folder,
            training={"work_dir": str(training), "steps": 2000},
            artifacts={"Evaluator": {"evaluation": [str(evaluation)]}},
        ),
    )
    assert (folder / pictures.PICTURES_FILE).exists()
    assert "recall below the bound" in (folder / "report.html").read_text()
    copied = sorted(path.name for path in (folder / "samples").iterdir())
    assert len(copied) == 8
    assert copied[0] == "step-00000000.png"
    assert copied[-1] == "step-00002000.png"


@pytest.mark.parametrize(
    ("started", "shown"), [("2020-01-01T00:00:00", True), ("2100-01-01T00:00:00", False)]
)
def test_publish_training_that_was_interrupted_shows_how_far_it_came(
    folder, tmp_path, started, shown
):
    for age, key in enumerate(("current", "older")):
        (tmp_path / "training" / key).mkdir(parents=True)
        path = tmp_path / "training" / key / "metrics.jsonl"
        path.write_text("".join(f'{{"step": {s}, "wasserstein": {age + 2}}}\n' for s in (10, 20)))
        os.utime(path, (2e9 - age, 2e9 - age))
    trainer = {"seconds": 1.0, "state": "interrupted", "cached": False, "started": started}
    summary = _summary(folder, status="interrupted", components={"Trainer": trainer})
    reporting.publish(folder, summary)
    expected = "training images: 2 at step 10, 2 at step 20"
    assert (expected in (folder / "report.html").read_text()) == shown


@pytest.fixture
def database(tmp_path):
    """Two runs of Gen -> Train, of which the second takes Gen's examples from the cache."""
    path = tmp_path / "metadata.sqlite"
    config = pb.ConnectionConfig()
    config.sqlite.filename_uri = str(path)
    store = metadata_store.MetadataStore(config)

    def kind(put, proto, name, **properties):
        return put(proto(name=name, properties=properties))

    run_type = kind(store.put_context_type, pb.ContextType, "pipeline_run")
    node_type = kind(store.put_context_type, pb.ContextType, "node")
    done = kind(store.put_execution_type, pb.ExecutionType, "package.Component")
    examples_type = kind(store.put_artifact_type, pb.ArtifactType, "Examples")
    model_type = kind(store.put_artifact_type, pb.ArtifactType, "Model")
    runs = [pb.Context(type_id=run_type, name=name) for name in ("20260101-000000", RUN)]
    nodes = [pb.Context(type_id=node_type, name=f"tfx-wgan.{name}") for name in ("Gen", "Train")]
    examples = pb.Artifact(type_id=examples_type, uri=str(tmp_path / "examples"))
    examples.custom_properties["input_fingerprint"].string_value = "abc"

    def execute(run, node, state, inputs, outputs):
        execution = pb.Execution(type_id=done, last_known_state=state)
        pairs = [(one, pb.Event(type=pb.Event.INPUT)) for one in inputs]
        pairs += [(one, pb.Event(type=pb.Event.OUTPUT)) for one in outputs]
        _, ids, runs_and_nodes = store.put_execution(
            execution, pairs, [run, node], reuse_context_if_already_exist=True
        )
        del runs_and_nodes
        for one, new in zip([*inputs, *outputs], ids, strict=True):
            one.id = new

    execute(runs[0], nodes[0], pb.Execution.COMPLETE, [], [examples])
    execute(runs[1], nodes[0], pb.Execution.CACHED, [], [examples])
    model = pb.Artifact(type_id=model_type, uri=str(tmp_path / "model"))
    execute(runs[1], nodes[1], pb.Execution.COMPLETE, [examples], [model])
    return path


def test_gather_tells_what_was_made_in_this_run_from_what(database, tmp_path):
    assert lineage.gather(database, RUN) == {
        "executions": [
            {"id": 2, "component": "Gen", "state": "cached", "inputs": [], "outputs": [1]},
            {"id": 3, "component": "Train", "state": "complete", "inputs": [1], "outputs": [2]},
        ],
        "artifacts": [
            {
                "id": 1,
                "type": "Examples",
                "uri": str(tmp_path / "examples"),
                "fingerprint": "abc",
                "made_by": None,
            },
            {
                "id": 2,
                "type": "Model",
                "uri": str(tmp_path / "model"),
                "fingerprint": None,
                "made_by": 3,
            },
        ],
    }


def test_gather_of_an_unknown_run_or_database_is_empty(database, tmp_path):
    assert lineage.gather(database, "unknown")["executions"] == []
    assert lineage.gather(tmp_path / "none.sqlite", RUN)["executions"] == []
    assert not (tmp_path / "none.sqlite").exists()


def test_publish_keeps_the_lineage_in_the_runs_folder(folder, database):
    reporting.publish(folder, _summary(folder))
    assert len(json.loads((folder / making.LINEAGE_FILE).read_text())["executions"]) == 2
    assert "2 executions, 2 artifacts" in (folder / "report.html").read_text()
