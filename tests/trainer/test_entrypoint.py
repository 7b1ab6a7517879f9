"""The door from TFX, with a real child process."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainer import entrypoint
from trainer.errors import EXIT_INTERRUPTED, TrainerError, TrainingInterrupted
from trainer.options import TrainingJob

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def fn_args(job, tmp_path):
    """What TFX gives to run_fn."""
    vocabulary = tmp_path / "transform" / "transform_fn" / "assets" / "label"
    vocabulary.parent.mkdir(parents=True)
    vocabulary.write_text("right\nleft\n")
    given = job.model_dump(include={"model", "training", "image_size", "channels", "work_dir"})
    return {
        "train_files": [str(Path(job.train_files[0]).parent / "*")],
        "eval_files": [],
        "transform_graph_path": str(tmp_path / "transform"),
        "serving_model_dir": job.export_dir,
        "model_run_dir": job.log_dir,
        "base_model": None,
        "hyperparameters": None,
        "custom_config": {"job": json.dumps(given), "source": "0"},
    }


def _make(fn_args):
    given = SimpleNamespace(**fn_args) if isinstance(fn_args, dict) else fn_args
    return entrypoint.make_job(given, given.serving_model_dir, given.model_run_dir)


def _with_job(fn_args, **changes):
    given = json.loads(fn_args["custom_config"]["job"])
    for key, value in changes.items():
        given[key] = given[key] | value if isinstance(value, dict) else value
    return SimpleNamespace(**fn_args | {"custom_config": {"job": json.dumps(given)}})


def test_make_job_takes_class_names_from_the_vocabulary_in_order_of_id(fn_args, job):
    made = _make(fn_args)
    assert made.class_names == ("left", "right")
    assert made.training == job.training
    assert made.export_dir == job.export_dir
    unlabelled = _make(fn_args | {"transform_graph_path": "/none"})
    assert unlabelled.class_names == ()


def test_make_job_conditional_without_labels_is_one_line(fn_args):
    fn_args["transform_graph_path"] = None
    with pytest.raises(TrainerError, match=r"model\.conditional: got true, but the data has no"):
        _make(_with_job(fn_args, model={"conditional": True}))


@pytest.mark.parametrize("changes", [{"training": {"stepps": 1}}, {"image_size": "big"}])
def test_make_job_unknown_or_wrong_key_is_one_line(fn_args, changes):
    with pytest.raises(TrainerError, match=r"not a training job: .*(stepps|image_size)") as error:
        _make(_with_job(fn_args, **changes))
    assert "\n" not in str(error.value)


def test_make_job_begins_with_the_served_model_where_there_is_one(fn_args, tmp_path, capsys):
    fn_args["base_model"] = str(tmp_path / "Format-Serving")
    assert _make(fn_args).warm_start_dir is None
    assert "training.warm_start: no model is served yet" in capsys.readouterr().err
    Path(fn_args["base_model"]).mkdir()
    Path(fn_args["base_model"], "saved_model.pb").touch()
    assert _make(fn_args).warm_start_dir == fn_args["base_model"]


def test_make_job_keeps_the_configured_weights_to_begin_with(fn_args):
    job = json.loads(fn_args["custom_config"]["job"]) | {"warm_start_dir": "/some/export"}
    fn_args["custom_config"] = {"job": json.dumps(job)}
    assert _make(fn_args).warm_start_dir == "/some/export"


def test_with_tuned_replaces_training_options_and_nothing_else(job):
    tuned = entrypoint.with_tuned(job, {"penalty.weight": 3, "critic_steps": 1})
    assert tuned.training.penalty.weight == 3.0
    assert tuned.training.critic_steps == 1
    penalty = tuned.training.penalty.model_copy(update={"weight": job.training.penalty.weight})
    back = {"penalty": penalty, "critic_steps": job.training.critic_steps}
    assert tuned.training.model_copy(update=back) == job.training
    assert tuned.model_copy(update={"training": job.training}) == job


@pytest.mark.parametrize("values", [{"penalty.wait": 3}, {"critic_steps": 0}])
def test_with_tuned_unknown_or_wrong_option_is_one_line(job, values):
    with pytest.raises(TrainerError, match=r"^hyperparameters: training\.") as error:
        entrypoint.with_tuned(job, values)
    assert "\n" not in str(error.value)


def test_job_crosses_the_process_boundary_unchanged(job):
    assert TrainingJob.model_validate_json(job.model_dump_json()) == job


def test_run_fn_trains_in_a_child_and_shows_progress_on_the_console(fn_args, monkeypatch):
    reader, writer = os.pipe()
    monkeypatch.setenv("TFX_WGAN_CONSOLE_FD", str(writer))
    entrypoint.run_fn(SimpleNamespace(**fn_args))
    os.close(writer)
    with os.fdopen(reader) as console:
        shown = console.read()
    assert "training on one device, CPU:0, 1 replica (picked by auto): from the start" in shown
    assert "step 6/6" in shown
    assert Path(fn_args["serving_model_dir"], "saved_model.pb").is_file()
    result = json.loads(Path(fn_args["model_run_dir"], "training.json").read_text())
    assert result["steps"] == 6
    assert Path(result["work_dir"], "metrics.jsonl").is_file()


def test_run_fn_child_fails_with_its_own_line(fn_args):
    fn_args["train_files"] = ["/nothing/here*"]
    with pytest.raises(TrainerError, match=r"^training data /nothing/here\*: no examples found$"):
        entrypoint.run_fn(SimpleNamespace(**fn_args))
    assert not Path(fn_args["serving_model_dir"]).exists()


def test_run_fn_told_to_stop_saves_and_the_next_run_goes_on(fn_args, tmp_path):
    """First by a signal that run_fn passes on; then by the death of the trainer's parent."""
    endless = _with_job(fn_args, training={"steps": 10**6, "steps_per_call": 2})
    threading.Thread(target=_terminate_at, args=(os.getpid(), tmp_path, 4)).start()
    with pytest.raises(TrainingInterrupted, match=r"interrupted at step \d+ of \d+ and saved"):
        entrypoint.run_fn(endless)
    step = _saved_step(tmp_path)
    path = tmp_path / "job.json"
    path.write_text(_make(endless).model_dump_json())
    child = subprocess.Popen(
        [sys.executable, "-m", "trainer.process", str(path), "--while-stdin-open"],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_for(tmp_path, step + 4)
    _, shown = child.communicate(timeout=120)  # closes its standard input
    assert child.returncode == EXIT_INTERRUPTED
    assert f"going on from step {step}" in shown
    assert _saved_step(tmp_path) > step
    steps = [line["step"] for line in _lines(tmp_path)]
    assert steps == list(range(2, steps[-1] + 1, 2))


def _terminate_at(process, tmp_path, step):
    """Sends SIGTERM when the step has been logged."""
    _wait_for(tmp_path, step)
    os.kill(process, signal.SIGTERM)


def _wait_for(tmp_path, step):
    """Waits until the step has been logged, two minutes at most."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        lines = _lines(tmp_path)
        if lines and lines[-1]["step"] >= step:
            break
        time.sleep(0.1)


def _lines(tmp_path):
    found = list((tmp_path / "work").glob("*/metrics.jsonl"))
    whole = found[0].read_text().split("\n")[:-1] if found else []
    return [json.loads(line) for line in whole]


def _saved_step(tmp_path):
    names = [path.name for path in (tmp_path / "work").glob("*/checkpoints/step-????????")]
    return max(int(name.removeprefix("step-")) for name in names)
