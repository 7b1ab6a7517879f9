"""A generator to be judged: a SavedModel, and latents that depend on nothing but the example."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from trainer import class_names

SIGNATURE = "serving_default"
#: Images that are generated at a time.
_BATCH_SIZE = 64


class ModelError(ValueError):
    """A model that cannot be evaluated; the message is one line."""


@dataclasses.dataclass(frozen=True)
class ModelTraits:
    """What can be told of a generator without calling it.

    Attributes:
      latent_dim: length of a latent vector.
      conditional: whether it takes a label.
      class_names: by class id; empty when trained without labels.
      image_shape: [height, width, channels].
    """

    latent_dim: int
    conditional: bool
    class_names: tuple[str, ...]
    image_shape: tuple[int, ...]


class Generator:
    """Calls a SavedModel's `serving_default`."""

    def __init__(self, model_dir: str):
        """Loads the model.

        Args:
          model_dir: the SavedModel.

        Raises:
          ModelError: where it cannot be loaded, or lacks the signature, an input, an output or
            its class names, or makes something else than uint8 images of one size.
        """
        try:
            self._model = tf.saved_model.load(model_dir)  # keeps the variables alive
        except Exception as error:  # TensorFlow raises whatever its reader met
            why = " ".join(str(error).split())[:200]
            raise ModelError(f"model {model_dir}: cannot be loaded: {why}") from error
        if SIGNATURE not in self._model.signatures:
            raise ModelError(f"model {model_dir}: has no signature {SIGNATURE}; export it anew")
        self._function = self._model.signatures[SIGNATURE]
        inputs = self._function.structured_input_signature[1]
        outputs = self._function.structured_outputs
        if "latent" not in inputs or "image" not in outputs:
            raise ModelError(
                f"model {model_dir}: {SIGNATURE} takes {sorted(inputs)} and gives "
                f"{sorted(outputs)}; needed: latent, and image"
            )
        latent, image = inputs["latent"], outputs["image"]
        shapes = latent.shape[1:], image.shape[1:]
        if image.dtype != tf.uint8 or [shape.rank for shape in shapes] != [1, 3]:
            raise ModelError(
                f"model {model_dir}: {SIGNATURE} makes {image.dtype.name} {image.shape} of "
                f"{latent.shape}; needed: uint8 [N, H, W, C] of [N, D]"
            )
        if not all(shape.is_fully_defined() for shape in shapes):
            raise ModelError(
                f"model {model_dir}: {SIGNATURE} makes {image.shape} of {latent.shape}, of no "
                "fixed size; export it anew"
            )
        self.traits = ModelTraits(
            latent_dim=int(latent.shape[-1]),
            conditional="label" in inputs,
            class_names=class_names.read(model_dir),
            image_shape=tuple(image.shape.as_list()[1:]),
        )
        if self.traits.conditional and not self.traits.class_names:
            raise ModelError(
                f"model {model_dir}: takes a label, but has no {class_names.CLASS_NAMES_FILE}; "
                "export it anew"
            )

    def __call__(self, latents: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
        """Generates images.

        Args:
          latents: float32 [N, latent_dim].
          labels: int64 [N], this model's own class ids; ignored unless it is conditional.

        Returns:
          uint8 [N, H, W, C].
        """
        if not self.traits.conditional:
            labels = None
        elif labels is None:
            raise ModelError("the model takes a label, but the examples have none")
        images = []
        for start in range(0, len(latents), _BATCH_SIZE):
            rows = slice(start, start + _BATCH_SIZE)
            # Always of one size: the last digits of an image may depend on it.
            inputs = {"latent": tf.constant(_padded(latents[rows]))}
            if labels is not None:
                inputs["label"] = tf.constant(_padded(labels[rows]), tf.int64)
            images.append(self._function(**inputs)["image"].numpy())
        return np.concatenate(images)[: len(latents)]


def latents(example_ids: Sequence[bytes], seed: int, latent_dim: int) -> np.ndarray:
    """A standard normal vector for each example, whatever the order, batch or worker.

    Args:
      example_ids: unique names of examples.
      seed: of the evaluation.
      latent_dim: length of a vector. A longer one begins with the shorter.

    Returns:
      float32 [N, latent_dim].
    """
    rows = [_stream(example_id, seed).standard_normal(latent_dim) for example_id in example_ids]
    return np.asarray(rows, np.float32).reshape(len(rows), latent_dim)


def labels_for(
    model: ModelTraits, labels: np.ndarray, names: Sequence[str], example_ids: Sequence[bytes]
) -> np.ndarray:
    """Class ids of the data as those of a model, by name.

    Ids are positions in a sorted list of names, so a class that was added since moves others.

    Args:
      model: a conditional model.
      labels: int64 [N], positions in `names`; anything else for a class that has no name.
      names: classes of the data.
      example_ids: unique names of the N examples.

    Returns:
      int64 [N], positions in the model's own list. For a class that the model does not know, any
      that it knows, drawn by example: what it makes is as wrong as it would be when served.
    """
    positions = {name: position for position, name in enumerate(model.class_names)}
    table = [positions.get(name, -1) for name in names]
    found = [table[label] if 0 <= label < len(table) else -1 for label in labels]
    for row, example_id in enumerate(example_ids):
        if found[row] < 0:
            found[row] = _digest(example_id, 0) % len(model.class_names)
    return np.asarray(found, np.int64)


def _padded(rows: np.ndarray) -> np.ndarray:
    """As many rows as are generated at a time, the last one again and again."""
    return np.pad(rows, [(0, _BATCH_SIZE - len(rows)), *[(0, 0)] * (rows.ndim - 1)], mode="edge")


def _stream(example_id: bytes, seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=_digest(example_id, seed)))


def _digest(example_id: bytes, seed: int) -> int:
    """128 bits that depend on nothing else."""
    digest = hashlib.sha256(seed.to_bytes(8, "big") + example_id).digest()
    return int.from_bytes(digest[:16], "big")
