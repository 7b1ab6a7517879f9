"""What a training process tells the one that started it: a file in the log folder."""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

from trainer import folder
from trainer.options import TrainingJob

RESULT_FILE = "training.json"


def write(job: TrainingJob, **values: object) -> None:
    """Writes what came of a job: of a failure `error`, one line."""
    folder.write_atomically(os.path.join(job.log_dir, RESULT_FILE), json.dumps(values) + "\n")


def read(job: TrainingJob) -> dict[str, Any]:
    """What a job left: `error`, or what came of it; empty where it left nothing."""
    path = os.path.join(job.log_dir, RESULT_FILE)
    if not tf.io.gfile.exists(path):
        return {}
    with tf.io.gfile.GFile(path) as file:
        found: dict[str, Any] = json.load(file)
    return found
