"""What the benchmarks train: networks, batches, and real images that come with scikit-learn."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
import tensorflow as tf

from trainer.options import ModelOptions, TrainingJob, TrainingOptions
from trainer.state import State

#: One image in so many is held out.
_HELD_OUT = 8


@dataclasses.dataclass(frozen=True)
class Work:
    """One kind of training: strided convolutions, layer normalisation in both networks.

    Attributes:
      image_size: height and width in pixels.
      generator_channels: see `ModelOptions`.
      critic_channels: see `ModelOptions`.
      latent_dim: length of a latent.
      batch_size: images per critic update.
      critic_steps: critic updates per step.
    """

    image_size: int
    generator_channels: int
    critic_channels: int
    latent_dim: int
    batch_size: int
    critic_steps: int

    @property
    def images_per_step(self) -> int:
        """Real images that the critic sees per generator update."""
        return self.batch_size * self.critic_steps

    def __str__(self) -> str:
        size = self.image_size
        return (
            f"{size}x{size}, {self.generator_channels}/{self.critic_channels} channels, "
            f"batch {self.batch_size}, {self.critic_steps} critic steps"
        )


#: The networks of the presets `digits` and `mnist`, and the least that a smoke test can train.
DIGITS = Work(16, 16, 32, 64, 64, 2)
MNIST = Work(28, 64, 64, 128, 64, 5)
TINY = Work(16, 4, 4, 8, 8, 2)


def races(quick: bool) -> list[tuple[Work, int, int]]:
    """What the trainer is compared on with other libraries: work, steps of a lap, laps."""
    return [(TINY, 10, 2)] if quick else [(DIGITS, 20, 25), (MNIST, 10, 9)]


def images(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits, enlarged.

    Args:
      size: height and width in pixels.

    Returns:
      uint8 [1797, size, size, 1] and labels int32 [1797].
    """
    digits = sklearn.datasets.load_digits()
    small = (digits.images[..., None] * (255 / 16)).astype(np.float32)
    large = tf.clip_by_value(tf.image.resize(small, [size, size], "bicubic"), 0, 255)
    return tf.cast(tf.round(large), tf.uint8).numpy(), digits.target.astype(np.int32)


def batches(work: Work) -> tuple[tf.Tensor, tf.Tensor]:
    """Resident batches of one step: uint8 [critic_steps, B, H, W, 1], int32 [critic_steps, B]."""
    pixels, labels = images(work.image_size)
    shape = [work.critic_steps, work.batch_size]
    first = slice(work.images_per_step)
    return (
        tf.constant(pixels[first].reshape([*shape, *pixels.shape[1:]])),
        tf.constant(labels[first].reshape(shape)),
    )


def job(work: Work, folder: Path, *, labelled: bool = False, **training: Any) -> TrainingJob:
    """A whole training run with everything on, that does not end by itself.

    Args:
      work: what is trained.
      folder: where examples, checkpoints and curves go.
      labelled: whether the networks take labels.
      **training: further training options.
    """
    pixels, labels = images(work.image_size)
    held_out = np.arange(len(pixels)) % _HELD_OUT == 0
    for name, chosen in (("train", ~held_out), ("eval", held_out)):
        write(folder / f"{name}.gz", pixels[chosen], labels[chosen])
    options = {
        "steps": 10**6,
        "global_batch_size": work.batch_size,
        "critic_steps": work.critic_steps,
        # Untrained networks are measured too; to end, or to go back, is not what is timed here.
        "guard": {"min_sample_deviation": 0.0, "max_distance_factor": 1e9},
        **training,
    }
    return TrainingJob(
        model=_model(work),
        training=TrainingOptions.model_validate(options),
        image_size=work.image_size,
        channels=1,
        class_names=tuple("0123456789") if labelled else (),
        train_files=(str(folder / "train.gz"),),
        eval_files=(str(folder / "eval.gz"),),
        work_dir=str(folder / "work"),
        export_dir=str(folder / "export"),
        log_dir=str(folder / "log"),
    )


def options(work: Work, **training: Any) -> TrainingOptions:
    """Training options of this work."""
    return TrainingOptions(
        global_batch_size=work.batch_size, critic_steps=work.critic_steps, **training
    )


def state(work: Work, training: TrainingOptions) -> State:
    """New networks and optimizers, the trainer's own, without labels."""
    return State(_model(work), training, image_size=work.image_size, channels=1, classes=0)


def _model(work: Work) -> ModelOptions:
    return ModelOptions(
        latent_dim=work.latent_dim,
        generator_channels=work.generator_channels,
        critic_channels=work.critic_channels,
    )


def write(path: Path, pixels: np.ndarray, labels: np.ndarray, name: str = "") -> None:
    """Examples as the pipeline's Transform writes them.

    Args:
      path: gzip file to write.
      pixels: uint8 [N, H, W, C].
      labels: int64 [N].
      name: distinguishes their ids from those of another file.
    """
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for example in _examples(pixels, labels, name):
            writer.write(example.SerializeToString())


def _examples(pixels: np.ndarray, labels: np.ndarray, name: str) -> Iterator[tf.train.Example]:
    for index, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        example = tf.train.Example()
        feature = example.features.feature
        feature["image"].bytes_list.value.append(image.tobytes())
        feature["label"].int64_list.value.append(int(label))
        identity = hashlib.sha256(f"{name}{index}".encode()).hexdigest()
        feature["example_id"].bytes_list.value.append(identity.encode())
        yield example
