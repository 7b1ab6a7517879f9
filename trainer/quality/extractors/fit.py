"""`python -m trainer.quality.extractors.fit JOB.json`: an extractor fitted to labelled images.

A process of its own, because TFX's has used TensorFlow: neither seeds nor determinism are its
own any more. The last line of standard output is JSON: what came of it, or `error`, one line.

Exit codes: 0 fitted and written, 2 not a job, 1 failure.
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

# Before TensorFlow is imported: its notes on CPU features are for nobody here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import pydantic
import tensorflow as tf
import tf_keras

from trainer import data
from trainer.data import Dataset
from trainer.errors import TrainerError
from trainer.options import Options, option
from trainer.progress import CONSOLE_VARIABLE, Progress, console
from trainer.quality.extractors import classifier
from trainer.settings import flat

#: What is known about a fitted extractor, in its folder.
DETAILS_FILE = "extractor.json"
_LEARNING_RATE = 2e-3
#: Held-out images that are classified at a time.
_BATCH = 256


class FitJob(Options):
    """Everything that fitting needs, as plain data."""

    train_files: tuple[str, ...] = option(
        ..., "TFRecord files of transformed examples, or patterns"
    )
    eval_files: tuple[str, ...] = option(..., "the same, held out")
    class_names: tuple[str, ...] = option(..., "label names by class id")
    image_size: int = option(..., "height and width of an image", "pixels")
    channels: int = option(..., "1: grey, 3: colour")
    steps: int = option(1000, "updates of the classifier", "steps", ge=1)
    batch_size: int = option(64, "images in an update", "images", ge=2)
    seed: int = option(0, "seed of weights and data order", ge=0, lt=2**31)
    memory_bytes: int = option(2 * 2**30, "images up to this size are held in memory", "bytes")
    cache_dir: str = option(..., "local folder for larger sets, see trainer.image_cache")
    output_dir: str = option(..., "where the SavedModel is written")


@dataclasses.dataclass(frozen=True)
class Details:
    """What is known about a fitted extractor.

    Attributes:
      accuracy: share of the held-out images whose class it tells; None: there are none.
      class_names: by class id.
      steps: updates.
      batch_size: images in an update.
      seed: of weights and data order.
      training_images: that it was fitted to.
      heldout_images: that the accuracy was measured on.
    """

    accuracy: float | None
    class_names: tuple[str, ...]
    steps: int
    batch_size: int
    seed: int
    training_images: int
    heldout_images: int


def in_new_process(job: FitJob) -> Details:
    """Does a job in a process of its own, which ends when the caller is interrupted.

    Raises:
      TrainerError: it failed; one line.
    """
    screen = os.environ.get(CONSOLE_VARIABLE)
    here = str(Path(__file__).resolve().parents[3])
    python_path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory(prefix="tfx-wgan-") as scratch:
        path = Path(scratch, "job.json")
        path.write_text(job.model_dump_json(), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-m", "trainer.quality.extractors.fit", str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": python_path},
            pass_fds=(int(screen),) if screen else (),
        )
    told = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    if done.returncode:
        raise TrainerError(told.get("error") or f"fitting ended with exit code {done.returncode}")
    return Details(**told | {"class_names": tuple(told["class_names"])})


def main(arguments: list[str]) -> int:
    """Does the job in a file.

    Args:
      arguments: the path of a `FitJob` as JSON.

    Returns:
      The exit code.
    """
    if len(arguments) != 1:
        print("usage: python -m trainer.quality.extractors.fit JOB.json", file=sys.stderr)
        return 2
    try:
        job = FitJob.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, pydantic.ValidationError) as error:
        print(f"{arguments[0]}: not a job: {flat(error)[:500]}", file=sys.stderr)
        return 2
    # Free on a CPU; on a GPU it is what makes the same job give the same extractor.
    tf.config.experimental.enable_op_determinism()
    try:
        details = run(job)
    except TrainerError as error:
        print(json.dumps({"error": str(error)}))
        return 1
    print(json.dumps(dataclasses.asdict(details)))
    return 0


def run(job: FitJob) -> Details:
    """Fits a classifier and writes it as an extractor.

    Raises:
      TrainerError: the data has fewer than two classes, or cannot be read.
    """
    if len(job.class_names) < 2:
        raise TrainerError(
            f"an extractor is fitted to labels: the data has {len(job.class_names) or 'none'}; "
            "allowed: two classes or more, such as one folder of images for each"
        )
    progress = Progress(console(), total=job.steps, images_per_step=job.batch_size)
    training = _load(job, job.train_files, progress.report)
    heldout = _load(job, job.eval_files, progress.report, unknown_labels=True)
    tf_keras.utils.set_random_seed(job.seed)
    network = classifier.build(job.image_size, job.channels, len(job.class_names))
    try:
        _train(network, training, job, progress)
    finally:
        progress.close()
    accuracy, measured = _accuracy(network, heldout)
    details = Details(
        accuracy=accuracy,
        class_names=job.class_names,
        steps=job.steps,
        batch_size=job.batch_size,
        seed=job.seed,
        training_images=len(training),
        heldout_images=measured,
    )
    classifier.save(network, job.output_dir)
    with tf.io.gfile.GFile(os.path.join(job.output_dir, DETAILS_FILE), "w") as file:
        file.write(json.dumps(dataclasses.asdict(details), indent=2) + "\n")
    return details


def _load(
    job: FitJob,
    patterns: tuple[str, ...],
    report: Callable[[str], None],
    unknown_labels: bool = False,
) -> Dataset:
    return data.load(
        patterns,
        image_size=job.image_size,
        channels=job.channels,
        labelled=True,
        memory_bytes=job.memory_bytes,
        cache_dir=job.cache_dir,
        unknown_labels=unknown_labels,
        report=report,
    )


def _train(network: tf_keras.Model, images: Dataset, job: FitJob, progress: Progress) -> None:
    """Adam on the cross entropy, with a step size that falls to 0."""
    rate = tf_keras.optimizers.schedules.PolynomialDecay(_LEARNING_RATE, job.steps, 0.0)
    optimizer = tf_keras.optimizers.Adam(rate)
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function(autograph=False)
    def update(image: tf.Tensor, label: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            _, logits = network(tf.cast(image, tf.float32), training=True)
            value = loss(label, logits)
        variables = network.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))

    batches = _batches(len(images), job.batch_size, job.seed)
    for step in range(1, job.steps + 1):
        update(*map(tf.constant, images.gather(next(batches))))
        if step == 1:
            progress.begin(step)  # the first one builds the graph, which tells nothing of speed
        else:
            progress.advance(step)


def _batches(examples: int, size: int, seed: int) -> Iterator[np.ndarray]:
    """Places of examples, [size] at a time, each once before any comes again; without an end."""
    generator = np.random.Generator(np.random.Philox(seed))
    waiting = np.empty(0, np.int64)
    while True:
        while len(waiting) < size:
            waiting = np.concatenate([waiting, generator.permutation(examples)])
        yield waiting[:size]
        waiting = waiting[size:]


def _accuracy(network: tf_keras.Model, heldout: Dataset) -> tuple[float | None, int]:
    """Share of images whose class is told, and the number of those whose class is known."""
    known = np.flatnonzero(heldout.labels >= 0)
    right = 0
    for start in range(0, len(known), _BATCH):
        images, labels = heldout.gather(known[start : start + _BATCH])
        _, logits = network(tf.cast(images, tf.float32), training=False)
        right += int(np.sum(np.argmax(logits.numpy(), axis=1) == labels))
    return (right / len(known) if len(known) else None), len(known)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
