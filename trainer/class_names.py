"""Names of the classes, kept beside a SavedModel: one a line, in the order of their ids."""

from __future__ import annotations

import os
from collections.abc import Sequence

import tensorflow as tf

CLASS_NAMES_FILE = "assets.extra/class_names.txt"


def write(model_dir: str, names: Sequence[str]) -> None:
    """Keeps the names in a SavedModel's folder."""
    path = os.path.join(model_dir, CLASS_NAMES_FILE)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "w") as file:
        file.write("".join(f"{name}\n" for name in names))


def read(model_dir: str) -> tuple[str, ...]:
    """The names that are kept in a SavedModel's folder; none where it was made without labels."""
    path = os.path.join(model_dir, CLASS_NAMES_FILE)
    if not tf.io.gfile.exists(path):
        return ()
    with tf.io.gfile.GFile(path) as file:
        # Not splitlines: to it, some characters that a name may hold end a line as well.
        return tuple(file.read().split("\n")[:-1])
