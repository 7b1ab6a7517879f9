"""The stable folder of a training run: found again by what is trained, not by when."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf

from trainer.options import TrainingJob

#: Training options that change how a result is reached, and not the result.
_WITHOUT_EFFECT = {
    "strategy",
    "replicas",
    "tpu",
    "steps_per_call",
    "sample_every_steps",
    "checkpoint_every_steps",
    "keep_checkpoints",
}
#: Modules whose code decides the numbers.
_MATHS = ("data.py", "losses.py", "loop.py", "networks/*.py", "step.py")


def key(job: TrainingJob, fingerprint: str) -> str:
    """Hash of everything that decides the weights: options, data and the maths' own source.

    Args:
      job: what to train.
      fingerprint: of the training data.

    Returns:
      16 hexadecimal digits.
    """
    source = hashlib.sha256()
    for pattern in _MATHS:
        for path in sorted(Path(__file__).parent.glob(pattern)):
            source.update(path.read_bytes())
    identity = {
        "model": job.model.model_dump(),
        "training": job.training.model_dump(exclude=_WITHOUT_EFFECT),
        "image": [job.image_size, job.channels],
        "class_names": job.class_names,
        "data": fingerprint,
        "source": source.hexdigest(),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


class MetricsFile:
    """`metrics.jsonl`: one line per logging step, cut back when training resumes.

    Args:
      path: of the file.
      step: steps done; lines beyond it belong to a past that is trained again, and go.
    """

    def __init__(self, path: str, step: int):
        self._path = path
        lines = []
        if tf.io.gfile.exists(path):
            with tf.io.gfile.GFile(path) as file:
                lines = [line for line in file.read().splitlines(True) if _is_until(line, step)]
        write_atomically(path, "".join(lines))

    def append(self, values: Mapping[str, float]) -> None:
        """Adds one line."""
        with tf.io.gfile.GFile(self._path, "a") as file:
            file.write(json.dumps(values) + "\n")


def _is_until(line: str, step: int) -> bool:
    try:
        return json.loads(line)["step"] <= step
    except ValueError:  # cut off in the middle by a crash
        return False


def write_atomically(path: str, text: str) -> None:
    """Writes a file that is never seen half written."""
    temporary = f"{path}.tmp-{os.getpid()}"
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(temporary, "w") as file:
        file.write(text)
    tf.io.gfile.rename(temporary, path, overwrite=True)
