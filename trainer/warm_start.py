"""Weights to begin with: those of an exported SavedModel, or of a checkpoint.

Only networks are taken over. Optimizers start afresh: their moments belong to gradients of the old
data, and an export does not hold them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from trainer.checkpoint_files import BUNDLE
from trainer.errors import TrainerError
from trainer.export import CRITIC_WEIGHTS, GENERATOR_WEIGHTS
from trainer.state import State

#: Which part of a state each attribute of an export holds: it is the average that is served.
_EXPORTED = {GENERATOR_WEIGHTS: "ema_generator", CRITIC_WEIGHTS: "critic"}
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
#: Where the weights of each part come from, best first.
_SOURCES = {
    "generator": ("generator", "ema_generator"),
    "ema_generator": ("ema_generator",),
    "critic": ("critic",),
}
#: Settings that decide the shapes of a part's variables.
_SETTINGS = {
    "generator": "model.generator_channels, model.latent_dim",
    "ema_generator": "model.generator_channels, model.latent_dim",
    "critic": "model.critic_channels, data.channels",
}


@dataclasses.dataclass(frozen=True)
class Weights:
    """Weights of both networks, in memory.

    Attributes:
      path: where they came from.
      fingerprint: hash of names, shapes and values.
    """

    path: str
    fingerprint: str
    _values: Mapping[str, np.ndarray]  # by name, e.g. critic/down_0/kernel

    def assign_to(self, state: State) -> None:
        """Sets the networks of a state.

        The average generator becomes that of the source; the generator too, unless the source
        is a checkpoint, which has both.

        Args:
          state: of which `generator`, `ema_generator` and `critic` are changed.

        Raises:
          TrainerError: the networks are not those of the source; nothing is changed.
        """
        names = {name.partition("/")[0] for name in self._values}
        found = {}
        for part, sources in _SOURCES.items():
            source = next(source for source in sources if source in names)
            found[part] = self._matched(part, source, state.variables())
        for pairs in found.values():
            for variable, value in pairs:
                variable.assign(tf.cast(value, variable.dtype))

    def _matched(
        self, part: str, source: str, variables: Mapping[str, tf.Variable]
    ) -> list[tuple[tf.Variable, np.ndarray]]:
        given = _below(source, self._values)
        wanted = _below(part, variables)
        if odd := sorted(given.keys() ^ wanted.keys()):
            whose = "only there" if odd[0] in given else "not there"
            raise TrainerError(
                f"training.warm_start: {self.path} holds another {part}: {odd[0]} is {whose}; "
                "model.architecture, the norms, model.conditional and data.image_size must be "
                "those it was trained with"
            )
        for name, variable in wanted.items():
            if variable.shape != given[name].shape:
                raise TrainerError(
                    f"training.warm_start: {self.path} holds another {part}: {name} is "
                    f"{list(given[name].shape)}, not {variable.shape.as_list()}; "
                    f"{_SETTINGS[part]}, data.image_size and the number of labels must be those "
                    "it was trained with"
                )
        return [(variable, given[name]) for name, variable in wanted.items()]


def load(path: str) -> Weights:
    """Reads the weights of both networks.

    Args:
      path: folder of a SavedModel that `export.save` wrote, or of one checkpoint
        (`step-00000500`); local or anything `tf.io.gfile` opens.

    Raises:
      TrainerError: it is neither, or cannot be read.
    """
    try:
        if tf.io.gfile.exists(os.path.join(path, "saved_model.pb")):
            values = _exported(os.path.join(path, "variables", "variables"))
        else:
            values = _saved(os.path.join(path, BUNDLE))
    except (tf.errors.OpError, OSError, ValueError, RuntimeError) as error:
        why = " ".join(str(error).split())[:200]
        raise TrainerError(
            f"training.warm_start: {path}: cannot be read ({why}); allowed: a SavedModel or a "
            "checkpoint that this trainer wrote"
        ) from error
    if not {name.partition("/")[0] for name in values} >= {"ema_generator", "critic"}:
        raise TrainerError(
            f"training.warm_start: {path}: holds no weights by name; allowed: a SavedModel or a "
            "checkpoint that this version of the trainer wrote"
        )
    digest = hashlib.sha256()
    for name, value in sorted(values.items()):
        digest.update(f"{name} {value.dtype} {value.shape}\0".encode())
        digest.update(np.ascontiguousarray(value).data)
    return Weights(path, digest.hexdigest(), values)


def _exported(prefix: str) -> dict[str, np.ndarray]:
    """From the checkpoint inside a SavedModel: keys are paths of attributes, names escaped."""
    values = {}
    reader = tf.train.load_checkpoint(prefix)
    for key in reader.get_variable_to_shape_map():
        attribute, _, name = key.removesuffix(_VALUE).partition("/")
        if attribute in _EXPORTED and name:
            name = name.replace(".S", "/").replace("..", ".")
            values[f"{_EXPORTED[attribute]}/{name}"] = reader.get_tensor(key)
    return values


def _saved(prefix: str) -> dict[str, np.ndarray]:
    """From a checkpoint of a training: names are those of `State.variables`."""
    reader = tf.train.load_checkpoint(prefix)
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.partition("/")[0] in _SOURCES
    }


def _below(part: str, found: Mapping) -> dict:
    return {
        name.removeprefix(f"{part}/"): value
        for name, value in found.items()
        if name.startswith(f"{part}/")
    }
