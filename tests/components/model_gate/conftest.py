"""Real images, and exported models whose quality is known: they draw from a bank of images."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from ml_metadata.proto import metadata_store_pb2
from sklearn import datasets
from tfx.orchestration import metadata

SIZE = 16
LATENT_DIM = 8


@dataclasses.dataclass(frozen=True)
class Digits:
    """Grey 16x16 digits: uint8 [N, 16, 16, 1], class ids int64 [N], in the order of classes."""

    images: np.ndarray
    labels: np.ndarray

    def part(self, start: int) -> Digits:
        """Every second digit."""
        return Digits(self.images[start::2], self.labels[start::2])


@pytest.fixture(scope="session")
def digits() -> Digits:
    data = datasets.load_digits()
    order = np.argsort(data.target, kind="stable")
    images = np.kron(data.images[order], np.ones((2, 2))) * (255 / 16)
    return Digits(images.astype(np.uint8)[..., np.newaxis], data.target[order].astype(np.int64))


class _Bank(tf.Module):
    """Looks images up by the first number of a latent, and spoils them by the second."""

    def __init__(self, bank: Digits, noise: float, conditional: bool):
        super().__init__()
        starts = np.searchsorted(bank.labels, np.arange(10))
        counts = np.bincount(bank.labels, minlength=10)
        self._images = tf.Variable(bank.images, trainable=False)
        self._starts = tf.constant(starts, tf.int64)
        self._counts = tf.constant(counts, tf.int64)
        self._noise = noise
        self.conditional = conditional
        self.size = bank.images.shape[1]

    def generate(self, latent: tf.Tensor, label: tf.Tensor | None) -> tf.Tensor:
        uniform = tf.cast(0.5 * (1 + tf.math.erf(latent[:, 0] / np.sqrt(2))), tf.float64)
        if label is None:
            start, count = 0, tf.shape(self._images, tf.int64)[0]
        else:
            start, count = tf.gather(self._starts, label), tf.gather(self._counts, label)
        offset = tf.cast(uniform * tf.cast(count, tf.float64), tf.int64)
        images = tf.cast(tf.gather(self._images, start + tf.minimum(offset, count - 1)), tf.float32)
        angle = latent[:, 1, None] * tf.range(1.0, 1.0 + self.size**2)
        noise = tf.reshape(tf.sin(angle * 12.9898) * 43758.5453 % 1.0, tf.shape(images))
        return tf.cast(images * (1 - self._noise) + 255 * self._noise * noise, tf.uint8)

    def sample(self, count: tf.Tensor, seed: tf.Tensor, label: tf.Tensor | None) -> dict:
        seeds = tf.stack([seed, tf.constant(0, tf.int64)])
        latent = tf.random.stateless_normal([count, LATENT_DIM], seeds, alg="philox")
        if label is not None:
            drawn = tf.random.stateless_uniform([count], seeds, 0, 10, tf.int64, alg="philox")
            label = tf.where(label < 0, drawn, label)
        images = self.generate(latent, label)
        return {"image": images, "png_bytes": _png(images)}

    def score(self, image: tf.Tensor) -> dict:
        return {"critic": tf.reduce_mean(tf.cast(image, tf.float32), [1, 2, 3]) / 255}


def _png(images: tf.Tensor) -> tf.Tensor:
    return tf.map_fn(tf.io.encode_png, images, fn_output_signature=tf.string)


CLASS_NAMES = tuple(f"digit {label}" for label in range(10))


def export(
    path: Path,
    bank: Digits,
    noise: float = 0.0,
    conditional: bool = True,
    class_names: tuple[str, ...] = CLASS_NAMES,
) -> Path:
    """Exports a model with the contracted signatures.

    Args:
      path: the SavedModel's folder.
      bank: images to draw from, ordered by label.
      noise: share of noise in each image: 0 is as good as real, 1 is noise.
      conditional: whether the signatures take a label.
      class_names: by class id.
    """
    module = _Bank(bank, noise, conditional)
    vector, scalar = (tf.TensorSpec(shape, tf.int64, name="label") for shape in ([None], []))
    latent = tf.TensorSpec([None, LATENT_DIM], tf.float32, name="latent")
    image = tf.TensorSpec([None, *bank.images.shape[1:]], tf.uint8, name="image")
    count = tf.TensorSpec([], tf.int32, name="count")
    seed = tf.TensorSpec([], tf.int64, name="seed")
    if conditional:
        functions = {
            "serving_default": (lambda z, y: {"image": module.generate(z, y)}, [latent, vector]),
            "sample": (module.sample, [count, seed, scalar]),
            "score": (lambda x, y: module.score(x), [image, vector]),
        }
    else:
        functions = {
            "serving_default": (lambda z: {"image": module.generate(z, None)}, [latent]),
            "sample": (lambda n, s: module.sample(n, s, None), [count, seed]),
            "score": (module.score, [image]),
        }
    signatures = {
        name: tf.function(function).get_concrete_function(*specs)
        for name, (function, specs) in functions.items()
    }
    tf.saved_model.save(module, str(path), signatures)
    names = path / "assets.extra" / "class_names.txt"
    names.parent.mkdir()
    names.write_text("".join(f"{name}\n" for name in class_names))
    return path


@pytest.fixture(scope="session")
def export_model() -> Callable[..., Path]:
    """`export`, for tests that need a model of their own."""
    return export


@pytest.fixture(scope="session")
def models(tmp_path_factory, digits) -> dict[str, Path]:
    """Exported models by name, each in `<artifact>/Format-Serving`."""
    root = tmp_path_factory.mktemp("models")
    kinds = {
        "good": {},
        "slightly_worse": {"noise": 0.004},
        "worse": {"noise": 0.15},
        "noise": {"noise": 1.0},
        "unconditional": {"conditional": False},
    }
    return {
        name: export(root / name / "Format-Serving", digits.part(0), **kind)
        for name, kind in kinds.items()
    }


@dataclasses.dataclass(frozen=True)
class Ran:
    """One node of one run: whether its outputs came from the cache, and what they are.

    Attributes:
      cached: whether TFX used an earlier execution.
      uris: by output.
      properties: custom properties of all outputs together.
    """

    cached: bool
    uris: dict[str, str]
    properties: dict[str, int | str]

    def __getitem__(self, name: str) -> int | str:
        return self.properties[name]


@pytest.fixture(scope="session")
def last_run() -> Callable[[Path, str], Ran]:
    """Reads what a node did in the latest run: (metadata.sqlite, id of the node) -> Ran."""

    def read(database: Path, node: str) -> Ran:
        config = metadata.sqlite_metadata_connection_config(str(database))
        with metadata.Metadata(config) as handle:
            [context] = [
                context
                for context in handle.store.get_contexts_by_type("node")
                if context.name.endswith(f".{node}")
            ]
            execution = max(
                handle.store.get_executions_by_context(context.id), key=lambda found: found.id
            )
            outputs = {
                event.artifact_id: event.path.steps[0].key
                for event in handle.store.get_events_by_execution_ids([execution.id])
                if event.type == metadata_store_pb2.Event.OUTPUT
            }
            artifacts = handle.store.get_artifacts_by_id(list(outputs))
        return Ran(
            cached=execution.last_known_state == metadata_store_pb2.Execution.CACHED,
            uris={outputs[artifact.id]: artifact.uri for artifact in artifacts},
            properties={
                name: getattr(value, value.WhichOneof("value"))
                for artifact in artifacts
                for name, value in artifact.custom_properties.items()
            },
        )

    return read
