"""The one door from TFX: `run_fn`, which trains in a process of its own.

In TFX's process TensorFlow has long been initialised, and neither logical devices nor collectives
can be configured any more; the child owns its devices, its signals and its memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pydantic
import tensorflow as tf

from trainer import result, settings
from trainer.errors import EXIT_INTERRUPTED, TrainerError, TrainingInterrupted
from trainer.options import TrainingJob
from trainer.progress import CONSOLE_VARIABLE, console


def run_fn(fn_args: Any) -> None:
    """Trains as the Trainer's custom configuration says.

    Args:
      fn_args: `tfx.components.FnArgs`, of which `train_files`, `eval_files`,
        `transform_graph_path`, `serving_model_dir`, `model_run_dir`, `base_model`,
        `hyperparameters` and `custom_config` are read. The last holds `job`: JSON of a
        `TrainingJob` without files, folders of this execution and class names.

    Raises:
      TrainingInterrupted: the training was told to stop and has saved its state.
      TrainerError: the job is wrong, or training failed; one line.
    """
    job = make_job(fn_args, fn_args.serving_model_dir, fn_args.model_run_dir)
    run_job(with_tuned(job, (fn_args.hyperparameters or {}).get("values", {})))


def make_job(fn_args: Any, export_dir: str, log_dir: str) -> TrainingJob:
    """The complete job: custom configuration, files of this execution, class names.

    Args:
      fn_args: see `run_fn`.
      export_dir: where the SavedModel is written.
      log_dir: where TensorBoard's event files are written.

    Raises:
      TrainerError: the custom configuration holds no valid job, or asks for labels that the
        data does not have.
    """
    try:
        given = json.loads(fn_args.custom_config["job"])
        served = _served(fn_args.base_model)
        job = TrainingJob.model_validate_json(
            json.dumps(
                {
                    **given,
                    "class_names": read_class_names(fn_args.transform_graph_path),
                    "train_files": _patterns(fn_args.train_files),
                    "eval_files": _patterns(fn_args.eval_files),
                    "warm_start_dir": served or given.get("warm_start_dir"),
                    "export_dir": export_dir,
                    "log_dir": log_dir,
                }
            )
        )
    except (KeyError, TypeError, ValueError) as error:
        why = "; ".join(_problems(error))
        raise TrainerError(f"Trainer's custom_config['job']: not a training job: {why}") from error
    if job.model.conditional is True and not job.class_names:
        raise TrainerError(
            "model.conditional: got true, but the data has no labels; allowed: false or auto"
        )
    return job


def with_tuned(job: TrainingJob, values: Mapping[str, Any]) -> TrainingJob:
    """A job with training options that a search has found.

    Args:
      job: to change.
      values: by the option's path below `training`, e.g. `penalty.weight`.

    Raises:
      TrainerError: an option is unknown, or its value is not allowed.
    """
    tree = json.loads(job.model_dump_json())
    for name, value in values.items():
        settings.put(tree, ["training", *name.split(".")], value, "hyperparameters")
    try:
        return TrainingJob.model_validate_json(json.dumps(tree))
    except pydantic.ValidationError as error:
        raise TrainerError(f"hyperparameters: {'; '.join(_problems(error))}") from error


def _served(base_model: str | None) -> str | None:
    """The folder of the model that is served now; None where nothing is."""
    if base_model is None:
        return None
    if tf.io.gfile.exists(os.path.join(base_model, "saved_model.pb")):
        return base_model
    print("training.warm_start: no model is served yet; beginning with new weights", file=console())
    return None


def read_class_names(transform_graph: str | None) -> tuple[str, ...]:
    """Label names by class id, from the Transform output's vocabulary.

    Args:
      transform_graph: folder of the Transform graph, or None.

    Returns:
      The names: the vocabulary has one a line, the last one first. Empty when unlabelled.
    """
    path = os.path.join(transform_graph or "", "transform_fn", "assets", "label")
    if not transform_graph or not tf.io.gfile.exists(path):
        return ()
    with tf.io.gfile.GFile(path, "rb") as file:
        lines = file.read().decode("utf-8").split("\n")
    return tuple(reversed([line for line in lines if line]))


def run_job(job: TrainingJob) -> None:
    """Runs a job in a child process, passes signals on and waits for its end.

    Args:
      job: what to train.

    Raises:
      TrainingInterrupted: the child was told to stop and has saved its state.
      TrainerError: the child failed; one line that says why.
    """
    with tempfile.TemporaryDirectory(prefix="tfx-wgan-") as scratch:
        path = Path(scratch, "job.json")
        path.write_text(job.model_dump_json(), encoding="utf-8")
        console = os.environ.get(CONSOLE_VARIABLE)
        child = subprocess.Popen(
            [sys.executable, "-m", "trainer.process", str(path), "--while-stdin-open"],
            stdin=subprocess.PIPE,  # never written to; it ends when this process does
            env=os.environ | {"PYTHONPATH": _python_path()},
            pass_fds=(int(console),) if console else (),
        )
        with child, _signals_forwarded(child) as forwarded:
            code = child.wait()
    # A child that was told to stop before it listened ends with any code, and one that had just
    # finished with none; what it saved makes the next run short.
    if code == EXIT_INTERRUPTED or forwarded:
        raise TrainingInterrupted(result.read(job).get("error") or "training interrupted")
    if code:
        raise TrainerError(
            result.read(job).get("error") or f"training process ended with exit code {code}"
        )


@contextlib.contextmanager
def _signals_forwarded(child: subprocess.Popen) -> Iterator[list[int]]:
    """Passes SIGTERM and SIGINT on to the child, which saves and ends by itself.

    Yields the signals that were passed on.
    """
    forwarded: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield forwarded  # only the main thread may handle signals
        return

    def forward(number: int, frame: object) -> None:
        forwarded.append(number)
        child.send_signal(number)

    before = {n: signal.signal(n, forward) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield forwarded
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _python_path() -> str:
    """Where the child finds this package, wherever it is started."""
    here = str(Path(__file__).resolve().parent.parent)
    return os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])


def _patterns(files: str | list[str] | None) -> list[str]:
    return [files] if isinstance(files, str) else list(files or ())


def _problems(error: Exception) -> list[str]:
    if isinstance(error, pydantic.ValidationError):
        return [
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors()
        ]
    return [f"{type(error).__name__}: {error}"]
