"""Short trainings with drawn options, each in a process of its own, under KerasTuner.

KerasTuner keeps the search's state in a stable folder, and every trial is a training with a stable
folder: an interrupted search goes on with the trial, and at the step, that it was stopped at.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from typing import Any

import keras_tuner
import pydantic
import tensorflow as tf
from keras_tuner.engine.base_tuner import BaseTuner
from keras_tuner.engine.trial import Trial, TrialStatus

from trainer import entrypoint, result
from trainer.errors import TrainerError, TrainingInterrupted
from trainer.options import TrainingJob, TrainingOptions
from trainer.progress import console
from trainer.tuning import TuningOptions

#: What trials are compared by: the smallest wins.
OBJECTIVE = "validation_distance"
#: KerasTuner counts its seed up with every draw, and takes 0 for none.
_SEED_STRIDE = 1_000_003


class _SearchInterrupted(keras_tuner.errors.FatalError, TrainingInterrupted):
    """Ends the search, not only the trial, and the pipeline's run as one that may go on."""


class Search(BaseTuner):
    """Random search over training options, to the smallest validation distance.

    The first trial has the configured options: the search finds none that do worse.

    Args:
      job: what is to be trained in the end; its `log_dir` and `export_dir` are not used.
      options: what to search.
      source: changes when trials would come out otherwise.
    """

    def __init__(self, job: TrainingJob, options: TuningOptions, source: str):
        self._job = job
        self._options = options
        self._last_failure = "in an earlier run"
        place: dict[str, Any] = {
            "directory": os.path.join(job.work_dir, "tuning"),
            "project_name": _key(job, options, source),
        }
        oracle = _oracle(job.training, options)
        try:
            super().__init__(oracle, **place)
        except (ValueError, LookupError, RuntimeError) as error:
            _report(f"the search in {place['directory']} is begun anew: {error}")
            super().__init__(_oracle(job.training, options), overwrite=True, **place)

    def on_trial_begin(self, trial: Trial) -> None:
        """Says what is tried."""
        super().on_trial_begin(trial)
        values = trial.hyperparameters.values
        words = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        _report(f"trial {self._place(trial)}: {words}")

    def run_trial(self, trial: Trial, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Trains once, for a few steps.

        Args:
          trial: whose options to train with.
          *args: none.
          **kwargs: none.

        Returns:
          The smallest validation distance.

        Raises:
          TrainingInterrupted: told to stop; the trial goes on when the search does.
          keras_tuner.errors.FailedTrialError: the training failed; the search goes on.
        """
        steps = self._options.steps
        every = min(self._job.training.validate_every, steps)
        values = {**trial.hyperparameters.values, "steps": steps, "validate_every": every}
        job = entrypoint.with_tuned(self._job, values)
        with tempfile.TemporaryDirectory(prefix="tfx-wgan-") as scratch:
            job = job.model_copy(
                update={
                    "log_dir": self.get_trial_dir(trial.trial_id),
                    "export_dir": os.path.join(scratch, "model"),
                }
            )
            try:
                entrypoint.run_job(job)
            except TrainingInterrupted as error:
                raise _SearchInterrupted(str(error)) from error
            except TrainerError as error:
                raise self._failed(trial, str(error)) from error
        distance = result.read(job).get("best_validation_distance")
        if distance is None:
            raise self._failed(trial, "it measured no validation distance")
        _report(f"trial {self._place(trial)}: validation distance {distance:.4g}")
        return {OBJECTIVE: distance}

    def on_search_end(self) -> None:
        """Says what was found.

        Raises:
          TrainerError: every trial has failed; the next search begins anew.
        """
        super().on_search_end()
        best = self.oracle.get_best_trials(1)[0]
        if best.status != TrialStatus.COMPLETED:
            tf.io.gfile.rmtree(self.project_dir)
            raise TrainerError(
                f"tuning: all {len(self.oracle.trials)} trials failed; the last one: "
                f"{self._last_failure}"
            )
        _report(f"best: trial {self._place(best)}, validation distance {best.score:.4g}")

    def _failed(self, trial: Trial, why: str) -> Exception:
        self._last_failure = why
        _report(f"trial {self._place(trial)} failed: {why}")
        return keras_tuner.errors.FailedTrialError(why)

    def _place(self, trial: Trial) -> str:
        return f"{int(trial.trial_id) + 1} of {self._options.trials}"


class _Oracle(keras_tuner.oracles.RandomSearchOracle):
    """Draws at random, after the configured values."""

    def __init__(self, configured: dict[str, float], **arguments: Any):
        super().__init__(**arguments)
        self._configured = configured

    def populate_space(self, trial_id: str) -> dict[str, Any]:
        """Values of the next trial; see the base class."""
        if not self.trials:
            return {"status": TrialStatus.RUNNING, "values": self._configured}
        return super().populate_space(trial_id)


def search(fn_args: Any) -> Search:
    """The search that TFX's Tuner is to run.

    Args:
      fn_args: see `tuning.tuner_fn`.

    Raises:
      TrainerError: the custom configuration is wrong; one line.
    """
    job = entrypoint.make_job(fn_args, export_dir="", log_dir="")
    given = fn_args.custom_config
    try:
        options = TuningOptions.model_validate_json(given["tuning"])
    except (KeyError, pydantic.ValidationError) as error:
        why = " ".join(str(error).split())
        raise TrainerError(f"Tuner's custom_config['tuning']: not tuning options: {why}") from error
    return Search(job, options, str(given.get("source")))


def _oracle(training: TrainingOptions, options: TuningOptions) -> _Oracle:
    """The search space, and the configured values in it."""
    optimizer, penalty = training.optimizer, training.penalty
    space = keras_tuner.HyperParameters()
    configured: dict[str, float] = {}
    ranges = [
        (
            "optimizer.generator_learning_rate",
            optimizer.generator_learning_rate,
            options.generator_learning_rate,
        ),
        (
            "optimizer.critic_learning_rate",
            optimizer.critic_learning_rate,
            options.critic_learning_rate,
        ),
    ]
    if penalty.kind != "weight_clipping":
        ranges.append(("penalty.weight", penalty.weight, options.penalty_weight))
    for name, value, bounds in ranges:
        if bounds is not None:
            space.Float(name, *bounds, sampling="log")
            configured[name] = value
    if options.critic_steps is not None:
        space.Choice("critic_steps", list(options.critic_steps))
        configured["critic_steps"] = training.critic_steps
    oracle = _Oracle(
        configured,
        objective=keras_tuner.Objective(OBJECTIVE, "min"),
        max_trials=options.trials,
        seed=1 + _SEED_STRIDE * options.seed,
        hyperparameters=space,
        max_consecutive_failed_trials=options.trials + 1,  # it counts as found what failed
    )
    oracle.verbose = 0
    return oracle


def _key(job: TrainingJob, options: TuningOptions, source: str) -> str:
    """Of all that decides what the trials come to; more of them go on from where fewer ended."""
    identity = [
        job.model_dump(mode="json", exclude={"log_dir", "export_dir"}),
        options.model_dump(mode="json", exclude={"trials"}),
        source,
    ]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _report(line: str) -> None:
    print(line, file=console(), flush=True)
