"""Logical CPU devices for the replica tests, and a small labelled data set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from trainer.options import TrainingJob

# On import, because the first use of TensorFlow fixes the devices of the process.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 4
)


@pytest.fixture(scope="session")
def write_examples() -> Callable[[Path, np.ndarray, np.ndarray | None], None]:
    """Writes transformed examples as Transform does, shuffled: path, images, labels or None."""
    return _write


def _write(path: Path, images: np.ndarray, labels: np.ndarray | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for i in np.random.default_rng(0).permutation(len(images)):
            example = tf.train.Example()
            features = example.features.feature
            features["image"].bytes_list.value.append(images[i].tobytes())
            features["example_id"].bytes_list.value.append(
                hashlib.sha256(str(i).encode()).hexdigest().encode()
            )
            if labels is not None:
                features["label"].int64_list.value.append(int(labels[i]))
            writer.write(example.SerializeToString())


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TFRecord of 40 labelled 16x16 grey images: bright squares, left (0) or right (1)."""
    path = tmp_path_factory.mktemp("data") / "train-00000-of-00001.gz"
    _write(path, *_squares(40, brightness=120))
    return path


@pytest.fixture(scope="session")
def heldout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 more of them."""
    path = tmp_path_factory.mktemp("data") / "eval-00000-of-00001.gz"
    _write(path, *_squares(20, brightness=121))
    return path


def _squares(count: int, brightness: int) -> tuple[np.ndarray, np.ndarray]:
    images = np.zeros([count, 16, 16, 1], np.uint8)
    labels = np.arange(count) % 2
    for i, image in enumerate(images):
        first = 2 + 8 * labels[i]
        image[4:12, first : first + 4] = brightness + 3 * i
    return images, labels


@pytest.fixture
def job(examples: Path, heldout: Path, tmp_path: Path) -> TrainingJob:
    """A tiny conditional job over `examples`, validated against `heldout`."""
    return TrainingJob.model_validate(
        {
            "model": {"latent_dim": 8, "generator_channels": 4, "critic_channels": 4},
            "training": {
                "steps": 6,
                "global_batch_size": 8,
                "critic_steps": 2,
                "steps_per_call": 4,
                "log_every_steps": 2,
                "sample_every_steps": 3,
                "checkpoint_every_steps": 4,
                "validate_every": 3,
            },
            "image_size": 16,
            "channels": 1,
            "class_names": ("left", "right"),
            "train_files": (str(examples),),
            "eval_files": (str(heldout),),
            "work_dir": str(tmp_path / "work"),
            "export_dir": str(tmp_path / "export"),
            "log_dir": str(tmp_path / "log"),
        }
    )
