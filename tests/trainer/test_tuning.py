"""The search for training options, with real trials in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pydantic
import pytest

from trainer import trials, tuning
from trainer.errors import TrainerError, TrainingInterrupted
from trainer.options import TrainingOptions
from trainer.tuning import TuningOptions


@pytest.fixture
def fn_args(job, tmp_path):
    """What TFX gives to tuner_fn, for two short trials."""
    given = job.model_dump(include={"model", "training", "image_size", "channels", "work_dir"})
    options = TuningOptions(trials=2, steps=2, critic_steps=(1,))
    return SimpleNamespace(
        train_files=list(job.train_files),
        eval_files=list(job.eval_files),
        transform_graph_path=None,
        base_model=None,
        custom_config={
            "job": json.dumps(given),
            "tuning": options.model_dump_json(),
            "source": "0",
        },
    )


def _set(fn_args, section, **changes):
    given = json.loads(fn_args.custom_config[section])
    for key, value in changes.items():
        given[key] = given[key] | value if isinstance(value, dict) else value
    fn_args.custom_config[section] = json.dumps(given)


def _search(fn_args):
    tuner, fit_kwargs = tuning.tuner_fn(fn_args)
    tuner.search(**fit_kwargs)
    return tuner


def _trials(tuner):
    return [tuner.oracle.trials[name] for name in sorted(tuner.oracle.trials)]


def test_search_trains_the_configured_options_and_a_draw_and_a_failure_does_not_end_it(
    fn_args, job, capfd
):
    # The configured step size cannot be trained with; the second trial draws one that can.
    optimizer = {"generator_learning_rate": 1e30}
    _set(fn_args, "job", training={"optimizer": optimizer, "guard": {"max_rollbacks": 0}})
    tuner = _search(fn_args)
    failed, done = _trials(tuner)
    assert failed.status == "FAILED"
    assert failed.hyperparameters.values == {
        "penalty.weight": 10.0,
        "optimizer.generator_learning_rate": 1e30,
        "optimizer.critic_learning_rate": 2e-4,
        "critic_steps": 2,
    }
    drawn = done.hyperparameters.values
    assert 1.0 <= drawn["penalty.weight"] <= 100.0
    assert 2e-5 <= drawn["optimizer.generator_learning_rate"] <= 2e-3
    assert 2e-5 <= drawn["optimizer.critic_learning_rate"] <= 2e-3
    assert drawn["critic_steps"] == 1
    assert tuner.get_best_hyperparameters()[0].get_config()["values"] == drawn
    left = json.loads(Path(tuner.get_trial_dir("1"), "training.json").read_text())
    assert done.score == left["best_validation_distance"] > 0
    assert left["steps"] == 2
    shown = capfd.readouterr().err
    assert "trial 1 of 2: optimizer.generator_learning_rate 1e+30, " in shown
    assert "trial 1 of 2 failed: " in shown
    assert f"best: trial 2 of 2, validation distance {done.score:.4g}" in shown

    # The same search again has its trials behind it, and a longer one goes on from there.
    _set(fn_args, "tuning", trials=3)
    began = os.stat(left["work_dir"]).st_mtime
    longer = _search(fn_args)
    assert len(_trials(longer)) == 3
    assert [trial.score for trial in _trials(longer)[:2]] == [None, done.score]
    assert os.stat(left["work_dir"]).st_mtime == began


def test_search_told_to_stop_goes_on_with_the_trial_it_was_in(fn_args, tmp_path):
    _set(fn_args, "tuning", steps=10**6, trials=1)
    _set(fn_args, "job", training={"steps_per_call": 2, "validate_every": 10**6})
    stopper = threading.Thread(target=_terminate_when_training, args=(tmp_path,))
    stopper.start()
    with pytest.raises(TrainingInterrupted, match="interrupted"):
        _search(fn_args)
    stopper.join()
    folders = list((tmp_path / "work").glob("*/metrics.jsonl"))
    before = folders[0].stat().st_size
    stopper = threading.Thread(target=_terminate_when_training, args=(tmp_path, before))
    stopper.start()
    with pytest.raises(TrainingInterrupted, match="interrupted"):
        _search(fn_args)
    stopper.join()
    assert list((tmp_path / "work").glob("*/metrics.jsonl")) == folders
    assert len(list((tmp_path / "work" / "tuning").glob("*/trial_*"))) == 1


def _terminate_when_training(tmp_path, size=0):
    """Sends SIGTERM when more metrics have been logged, after two minutes at most."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = list((tmp_path / "work").glob("*/metrics.jsonl"))
        if found and found[0].stat().st_size > size:
            break
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGTERM)


def test_search_in_which_every_trial_fails_is_one_line_and_begins_anew(fn_args, tmp_path):
    _set(fn_args, "tuning", trials=1)
    fn_args.train_files = ["/nothing/here*"]
    with pytest.raises(TrainerError, match=r"^tuning: all 1 trials failed; .*no exam") as error:
        _search(fn_args)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "work" / "tuning").glob("*"))


def test_search_whose_state_is_broken_begins_anew(fn_args, job, capfd):
    search = trials.search(fn_args)
    search.save()
    search.oracle.save()
    Path(search.project_dir, "oracle.json").write_text('{"half')
    capfd.readouterr()
    assert not trials.search(fn_args).oracle.trials
    assert "is begun anew" in capfd.readouterr().err


def test_search_space_leaves_out_what_is_not_searched_or_has_no_effect(job):
    def names(training=None, **ranges):
        options = TuningOptions(trials=1, **ranges)
        training = TrainingOptions.model_validate(training or {})
        return {hp.name for hp in trials._oracle(training, options).get_space().space}

    rates = {"optimizer.generator_learning_rate", "optimizer.critic_learning_rate"}
    assert names() == rates | {"penalty.weight"}
    assert names({"penalty": {"kind": "weight_clipping"}}) == rates
    assert names(penalty_weight=None, critic_learning_rate=None, critic_steps=(1, 2)) == {
        "optimizer.generator_learning_rate",
        "critic_steps",
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_search_draws_are_decided_by_the_seed(tmp_path, seed):
    def draws(place, seed):
        options = TuningOptions(trials=4, seed=seed)
        oracle = trials._oracle(TrainingOptions(), options)
        oracle._set_project_dir(tmp_path / place, "search")
        for _ in range(4):
            trial = oracle.create_trial("tuner0")
            trial.status = "FAILED"
            oracle.end_trial(trial)
        return [trial.hyperparameters.values for trial in oracle.trials.values()]

    first = draws("first", seed)
    assert first == draws("second", seed)
    other = draws("other", seed + 1)
    assert first[0] == other[0]  # as configured
    rates = {value for trial in first[1:] for value in trial.values()}
    assert not rates & {value for trial in other[1:] for value in trial.values()}


def test_search_key_follows_what_decides_the_trials_and_not_their_number(fn_args, tmp_path):
    first = trials.search(fn_args).project_name
    _set(fn_args, "tuning", trials=7)
    assert trials.search(fn_args).project_name == first
    _set(fn_args, "tuning", seed=1)
    second = trials.search(fn_args).project_name
    fn_args.custom_config["source"] = "1"
    assert len({first, second, trials.search(fn_args).project_name}) == 3


@pytest.mark.parametrize("given", [None, '{"trials": -1}', "no json"])
def test_tuner_fn_without_tuning_options_is_one_line(fn_args, given):
    fn_args.custom_config.pop("tuning")
    if given:
        fn_args.custom_config["tuning"] = given
    with pytest.raises(TrainerError, match=r"custom_config\['tuning'\]: not tuning opt") as error:
        tuning.tuner_fn(fn_args)
    assert "\n" not in str(error.value)


def test_tuning_options_trials_without_a_range_are_refused():
    nothing = {"penalty_weight": None, "generator_learning_rate": None}
    with pytest.raises(pydantic.ValidationError, match="nothing to search"):
        TuningOptions(trials=1, critic_learning_rate=None, **nothing)
    assert TuningOptions(critic_learning_rate=None, **nothing).trials == 0
