"""What a training process tells the one that started it: a file in the log folder."""

from __future__ import annotations

import json
import os

import tensorflow as tf

from trainer import folder
from trainer.options import TrainingJob

RESULT_FILE = "training.json"


def write(job: TrainingJob, **values: object) -> None:
    """Writes what came of a job: of a failure `error`, one line."""
    folder.write_atomically(os.path.join(job.log_dir, RESULT_FILE), json.dumps(values) + "\n")


def read_error(job: TrainingJob) -> str | None:
    """The line that says why a job failed, if it left one."""
    path = os.path.join(job.log_dir, RESULT_FILE)
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path) as file:
        return json.load(file).get("error")
