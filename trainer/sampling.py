"""Pictures from an exported model, and many pictures as one."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image

#: Width of the line between the images of a grid, in pixels.
_GAP = 1


class ModelError(ValueError):
    """A model that cannot be sampled as asked; the message is one line for the user."""


def find_model(path: str) -> str:
    """Finds the SavedModel at `path`, or the newest version in the folder of versions there.

    Raises:
      ModelError: where there is neither.
    """
    versions = []
    if os.path.isdir(path):
        versions = [name for name in os.listdir(path) if _is_number(name)]
    newest = [os.path.join(path, name) for name in sorted(versions, key=int, reverse=True)]
    for folder in [path, *newest]:
        if os.path.isfile(os.path.join(folder, "saved_model.pb")):
            return folder
    raise ModelError(f"{path}: no saved_model.pb there, nor in a numbered folder below it")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def class_names(model_dir: str) -> list[str]:
    """Names of the classes a model was trained on, by class id; empty when it had none."""
    path = Path(model_dir) / "assets.extra" / "class_names.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


class Sampler:
    """An exported model, loaded once, that draws images."""

    def __init__(self, model_dir: str):
        """Loads the SavedModel.

        Raises:
          ModelError: where it cannot be loaded, or has no signature `sample`.
        """
        try:
            loaded = tf.saved_model.load(model_dir)
        except Exception as error:  # TensorFlow raises whatever its reader met
            why = " ".join(str(error).split())[:200]
            raise ModelError(f"{model_dir}: cannot be loaded: {why}") from error
        if "sample" not in loaded.signatures:
            raise ModelError(f"{model_dir}: the model has no signature `sample`")
        self._loaded = loaded  # keeps the variables alive
        self._sample = loaded.signatures["sample"]
        self._names = class_names(model_dir)
        self._model_dir = model_dir

    @property
    def conditional(self) -> bool:
        """Whether the model generates by class."""
        return "label" in self._sample.structured_input_signature[1]

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, by class id."""
        return self._names

    def draw(self, count: int, seed: int, label: str | None = None) -> np.ndarray:
        """Draws images.

        Args:
          count: how many.
          seed: the same seed gives the same images.
          label: name or id of the class to draw; None: classes at random.

        Returns:
          uint8 [count, H, W, C].

        Raises:
          ModelError: for a label the model does not know.
        """
        inputs = {
            "count": tf.constant(count, tf.int32),
            "seed": tf.constant(seed, tf.int64),
        }
        if label is not None or self.conditional:
            inputs["label"] = tf.constant(self._class_id(label), tf.int64)
        return self._sample(**inputs)["image"].numpy()

    def _class_id(self, label: str | None) -> int:
        if label is None:
            return -1
        if not self.conditional:
            raise ModelError(f"{self._model_dir}: the model has no labels; leave --label out")
        if label in self._names:
            return self._names.index(label)
        if _is_number(label) and int(label) < len(self._names):
            return int(label)
        raise ModelError(f"label {label!r} is not known; allowed: {', '.join(self._names)}")


def tile(images: np.ndarray, columns: int) -> np.ndarray:
    """Lays images out in rows.

    Args:
      images: uint8 [N, H, W, C].
      columns: images in a row; the last row is filled up with white.

    Returns:
      uint8 [rows * (H + 1) - 1, columns * (W + 1) - 1, C].
    """
    count, height, width, channels = images.shape
    rows = -(-count // columns)
    shape = (rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP, channels)
    canvas = np.full(shape, 255, np.uint8)
    for index, image in enumerate(images):
        top = index // columns * (height + _GAP)
        left = index % columns * (width + _GAP)
        canvas[top : top + height, left : left + width] = image
    return canvas


def write_grid(images: np.ndarray, columns: int, path: str, min_width: int = 480) -> None:
    """Writes images as one PNG, enlarged by a whole factor to at least `min_width` pixels."""
    canvas = tile(images, columns)
    factor = max(1, -(-min_width // canvas.shape[1]))
    canvas = canvas.repeat(factor, axis=0).repeat(factor, axis=1)
    picture = Image.fromarray(canvas[:, :, 0] if canvas.shape[2] == 1 else canvas)
    temporary = f"{path}.tmp"
    picture.save(temporary, format="PNG")
    os.replace(temporary, path)
