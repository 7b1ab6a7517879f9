"""Whole runs: what they leave behind, and how they go on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from trainer import controller, folder, strategy
from trainer.controller import Training
from trainer.errors import TrainerError, TrainingInterrupted
from trainer.options import (
    ExtractorOptions,
    GuardOptions,
    OptimizerOptions,
    PenaltyOptions,
    TrainingJob,
    TrainingOptions,
)
from trainer.result import RESULT_FILE


def _changed(job, **training):
    return job.model_copy(update={"training": job.training.model_copy(update=training)})


def _result(job):
    return json.loads(Path(job.log_dir, RESULT_FILE).read_text())


def _folder(job):
    return Path(_result(job)["work_dir"])


def _metrics(work_dir):
    """Lines of metrics.jsonl without their timings."""
    lines = [json.loads(line) for line in Path(work_dir, "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        assert line.pop("images_per_second") > 0
    return lines


def _weights(work_dir):
    newest = max((work_dir / "checkpoints").glob("step-*"))
    reader = tf.train.load_checkpoint(str(newest / "variables"))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def _exported(job):
    """Kernels of the convolutions in the SavedModel, by shape."""
    reader = tf.train.load_checkpoint(str(Path(job.export_dir, "variables", "variables")))
    kernels = {n: s for n, s in reader.get_variable_to_shape_map().items() if len(s) == 4}
    return {tuple(shape): reader.get_tensor(name) for name, shape in kernels.items()}


def _saved(work_dir):
    return [int(p.name.removeprefix("step-")) for p in sorted((work_dir / "checkpoints").glob("*"))]


def _assert_same_weights(first, second):
    first, second = _weights(first), _weights(second)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def _stop_after(calls):
    asked = iter(range(calls))
    return lambda: next(asked, None) is None


def test_run_resumed_twice_equals_uninterrupted(job, tmp_path):
    controller.run(job)
    whole = _folder(job)
    lines = _metrics(whole)
    assert [line["step"] for line in lines] == [2, 3, 4, 6]
    every = {
        "step",
        "critic_loss",
        "generator_loss",
        "wasserstein",
        "gradient_penalty",
        "gradient_norm",
    }
    validated = every | {"validation_distance", "validation_wasserstein", "sample_deviation"}
    assert [set(line) for line in lines] == [every, validated, every, validated]
    again = job.model_copy(update={"work_dir": str(tmp_path / "again")})
    for calls, step in ((1, 3), (0, 4)):
        with pytest.raises(TrainingInterrupted, match=rf"saved at step {step}: run the same"):
            controller.run(again, interrupted=_stop_after(calls))
    # What a crash may leave: lines of steps that are trained again, one of them cut off.
    path = tmp_path / "again" / whole.name / "metrics.jsonl"
    path.write_text(path.read_text() + '{"step": 6, "critic_loss": 1.0}\n{"step": 6, "cri')
    controller.run(again)
    assert _folder(again).name == whole.name
    assert _metrics(_folder(again)) == lines
    _assert_same_weights(whole, _folder(again))


def test_run_newest_checkpoint_broken_goes_on_from_the_one_before(job, tmp_path, capsys):
    controller.run(job)
    again = job.model_copy(update={"work_dir": str(tmp_path / "again")})
    with pytest.raises(TrainingInterrupted):
        controller.run(again, interrupted=_stop_after(2))
    work_dir = tmp_path / "again" / _folder(job).name
    data = work_dir / "checkpoints" / "step-00000004" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-100])
    capsys.readouterr()
    controller.run(again)
    shown = capsys.readouterr().err
    assert "checkpoint of step 4 is passed over" in shown
    assert "going on from step 3" in shown
    assert _metrics(_folder(again)) == _metrics(_folder(job))
    _assert_same_weights(_folder(job), _folder(again))


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


def _wild(job):
    """With so large a step size that the last validation is not the best one."""
    return _changed(
        job,
        steps=9,
        seed=1,
        optimizer=OptimizerOptions(generator_learning_rate=0.3),
        checkpoint_every_steps=1,
        keep_checkpoints=2,
        guard=GuardOptions(max_distance_factor=1e6, min_sample_deviation=0.0),
    )


def test_run_keeps_the_newest_checkpoints_and_the_best_and_exports_it(job, capsys):
    job = _wild(job)
    controller.run(job)
    work_dir = _folder(job)
    distances = {
        line["step"]: line["validation_distance"]
        for line in _metrics(work_dir)
        if "validation_distance" in line
    }
    assert list(distances) == [3, 6, 9]
    best = min(distances, key=distances.get)
    assert best < 9, "the case needs a best step that is not the last"
    assert _saved(work_dir) == sorted({best, 8, 9})
    result = _result(job)
    assert (result["steps"], result["exported_step"]) == (9, best)
    assert result["best_validation_distance"] == distances[best]
    assert f"exported step {best} of 9, the best by validation distance" in capsys.readouterr().err
    reader = tf.train.load_checkpoint(
        str(work_dir / "checkpoints" / f"step-{best:08d}" / "variables")
    )
    exported = _exported(job)
    kernel = reader.get_tensor("ema_generator/up_1/kernel")
    np.testing.assert_array_equal(exported[kernel.shape], kernel)


def test_run_labels_not_wanted_trains_unconditionally(job):
    job = job.model_copy(update={"model": job.model.model_copy(update={"conditional": False})})
    controller.run(_changed(job, steps=1))
    sample = tf.saved_model.load(job.export_dir).signatures["sample"]
    assert set(sample.structured_input_signature[1]) == {"count", "seed"}


def test_run_on_two_replicas_says_so_and_writes_the_same_folder(job, capsys):
    # So large an epsilon that Adam does not make much of the last bits of a sum.
    job = _changed(job, steps=1, optimizer=OptimizerOptions(epsilon=1e-3))
    controller.run(job)
    one, weights = _folder(job), _weights(_folder(job))
    controller.run(
        _changed(job, replicas=2, accumulation_steps=2).model_copy(
            update={"work_dir": job.work_dir + "-2"}
        )
    )
    assert _folder(job).name == one.name
    assert "logical CPU devices, 2 replicas (picked by auto)" in capsys.readouterr().err
    for a, b in zip(_metrics(one), _metrics(_folder(job)), strict=True):
        assert a == pytest.approx(b, rel=1e-3)
    other = _weights(_folder(job))
    assert weights.keys() == other.keys()
    for name, value in weights.items():
        np.testing.assert_allclose(value, other[name], rtol=1e-5, atol=1e-5, err_msg=name)


def _training(job, damage):
    """A training that is damaged once, at step 5; and the steps at which it has been asked."""
    seen = []

    def interrupted():
        seen.append(training.step)
        if seen.count(5) == 1 and training.step == 5:
            training._checkpoints.wait()  # what is still being written cannot be damaged
            damage(training.state.variables())
        return False

    training = Training(job, strategy.connect(job.training), interrupted)
    return training, seen


def _nan(variables):
    kernel = variables["critic/score/kernel"]
    kernel.assign(kernel * np.nan)


def _white(variables):
    for network in ("generator", "ema_generator"):
        kernel, bias = (variables[f"{network}/to_image/{name}"] for name in ("kernel", "bias"))
        kernel.assign(tf.zeros_like(kernel))
        bias.assign(tf.fill(bias.shape, 10.0))


@pytest.mark.parametrize(
    ("damage", "guard", "words", "to_step"),
    [
        (_nan, {}, "critic_loss is not a finite number", 4),
        (_white, {}, "sample_deviation is 0", 3),
        (_white, {"min_sample_deviation": 0.0}, "validation_distance is", 3),
    ],
)
def test_run_fault_goes_back_to_a_good_checkpoint_with_other_data(
    job, capsys, damage, guard, words, to_step
):
    job = _changed(job, log_every_steps=1, guard=GuardOptions(max_distance_factor=1.5, **guard))
    controller.run(job)
    plain = _metrics(_folder(job))
    hurt = job.model_copy(update={"work_dir": job.work_dir + "-hurt"})
    training, seen = _training(hurt, damage)
    capsys.readouterr()
    training.run()
    shown = capsys.readouterr().err
    assert f"step 6: {words}" in shown
    assert f"going back to step {to_step}, with the data in another order (1 of at most 3" in shown
    assert _result(hurt)["rollbacks"] == 1
    found = _metrics(_folder(hurt))
    assert [line["step"] for line in found] == [1, 2, 3, 4, 5, 6]
    assert found[:to_step] == plain[:to_step]
    assert found[to_step] != plain[to_step]  # the same images in the same order: the same numbers
    assert np.isfinite([value for line in found for value in line.values()]).all()
    assert seen == [1, 2, 3, 4, 5, *range(to_step + 1, 6)]


def test_run_interrupted_after_a_rollback_equals_uninterrupted(job, tmp_path):
    job = _changed(job, log_every_steps=1, steps=9)
    training, _ = _training(job, _nan)
    training.run()
    again = job.model_copy(update={"work_dir": str(tmp_path / "again")})
    training, seen = _training(again, _nan)
    ask = training._interrupted
    training._interrupted = lambda: ask() or 7 in seen
    with pytest.raises(TrainingInterrupted, match="saved at step 7"):
        training.run()
    controller.run(again)
    assert _result(again)["rollbacks"] == 1
    assert _metrics(_folder(again)) == _metrics(_folder(job))
    _assert_same_weights(_folder(job), _folder(again))


@pytest.mark.parametrize(
    ("training", "words"),
    [
        (
            {"optimizer": OptimizerOptions(critic_learning_rate=1e38)},
            r"critic_loss is not a finite number, not yet so at step \d",
        ),
        (
            {"guard": GuardOptions(max_gradient_norm=1e-3, max_rollbacks=2)},
            r"gradient_norm is \d.*, above .*max_gradient_norm=0\.001, not yet so at step 0",
        ),
        (
            {"guard": GuardOptions(max_gradient_penalty=1e-3, max_rollbacks=0)},
            r"after 0 returns .*max_gradient_penalty=0\.001, not yet so at step 0",
        ),
    ],
)
def test_run_fault_that_comes_back_ends_with_a_diagnosis(job, capsys, training, words):
    job = _changed(job, **training)
    allowed = job.training.guard.max_rollbacks
    with pytest.raises(TrainerError, match=words) as error:
        controller.run(job)
    line = str(error.value)
    assert "\n" not in line
    assert f"after {allowed} returns to a checkpoint" in line
    assert "; try a smaller training.optimizer.critic_learning_rate" in line
    assert line.count("before it, at step") == allowed
    assert capsys.readouterr().err.count("going back to step") == allowed
    assert not Path(job.export_dir).exists()
    saved = list(Path(job.work_dir).glob("*/checkpoints/step-*"))
    assert saved  # the last good one stays


def test_run_fault_with_a_broken_newest_checkpoint_goes_back_further(job, capsys, tmp_path):
    def damage(variables):
        _nan(variables)
        newest = next((tmp_path / "work").glob("*/checkpoints/step-00000004/variables.data*"))
        newest.write_bytes(newest.read_bytes()[:-100])

    training, _ = _training(_changed(job, log_every_steps=1), damage)
    training.run()
    shown = capsys.readouterr().err
    assert "checkpoint of step 4 is passed over" in shown
    assert "going back to step 3" in shown
    assert _result(job)["rollbacks"] == 1


def test_run_fault_without_any_checkpoint_is_one_line(job, tmp_path):
    def damage(variables):
        _nan(variables)
        for path in (tmp_path / "work").glob("*/checkpoints/step-*"):
            shutil.rmtree(path)

    training, _ = _training(_changed(job, log_every_steps=1), damage)
    with pytest.raises(TrainerError, match=r"step 6: critic_loss is not.*no whole checkpoint"):
        training.run()


def test_run_that_cannot_save_at_all_ends_before_it_trains(job, capsys, tmp_path):
    controller.run(job)
    again = job.model_copy(update={"work_dir": str(tmp_path / "again")})
    (tmp_path / "again" / _folder(job).name).mkdir(parents=True)
    (tmp_path / "again" / _folder(job).name / "checkpoints").write_text("in the way")
    with pytest.raises(TrainerError, match="training cannot begin: nothing can be saved in"):
        controller.run(again)
    assert "could not be saved" in capsys.readouterr().err


def test_run_best_checkpoint_broken_exports_the_last(job, capsys):
    job = _wild(job)
    controller.run(job)
    best = _result(job)["exported_step"]
    assert best < 9
    index = _folder(job) / "checkpoints" / f"step-{best:08d}" / "variables.index"
    index.write_bytes(b"")
    controller.run(job)
    assert f"checkpoint of step {best} is passed over" in capsys.readouterr().err
    assert _result(job)["exported_step"] == 9


def test_run_model_that_cannot_be_written_is_one_line_and_costs_nothing(job, tmp_path):
    (tmp_path / "file").write_text("in the way")
    wrong = job.model_copy(update={"export_dir": str(tmp_path / "file" / "model")})
    with pytest.raises(TrainerError, match=r"cannot be written \(.*\): training is done and saved"):
        controller.run(wrong)
    controller.run(job)
    assert _result(job)["steps"] == 6


def test_run_extractor_that_is_gone_is_one_line(job, tmp_path):
    gone = ExtractorOptions(name=str(tmp_path / "gone"))
    with pytest.raises(TrainerError, match="gone") as caught:
        controller.run(job.model_copy(update={"extractor": gone}))
    assert "\n" not in str(caught.value)


def test_run_without_held_out_images_says_so_and_exports_the_last(job, capsys):
    controller.run(job.model_copy(update={"eval_files": ()}))
    assert "no held-out images, or all alike: nothing is validated" in capsys.readouterr().err
    assert _result(job)["best_validation_distance"] is None
    assert _result(job)["exported_step"] == 6
    assert not any("validation_distance" in line for line in _metrics(_folder(job)))


def test_run_stalled_validation_ends_early_and_stays_ended(job, capsys):
    still = OptimizerOptions(generator_learning_rate=1e-30, critic_learning_rate=1e-30)
    job = _changed(job, steps=30, optimizer=still, early_stop_validations=2)
    controller.run(job)
    assert (_result(job)["steps"], _result(job)["exported_step"]) == (9, 3)
    assert "training ends at step 9" in capsys.readouterr().err
    before = _metrics(_folder(job))
    controller.run(job)
    assert _result(job)["steps"] == 9
    assert _metrics(_folder(job)) == before


def test_run_metrics_cannot_be_written_stops_with_whole_checkpoints(job, tmp_path):
    """A full disk, as far as this one file goes."""

    def damage(variables):
        path = next((tmp_path / "work").glob("*/metrics.jsonl"))
        path.unlink()
        path.symlink_to("/dev/full")

    job = _changed(job, log_every_steps=1)
    training, _ = _training(job, damage)
    with pytest.raises(TrainerError, match=r"cannot be written \(No space left on device\)"):
        training.run()
    next((tmp_path / "work").glob("*/metrics.jsonl")).unlink()
    controller.run(job)
    assert _result(job)["steps"] == 6


def test_run_begins_with_the_weights_of_an_earlier_export(job, capsys):
    controller.run(job)
    other = {"export_dir": job.export_dir + "-2", "log_dir": job.log_dir + "-2"}
    warm = job.model_copy(update={"warm_start_dir": job.export_dir, **other})
    warm = _changed(warm, steps=1)
    controller.run(warm)
    assert f"with the weights of {job.export_dir}" in capsys.readouterr().err
    assert _folder(warm) != _folder(job)
    first = tf.train.load_checkpoint(
        str(_folder(warm) / "checkpoints" / "step-00000000" / "variables")
    )
    exported = _exported(job)
    for name in ("generator/up_1/kernel", "ema_generator/up_1/kernel", "critic/down_1/kernel"):
        value = first.get_tensor(name)
        np.testing.assert_array_equal(exported[value.shape], value)


def test_run_without_data_is_one_line(job):
    with pytest.raises(TrainerError, match="no examples found"):
        controller.run(job.model_copy(update={"train_files": (job.work_dir + "/none*",)}))


def test_key_changes_with_what_decides_the_weights_only(job):
    key = folder.key(job, train="data", heldout="more")
    assert folder.key(job, train="other data", heldout="more") != key
    assert folder.key(job, train="data") != key
    assert folder.key(job, train="data", heldout="more", warm_start="served") != key
    training = {
        "steps": 7,
        "global_batch_size": 16,
        "critic_steps": 3,
        "precision": "float64",
        "penalty": PenaltyOptions(weight=1.0),
        "optimizer": OptimizerOptions(epsilon=1e-3),
        "l2_weight": 0.1,
        "ema_decay": 0.5,
        "horizontal_flip": True,
        "seed": 1,
        "validate_every": 2,
        "validation_images": 4,
        "early_stop_validations": 2,
        "guard": GuardOptions(max_rollbacks=1),
    }
    others = {
        "model": job.model.model_copy(update={"critic_channels": 5}),
        "extractor": ExtractorOptions(name="inception"),
        "image_size": 32,
        "channels": 3,
        "class_names": ("a", "b"),
    }
    other = [_changed(job, **{name: value}) for name, value in training.items()]
    other += [job.model_copy(update={name: value}) for name, value in others.items()]
    for changed in other:
        assert folder.key(changed, train="data", heldout="more") != key, changed
    same = {
        "accumulation_steps": 2,
        "warm_start": "served",
        "strategy": "mirrored",
        "replicas": 4,
        "tpu": "elsewhere",
        "steps_per_call": 1,
        "input_memory_bytes": 1,
        "log_every_steps": 1,
        "sample_every_steps": 1,
        "checkpoint_every_steps": 1,
        "keep_checkpoints": 1,
    }
    places = dict.fromkeys(("warm_start_dir", "work_dir", "export_dir", "log_dir"), "elsewhere")
    places |= {"train_files": ("elsewhere",), "eval_files": ("elsewhere",)}
    unchanged = [_changed(job, **{name: value}) for name, value in same.items()]
    unchanged += [job.model_copy(update={name: value}) for name, value in places.items()]
    for one in unchanged:
        assert one != job
        assert folder.key(one, train="data", heldout="more") == key, one
    # Every option is one or the other.
    assert training.keys() | same.keys() == set(TrainingOptions.model_fields)
    assert others.keys() | places.keys() | {"training"} == set(TrainingJob.model_fields)


def test_run_label_without_a_name_is_one_line(job):
    with pytest.raises(TrainerError, match=r"got label 1, but there are 1 class names"):
        controller.run(job.model_copy(update={"class_names": ("left",)}))
