"""Images from an exported model."""

from __future__ import annotations

import os

import numpy as np
import tensorflow as tf

from trainer import class_names


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
        self._names = class_names.read(model_dir)
        self._model_dir = model_dir

    @property
    def conditional(self) -> bool:
        """Whether the model generates by class."""
        return "label" in self._sample.structured_input_signature[1]

    @property
    def class_names(self) -> tuple[str, ...]:
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

    def interpolate(self, rows: int, columns: int, seed: int) -> np.ndarray:
        """Draws images along arcs between pairs of latents.

        Spherical interpolation (arXiv 1609.04468) keeps to latents as long as those that the
        generator was trained on. A conditional model draws each row of one class, the classes in
        turn.

        Args:
          rows: pairs of latents.
          columns: images a pair, both ends included.
          seed: the same seed gives the same images.

        Returns:
          uint8 [rows * columns, H, W, C], row by row.
        """
        serve = self._loaded.signatures["serving_default"]
        latent_dim = serve.structured_input_signature[1]["latent"].shape[1]
        random = np.random.default_rng(seed)
        ends = random.standard_normal([2, rows, latent_dim])
        inputs = {
            "latent": tf.constant(
                arc(ends[0], ends[1], columns).reshape([-1, latent_dim]), tf.float32
            )
        }
        if self.conditional:
            label = np.arange(rows) % max(len(self._names), 1)
            inputs["label"] = tf.constant(np.repeat(label, columns), tf.int64)
        return serve(**inputs)["image"].numpy()

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


def arc(first: np.ndarray, last: np.ndarray, points: int) -> np.ndarray:
    """Points at equal angles on the arcs between vectors (spherical interpolation).

    Args:
      first: float [N, D], none of them 0.
      last: float [N, D], of other directions.
      points: how many, ends included.

    Returns:
      float [N, points, D].
    """
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(last, axis=1)
    angle = np.arccos(np.sum(first * last, axis=1) / lengths)[:, None, None]
    part = np.linspace(0.0, 1.0, points)[None, :, None]
    along = np.sin((1 - part) * angle) * first[:, None] + np.sin(part * angle) * last[:, None]
    return along / np.sin(angle)
