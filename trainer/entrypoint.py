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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import tensorflow as tf

from trainer import result
from trainer.errors import EXIT_INTERRUPTED, TrainerError, TrainingInterrupted
from trainer.options import TrainingJob
from trainer.progress import CONSOLE_VARIABLE


def run_fn(fn_args: Any) -> None:
    """Trains as the Trainer's custom configuration says.

    Args:
      fn_args: `tfx.components.FnArgs`, of which `train_files`, `eval_files`, `transform_output`,
        `serving_model_dir`, `model_run_dir` and `custom_config` are read. The last holds `job`:
        JSON of a `TrainingJob` without files, folders of this execution and class names.

    Raises:
      TrainingInterrupted: the training was told to stop and has saved its state.
      TrainerError: the job is wrong, or training failed; one line.
    """
    run_job(make_job(fn_args))


def make_job(fn_args: Any) -> TrainingJob:
    """The complete job: custom configuration, files of this execution, class names.

    Args:
      fn_args: see `run_fn`.

    Raises:
      TrainerError: the custom configuration holds no valid job, or asks for labels that the
        data does not have.
    """
    try:
        given = json.loads(fn_args.custom_config["job"])
        job = TrainingJob.model_validate_json(
            json.dumps(
                {
                    **given,
                    "class_names": read_class_names(fn_args.transform_output),
                    "train_files": _patterns(fn_args.train_files),
                    "eval_files": _patterns(fn_args.eval_files),
                    "export_dir": fn_args.serving_model_dir,
                    "log_dir": fn_args.model_run_dir,
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


def read_class_names(transform_output: str | None) -> tuple[str, ...]:
    """Label names by class id, from the Transform output's vocabulary.

    Args:
      transform_output: folder of the Transform graph, or None.

    Returns:
      The names: the vocabulary has one a line, the last one first. Empty when unlabelled.
    """
    path = os.path.join(transform_output or "", "transform_fn", "assets", "label")
    if not transform_output or not tf.io.gfile.exists(path):
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
            [sys.executable, "-m", "trainer", str(path), "--while-stdin-open"],
            stdin=subprocess.PIPE,  # never written to; it ends when this process does
            env=os.environ | {"PYTHONPATH": _python_path()},
            pass_fds=(int(console),) if console else (),
        )
        with child, _signals_forwarded(child) as forwarded:
            code = child.wait()
    # A child that was told to stop before it listened ends with any code, and one that had just
    # finished with none; what it saved makes the next run short.
    if code == EXIT_INTERRUPTED or forwarded:
        raise TrainingInterrupted(result.read_error(job) or "training interrupted")
    if code:
        raise TrainerError(
            result.read_error(job) or f"training process ended with exit code {code}"
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
