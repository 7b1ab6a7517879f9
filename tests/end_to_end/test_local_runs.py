"""The life of one pipeline root: first run, nothing changed, a worse model, an interruption."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.end_to_end

UNTIL_TRAINER = (
    "ImageExampleGen",
    "StatisticsGen",
    "PinnedSchemaGen",
    "ExampleValidator",
    "DataGate",
    "Transform",
)


def _versions(root):
    return sorted(path.name for path in (root / "serving").iterdir())


def _contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("served") / "root"


@pytest.fixture(scope="module")
def first(root, run_pipeline):
    """A model trained for some steps and served: where the other tests begin."""
    outcome = run_pipeline("digits", root, "training.steps=300")
    assert outcome.code == 0, outcome.screen
    return outcome


def test_first_run_serves_a_model_and_says_so(first, root):
    summary = first.summary
    assert summary["status"] == "served"
    assert summary["blessed"] is True
    assert Path(summary["pushed_model"]).parent == root / "serving"
    assert set(first.states().values()) == {"done"}
    assert summary["examples"]["train"] + summary["examples"]["eval"] == 1797
    assert summary["quarantined"] == 0
    assert set(summary["metrics"]["per_class"]) == set("0123456789")
    assert summary["baseline_metrics"] is None


def test_first_run_leaves_what_the_documentation_promises(first, root):
    folder = root / "runs" / first.summary["run_id"]
    kept = {path.name for path in folder.iterdir()}
    assert kept >= {
        "report.html",
        "samples.png",
        "summary.json",
        "metrics.jsonl",
        "quarantine.jsonl",
        "config.yaml",
        "log.txt",
    }
    assert not (folder / "tmp").exists()
    assert json.loads((folder / "summary.json").read_text()) == first.summary
    steps = [json.loads(line)["step"] for line in (folder / "metrics.jsonl").open()]
    assert steps == [50, 100, 150, 200, 250, 300]
    assert (root / "schema" / "schema.pbtxt").exists()


def test_first_run_screen_has_a_line_per_component_and_no_noise(first):
    lines = first.screen.splitlines()
    for node_id in first.summary["components"]:
        assert sum(line.split()[:1] == [node_id] for line in lines) == 1, node_id
    noise = ("Warning", "INFO:", "cuda", "oneDNN", "deprecated")
    assert not [line for line in lines if any(word in line for word in noise)]


def test_pushed_model_answers_without_this_package(first, tmp_path):
    code = """
import sys, tensorflow as tf
assert not any(name.split(".")[0] in ("trainer", "components", "pipeline") for name in sys.modules)
model = tf.saved_model.load(sys.argv[1])
sample = model.signatures["sample"]
any_class = tf.constant(-1, tf.int64)
drawn = sample(count=tf.constant(5), seed=tf.constant(1, tf.int64), label=any_class)
print(drawn["image"].shape, drawn["image"].dtype.name, len(drawn["png_bytes"]))
"""
    drawn = subprocess.run(
        [sys.executable, "-I", "-c", code, first.summary["pushed_model"]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert drawn.stdout.split("\n")[0] == "(5, 16, 16, 1) uint8 5", drawn.stderr


def test_same_run_again_reuses_everything_and_pushes_nothing(first, root, run_pipeline):
    before = _versions(root)
    again = run_pipeline("digits", root, "training.steps=300")
    assert again.code == 0
    states = again.states()
    assert {states[name] for name in (*UNTIL_TRAINER, "Trainer")} == {"cached"}
    assert _versions(root) == before
    assert again.summary["pushed_model"] == first.summary["pushed_model"]
    # By now what is served has not changed since the last evaluation: nothing at all is left.
    third = run_pipeline("digits", root, "training.steps=300")
    assert third.code == 0
    assert set(third.states().values()) == {"cached"}
    assert _versions(root) == before


def test_worse_model_is_refused_and_the_served_one_untouched(first, root, run_pipeline):
    before = _contents(root / "serving")
    worse = run_pipeline("digits", root, "training.steps=1")
    assert worse.code == 3
    states = worse.states()
    assert {states[name] for name in UNTIL_TRAINER} == {"cached"}
    assert states["Trainer"] == "done"
    assert worse.summary["blessed"] is False
    assert worse.summary["pushed_model"] is None
    assert worse.summary["baseline_metrics"]["frechet_distance"] == pytest.approx(
        first.summary["metrics"]["frechet_distance"]
    )
    assert _contents(root / "serving") == before
    again = run_pipeline("digits", root, "training.steps=1")
    assert again.code == 3, "a refusal from the cache is a refusal"
    assert {name for name, state in again.states().items() if state != "cached"} <= {"Pusher"}


def test_terminated_run_exits_75_and_the_same_command_goes_on(first, root, start_pipeline):
    overrides = ("training.steps=20000", "training.seed=5", "training.checkpoint_every_steps=5000")
    process = start_pipeline("digits", root, *overrides)
    deadline = time.monotonic() + 180
    for line in process.stderr:
        if line.startswith("training on"):
            break
        assert time.monotonic() < deadline
    folder = max((root / "training").iterdir(), key=os.path.getmtime)
    while not list(folder.glob("metrics.jsonl")) or not (folder / "metrics.jsonl").stat().st_size:
        time.sleep(0.2)
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 75
    summary = json.loads(output.splitlines()[-1])
    assert summary["status"] == "interrupted"
    assert (root / "runs" / summary["run_id"] / "report.html").exists()

    process = start_pipeline("digits", root, *overrides)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("training on"):
            break
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert "going on from step" in lines[-1]
    assert sum("cached" in line for line in lines) >= len(UNTIL_TRAINER)


def test_run_interrupted_inside_beam_ends_at_once(tmp_path, start_pipeline):
    process = start_pipeline("digits", tmp_path / "root")
    for line in process.stderr:
        if "ImageExampleGen" in line:
            break
    time.sleep(1)  # by now StatisticsGen is at work
    process.send_signal(signal.SIGINT)
    output, screen = process.communicate(timeout=30)  # Beam's threads do not end by themselves
    assert process.returncode == 75, screen
    assert json.loads(output.splitlines()[-1])["status"] == "interrupted"


def test_tfx_command_line_creates_and_runs_the_pipeline(first, root, tmp_path, environment):
    checkout = environment["PYTHONPATH"]
    config = tmp_path / "mine.yaml"
    made = root / "runs" / first.summary["run_id"] / "config.yaml"
    config.write_text(made.read_text())
    env = {**environment, "TFX_WGAN_CONFIG": str(config), "HOME": str(tmp_path)}
    tfx = [str(Path(sys.executable).with_name("tfx"))]
    for arguments in (
        ["pipeline", "create", "--engine", "local", "--pipeline_path", "local_runner.py"],
        ["run", "create", "--engine", "local", "--pipeline_name", "tfx-wgan"],
    ):
        done = subprocess.run(
            [*tfx, *arguments], cwd=checkout, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert _versions(root)
