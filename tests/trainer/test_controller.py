"""Whole runs: what they leave behind, and how they go on."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from trainer import controller, folder, strategy
from trainer.errors import TrainerError, TrainingInterrupted
from trainer.options import TrainingOptions
from trainer.result import RESULT_FILE


def _changed(job, **training):
    return job.model_copy(update={"training": job.training.model_copy(update=training)})


def _folder(job):
    found = json.loads(Path(job.log_dir, RESULT_FILE).read_text())
    return Path(found["work_dir"])


def _metrics(work_dir):
    """Lines of metrics.jsonl without their timings."""
    lines = [json.loads(line) for line in Path(work_dir, "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        assert line.pop("images_per_second") > 0
    return lines


def _weights(work_dir):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(work_dir / "checkpoints")))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name not in ("_CHECKPOINTABLE_OBJECT_GRAPH", "save_counter/.ATTRIBUTES/VARIABLE_VALUE")
    }


def _stop_after(calls):
    asked = iter(range(calls))
    return lambda: next(asked, None) is None


def test_run_resumed_twice_equals_uninterrupted(job, tmp_path):
    controller.run(job)
    whole = _folder(job)
    assert [line["step"] for line in _metrics(whole)] == [2, 4, 6]
    assert set(_metrics(whole)[0]) == {
        "step",
        "critic_loss",
        "generator_loss",
        "wasserstein",
        "gradient_penalty",
        "gradient_norm",
    }
    again = job.model_copy(update={"work_dir": str(tmp_path / "again")})
    for calls, step in ((1, 3), (0, 4)):
        with pytest.raises(TrainingInterrupted, match=rf"saved at step {step} of 6"):
            controller.run(again, interrupted=_stop_after(calls))
    # What a crash may leave: lines of steps that are trained again, one of them cut off.
    path = tmp_path / "again" / whole.name / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 6, "critic_loss": 1.0}\n{"step": 6, "cri')
    controller.run(again)
    assert _folder(again).name == whole.name
    assert _metrics(_folder(again)) == _metrics(whole)
    first, second = _weights(whole), _weights(_folder(again))
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_run_finished_before_only_exports(job, capsys):
    controller.run(job)
    before = {p: p.stat().st_mtime_ns for p in Path(job.work_dir).rglob("*checkpoints*/*")}
    metrics = (_folder(job) / "metrics.jsonl").read_text()
    image = _sample(job)
    moved = job.model_copy(update={"export_dir": job.export_dir + "-2"})
    controller.run(moved)
    assert "step 6" in capsys.readouterr().err
    np.testing.assert_array_equal(_sample(moved), image)
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert (_folder(job) / "metrics.jsonl").read_text() == metrics
    events = list(Path(job.log_dir).glob("events*"))
    assert len(events) == 1


def _sample(job):
    model = tf.saved_model.load(job.export_dir)
    return model.sample(tf.constant(3), tf.constant(1, tf.int64))["image"].numpy()


def test_run_keeps_the_newest_checkpoints(job):
    controller.run(_changed(job, checkpoint_every_steps=1, keep_checkpoints=2))
    files = {p.stem for p in (_folder(job) / "checkpoints").glob("*.index")}
    assert files == {"ckpt-5", "ckpt-6"}


def test_run_labels_not_wanted_trains_unconditionally(job):
    job = job.model_copy(update={"model": job.model.model_copy(update={"conditional": False})})
    controller.run(_changed(job, steps=1))
    sample = tf.saved_model.load(job.export_dir).signatures["sample"]
    assert set(sample.structured_input_signature[1]) == {"count", "seed"}


def test_run_on_two_replicas_says_so_and_writes_the_same_folder(job, capsys):
    controller.run(_changed(job, steps=1))
    one = _folder(job)
    controller.run(
        _changed(job, steps=1, replicas=2).model_copy(update={"work_dir": job.work_dir + "-2"})
    )
    assert _folder(job).name == one.name
    assert "logical CPU devices, 2 replicas (picked by auto)" in capsys.readouterr().err
    for a, b in zip(_metrics(one), _metrics(_folder(job)), strict=True):
        assert a == pytest.approx(b, rel=1e-3)


def test_run_without_data_is_one_line(job):
    with pytest.raises(TrainerError, match="no examples found"):
        controller.run(job.model_copy(update={"train_files": (job.work_dir + "/none*",)}))


def test_key_changes_with_what_decides_the_weights_only(job):
    key = folder.key(job, "data")
    assert folder.key(job, "other data") != key
    other = (
        _changed(job, seed=1),
        _changed(job, steps=7),
        job.model_copy(update={"class_names": ("a", "b")}),
        job.model_copy(update={"model": job.model.model_copy(update={"critic_channels": 5})}),
    )
    assert key not in {folder.key(changed, "data") for changed in other}
    same = (
        _changed(job, replicas=4, strategy="mirrored"),
        _changed(job, checkpoint_every_steps=1, keep_checkpoints=1, steps_per_call=1),
        job.model_copy(update={"export_dir": "elsewhere", "train_files": ("elsewhere",)}),
    )
    assert {folder.key(unchanged, "data") for unchanged in same} == {key}


@pytest.mark.parametrize("start", [0, 7])
def test_calls_end_at_every_event_and_are_never_too_long(start):
    options = TrainingOptions(
        steps=53,
        steps_per_call=10,
        log_every_steps=15,
        sample_every_steps=100,
        checkpoint_every_steps=20,
    )
    calls = list(controller.calls(start, options))
    assert calls[0][0] == start
    assert calls[-1][1] == 53
    assert all(0 < end - first <= 10 for first, end in calls)
    assert all(a[1] == b[0] for a, b in itertools.pairwise(calls))
    ends = {end for _, end in calls}
    assert {15, 20, 30, 40, 45} <= ends
    due = {end for end in ends if controller.is_due(end, 15, options)}
    assert due == {15, 30, 45, 53}


def test_connect_multi_worker_without_a_cluster_is_one_line(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(TrainerError, match=r"training\.strategy: got multi_worker, but TF_CONFIG"):
        strategy.connect(TrainingOptions(strategy="multi_worker"))


@pytest.mark.parametrize("choice", ["tpu", "auto"])
def test_connect_named_tpu_that_is_not_there_is_one_line(choice):
    with pytest.raises(TrainerError, match=r"training\.tpu: got 'no-such-tpu', which cannot"):
        strategy.connect(TrainingOptions(strategy=choice, tpu="no-such-tpu"))


def test_connect_batch_that_the_devices_do_not_divide_is_one_line():
    options = TrainingOptions(global_batch_size=64)
    options = options.model_copy(update={"replicas": 3})  # as 3 devices found by themselves
    with pytest.raises(TrainerError, match="got 64, which 3 replicas do not divide"):
        strategy.connect(options)
