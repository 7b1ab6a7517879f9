"""What a training process tells the one that started it: a file in the log folder."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

from trainer import folder
from trainer.options import TrainingJob

RESULT_FILE = "training.json"


def clear(job: TrainingJob) -> None:
    """Deletes what an earlier run has left: a process that is killed leaves nothing of its own."""
    if tf.io.gfile.exists(_path(job)):
        tf.io.gfile.remove(_path(job))


def write(job: TrainingJob, **values: object) -> None:
    """Writes what came of a job: of a failure `error`, one line."""
    folder.write_atomically(_path(job), json.dumps(values) + "\n")


def read(job: TrainingJob) -> dict[str, Any]:
    """What a job left: `error`, or what came of it; empty where it left nothing."""
    if not tf.io.gfile.exists(_path(job)):
        return {}
    with tf.io.gfile.GFile(_path(job)) as file:
        found: dict[str, Any] = json.load(file)
    return found


def _path(job: TrainingJob) -> str:
    return os.path.join(job.log_dir, RESULT_FILE)
