"""Everything a training run reads before it begins, and the folder that follows from it."""

from __future__ import annotations

import dataclasses
import os
import socket
import tempfile
from collections.abc import Callable

from trainer import data, folder, warm_start
from trainer.errors import TrainerError
from trainer.options import TrainingJob


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What is trained with.

    Attributes:
      images: training data.
      heldout: held-out data; None: there is none.
      weights: that training begins with; None: new ones.
      work_dir: the run's stable folder: the same for the same options, data and code.
    """

    images: data.Dataset
    heldout: data.Dataset | None
    weights: warm_start.Weights | None
    work_dir: str


def read(job: TrainingJob, report: Callable[[str], None]) -> Inputs:
    """Reads data and weights.

    Args:
      job: says where they are.
      report: takes a line for the user when it takes long.

    Raises:
      TrainerError: something is not there, or not as it must be.
    """
    images = _load(job, job.train_files, report)
    if images.classes > len(job.class_names) > 0:
        raise TrainerError(
            f"training data: got label {images.classes - 1}, but there are "
            f"{len(job.class_names)} class names; allowed: a name for every label"
        )
    heldout = None
    if job.eval_files:
        heldout = _load(job, job.eval_files, report, unknown_labels=True)
    weights = warm_start.load(job.warm_start_dir) if job.warm_start_dir else None
    key = folder.key(
        job,
        train=images.fingerprint,
        heldout=heldout.fingerprint if heldout else None,
        warm_start=weights.fingerprint if weights else None,
    )
    return Inputs(images, heldout, weights, os.path.join(job.work_dir, key))


def classes(job: TrainingJob) -> int:
    """Number of labels the networks take; 0: unconditional."""
    return len(job.class_names) if job.model.conditional else 0


def _load(
    job: TrainingJob,
    patterns: tuple[str, ...],
    report: Callable[[str], None],
    unknown_labels: bool = False,
) -> data.Dataset:
    parent = job.work_dir
    if "://" in parent:  # a memory-mapped file must be on this machine, and be this user's
        parent = os.path.join(tempfile.gettempdir(), f"tfx-wgan-{os.getuid()}")
    return data.load(
        patterns,
        image_size=job.image_size,
        channels=job.channels,
        labelled=bool(job.class_names),
        memory_bytes=job.training.input_memory_bytes,
        cache_dir=os.path.join(parent, "input", socket.gethostname()),
        unknown_labels=unknown_labels,
        report=report,
    )
