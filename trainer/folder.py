"""The stable folder of a training run: found again by what is trained, not by when."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from trainer.options import TrainingJob

#: Training options that change how a result is reached, and not the result; only a return to a
#: checkpoint goes to whichever was saved.
_WITHOUT_EFFECT = {
    "accumulation_steps",
    "checkpoint_every_steps",
    "input_memory_bytes",
    "keep_checkpoints",
    "log_every_steps",
    "replicas",
    "sample_every_steps",
    "steps_per_call",
    "strategy",
    "tpu",
    "warm_start",  # the weights themselves count
}
#: Modules and packages whose code decides the numbers.
_MATHS = (
    "feed.py",
    "guard.py",
    "losses.py",
    "loop.py",
    "networks",
    "noise.py",
    "quality/extractors/__init__.py",
    "quality/extractors/grid.py",
    "quality/extractors/images.py",
    "quality/extractors/inception.py",
    "quality/extractors/random.py",
    "quality/extractors/saved_model.py",
    "quality/frechet.py",
    "quality/moments.py",
    "state.py",
    "step.py",
    "validation.py",
)

_SAMPLE_FILE = re.compile(r"step-(\d+)\.png")


def key(
    job: TrainingJob, *, train: str, heldout: str | None = None, warm_start: str | None = None
) -> str:
    """Hash of everything that decides the weights: options, data and the maths' own source.

    Args:
      job: what to train.
      train: fingerprint of the training images.
      heldout: that of the held-out ones, which decide what is best and when to stop.
      warm_start: that of the weights that training begins with.

    Returns:
      16 hexadecimal digits.
    """
    source = hashlib.sha256()
    here = Path(__file__).parent
    for name in _MATHS:
        path = here / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            source.update(file.read_bytes())
    identity = {
        "model": job.model.model_dump(),
        "training": job.training.model_dump(exclude=_WITHOUT_EFFECT),
        "image": [job.image_size, job.channels],
        "class_names": job.class_names,
        # Where its files lie does not matter, once it is known what is in them.
        "extractor": job.extractor.sha256 or job.extractor.model_dump(),
        "data": [train, heldout],
        "warm_start": warm_start,
        "source": source.hexdigest(),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


class MetricsFile:
    """`metrics.jsonl`: one line per logging step, cut back when training resumes.

    Args:
      path: of the file.
    """

    def __init__(self, path: str):
        self._path = path

    def cut(self, step: int) -> None:
        """Drops the lines beyond a step: they belong to a past that is trained again."""
        lines = []
        if tf.io.gfile.exists(self._path):
            with tf.io.gfile.GFile(self._path) as file:
                lines = [line for line in file.read().splitlines(True) if _is_until(line, step)]
        write_atomically(self._path, "".join(lines))

    def append(self, values: Mapping[str, float]) -> None:
        """Adds one line."""
        with tf.io.gfile.GFile(self._path, "a") as file:
            file.write(json.dumps(values) + "\n")


class SampleFiles:
    """`samples/step-00000500.png`: one picture per sampled step, cut back when training resumes.

    Args:
      path: of the folder.
    """

    def __init__(self, path: str):
        self._path = path

    def cut(self, step: int) -> None:
        """Deletes the pictures beyond a step, and what a crash left half written."""
        for path in tf.io.gfile.glob(os.path.join(self._path, "step-*")):
            found = _SAMPLE_FILE.fullmatch(os.path.basename(path))
            if found is None or int(found[1]) > step:
                tf.io.gfile.remove(path)

    def write(self, step: int, picture: np.ndarray) -> None:
        """Writes the picture of a step, uint8 [H, W, C]."""
        path = os.path.join(self._path, f"step-{step:08d}.png")
        write_atomically(path, tf.io.encode_png(picture).numpy())


def _is_until(line: str, step: int) -> bool:
    try:
        return json.loads(line)["step"] <= step
    except ValueError:  # cut off in the middle by a crash
        return False


def write_atomically(path: str, content: str | bytes) -> None:
    """Writes a file that is never seen half written."""
    temporary = f"{path}.tmp-{os.getpid()}"
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(temporary, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)
    tf.io.gfile.rename(temporary, path, overwrite=True)
