"""Exercises an exported model as a stranger would: a script for a clean process.

    python -I checks.py MODEL_DIR EXPECTED_JSON REPORT_FILE

Writes a JSON list of `{"name", "ok", "detail"}`. Imports TensorFlow and NumPy, nothing else that
is not in the standard library, and makes sure that nothing else of ours could be imported.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import Any

# A model that needs one of these to load would not load where it is served.
for _module in ("trainer", "components", "pipeline", "tf_keras", "keras", "tfx"):
    sys.modules[_module] = None  # type: ignore[assignment]

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

BATCH_SIZES = (1, 7)
UNIFORM_LABEL = -1


#: Inputs of a signature: type and shape by name, None for a dimension of any size.
Inputs = dict[str, tuple[tf.DType, list]]


class CheckFailed(Exception):
    """What a signature did that its contract does not allow; one line."""


class Signatures:
    """The three signatures of an exported model, called the way a server would."""

    def __init__(self, model: Any, image_size: int, channels: int, classes: int):
        self._model = model  # the functions do not keep the variables alive
        self.functions = model.signatures
        self.image_shape = (image_size, image_size, channels)
        self.classes = classes
        self.conditional = "label" in self._inputs("serving_default")

    def _inputs(self, name: str) -> dict[str, tf.TensorSpec]:
        return self.functions[name].structured_input_signature[1]

    @property
    def latent_dim(self) -> int:
        """Length of a latent vector."""
        return int(self._inputs("serving_default")["latent"].shape[-1])

    def check_inputs(self, name: str, expected: Inputs):
        """Compares names, types and shapes of a signature's inputs with the contract."""
        found = {
            key: (spec.dtype, spec.shape.as_list()) for key, spec in self._inputs(name).items()
        }
        _require(found == expected, f"inputs are {_shown(found)}, not {_shown(expected)}")

    def generate(self, latent: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Images of latent vectors."""
        inputs = {"latent": tf.constant(latent, tf.float32), **self._label(labels)}
        return self._images(self.functions["serving_default"](**inputs), len(latent))

    def sample(self, count: int, seed: int, label: int) -> tuple[np.ndarray, list[bytes]]:
        """Images of a seed, and the same as PNG."""
        inputs = {"count": tf.constant(count, tf.int32), "seed": tf.constant(seed, tf.int64)}
        outputs = self.functions["sample"](**inputs, **self._label(label))
        images = self._images(outputs, count)
        encoded = outputs.get("png_bytes")
        _require(
            encoded is not None and encoded.dtype == tf.string and encoded.shape == [count],
            f"output png_bytes is {_described(encoded)}, not string [{count}]",
        )
        return images, list(encoded.numpy())

    def score(self, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """What the critic says of images."""
        outputs = self.functions["score"](image=tf.constant(images), **self._label(labels))
        critic: Any = outputs.get("critic")
        _require(
            critic is not None and critic.dtype == tf.float32 and critic.shape == [len(images)],
            f"output critic is {_described(critic)}, not float32 [{len(images)}]",
        )
        return critic.numpy()

    def labels(self, count: int) -> np.ndarray:
        """Class ids for a batch, each class in turn."""
        return np.arange(count, dtype=np.int64) % max(self.classes, 1)

    def _label(self, value: np.ndarray | int) -> dict[str, tf.Tensor]:
        return {"label": tf.constant(value, tf.int64)} if self.conditional else {}

    def _images(self, outputs: dict[str, tf.Tensor], count: int) -> np.ndarray:
        image: Any = outputs.get("image")
        shape = [count, *self.image_shape]
        _require(
            image is not None and image.dtype == tf.uint8 and image.shape == shape,
            f"output image is {_described(image)}, not uint8 {shape}",
        )
        return image.numpy()


def check_serving_default(model: Signatures) -> str:
    """Latents to images, for one and for several, by themselves or together."""
    label: Inputs = {"label": (tf.int64, [None])} if model.conditional else {}
    model.check_inputs(
        "serving_default", {"latent": (tf.float32, [None, model.latent_dim]), **label}
    )
    for count in BATCH_SIZES:
        latent = np.random.default_rng(count).standard_normal((count, model.latent_dim))
        images = model.generate(latent, model.labels(count))
        _require(
            np.array_equal(images, model.generate(latent, model.labels(count))),
            f"the same {count} latents gave different images",
        )
    _require(len(np.unique(images, axis=0)) > 1, "different latents gave the same image")
    return f"latent_dim {model.latent_dim}, {'conditional' if model.conditional else 'no label'}"


def check_sample(model: Signatures) -> str:
    """Seeds to images: the same seed the same images, another seed others."""
    label: Inputs = {"label": (tf.int64, [])} if model.conditional else {}
    model.check_inputs("sample", {"count": (tf.int32, []), "seed": (tf.int64, []), **label})
    for count in BATCH_SIZES:
        first, _ = model.sample(count, 1, UNIFORM_LABEL)
        again, _ = model.sample(count, 1, UNIFORM_LABEL)
        other, _ = model.sample(count, 2, UNIFORM_LABEL)
        _require(np.array_equal(first, again), "the same seed gave different images")
        _require(not np.array_equal(first, other), "different seeds gave the same images")
    return "same seed same images, other seed other images"


def check_sample_by_class(model: Signatures) -> str:
    """Every class can be asked for."""
    if not model.conditional:
        return "the model takes no label"
    _require(model.classes > 0, "it takes a label but assets.extra/class_names.txt is missing")
    for label in range(model.classes):
        model.sample(1, 1, label)
    return f"{model.classes} classes"


def check_png(model: Signatures) -> str:
    """The PNG of an image is that image."""
    images, encoded = model.sample(max(BATCH_SIZES), 3, UNIFORM_LABEL)
    for image, png in zip(images, encoded, strict=True):
        decoded = tf.io.decode_png(png, channels=image.shape[-1]).numpy()
        _require(np.array_equal(decoded, image), "png_bytes is not the image beside it")
    return f"{len(encoded)} decoded"


def check_score(model: Signatures) -> str:
    """The critic has a finite opinion of any image."""
    label: Inputs = {"label": (tf.int64, [None])} if model.conditional else {}
    model.check_inputs("score", {"image": (tf.uint8, [None, *model.image_shape]), **label})
    for count in BATCH_SIZES:
        noise = np.random.default_rng(count).integers(0, 256, (count, *model.image_shape))
        scores = model.score(noise.astype(np.uint8), model.labels(count))
        _require(np.isfinite(scores).all(), f"a score is not finite: {scores.tolist()}")
    return "finite"


def run(model_dir: str, image_size: int, channels: int) -> list[dict[str, Any]]:
    """All checks in order; those that need what failed before them are not made.

    Args:
      model_dir: the SavedModel.
      image_size: height and width that its images must have, in pixels.
      channels: 1 or 3.

    Returns:
      A `name`, `ok` and `detail` (one line) for each check that was made.
    """
    results: list[dict[str, Any]] = []

    def attempt(name: str, check: Callable[[], str]) -> bool:
        try:
            results.append({"name": name, "ok": True, "detail": check()})
        except Exception as error:  # whatever a model does wrong is a finding
            results.append({"name": name, "ok": False, "detail": _one_line(error)})
        return results[-1]["ok"]

    found: dict[str, Any] = {}

    def load() -> str:
        found["model"] = tf.saved_model.load(model_dir)
        return "without any of the code that made it"

    def signatures() -> str:
        names = sorted(found["model"].signatures)
        missing = {"serving_default", "sample", "score"} - set(names)
        _require(not missing, f"missing: {', '.join(sorted(missing))}; found: {', '.join(names)}")
        found["signatures"] = Signatures(
            found["model"], image_size, channels, len(_class_names(model_dir))
        )
        return ", ".join(names)

    if attempt("load", load) and attempt("signatures", signatures):
        for name, check in _CHECKS.items():
            attempt(name, functools.partial(check, found["signatures"]))
    return results


_CHECKS = {
    "serving_default": check_serving_default,
    "sample": check_sample,
    "sample by class": check_sample_by_class,
    "png": check_png,
    "score": check_score,
}


def _class_names(model_dir: str) -> list[str]:
    path = f"{model_dir}/assets.extra/class_names.txt"
    if not tf.io.gfile.exists(path):
        return []
    with tf.io.gfile.GFile(path) as file:
        return file.read().split("\n")[:-1]


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise CheckFailed(otherwise)


def _described(tensor: tf.Tensor | None) -> str:
    return "missing" if tensor is None else f"{tensor.dtype.name} {tensor.shape.as_list()}"


def _shown(inputs: Inputs) -> str:
    return ", ".join(f"{k} {dtype.name} {shape}" for k, (dtype, shape) in sorted(inputs.items()))


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, CheckFailed) else f"{type(error).__name__}: {text}"[:500]


def main() -> None:
    """Reads the command line, runs the checks, writes what they found."""
    model_dir, expected, report = sys.argv[1:]
    results = run(model_dir, **json.loads(expected))
    with open(report, "w", encoding="utf-8") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
