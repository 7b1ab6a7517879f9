"""scikit-learn's handwritten digits as 16x16 images: real data that is always there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

IMAGE_SIZE = 16
CLASSES = 10


def load() -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [1797, 16, 16, 1] and labels int64 [1797]."""
    digits = load_digits()
    pixels = np.kron(digits.images * (255 / 16), np.ones([2, 2])).astype(np.uint8)
    return pixels[..., None], digits.target


def write_examples(path: Path, part: slice) -> None:
    """Writes some of them as the transformed examples that training reads.

    Args:
      path: of the TFRecord file, gzip.
      part: which of them.
    """
    images, labels = load()
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        for image, label in zip(images[part], labels[part], strict=True):
            example = tf.train.Example()
            features = example.features.feature
            features["image"].bytes_list.value.append(image.tobytes())
            features["label"].int64_list.value.append(int(label))
            digest = hashlib.sha256(image.tobytes()).hexdigest()
            features["example_id"].bytes_list.value.append(digest.encode())
            writer.write(example.SerializeToString())
