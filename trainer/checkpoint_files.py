"""One checkpoint on disk: a folder that can be verified before it is used.

- `variables.index` and `variables.data-00000-of-00001`: a TensorFlow bundle, which
  `tf.train.load_checkpoint(".../step-00000500/variables")` reads. Its keys are the names that the
  variables were given by the caller ("critic/down_0/kernel").
- `history.json`: the step, the run's history, dtypes and shapes of all variables by name, the hash
  of the bundle's index, and a hash of all that. The index holds a checksum of every tensor, so
  this one file vouches for the whole folder. It is written last, and moved last.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer.history import History

RECORD = "history.json"
#: Prefix of the bundle's files.
BUNDLE = "variables"
#: What the operating system, a file system or the bundle reader may refuse with.
REFUSALS = (OSError, tf.errors.OpError)


class UnusableError(Exception):
    """A checkpoint is broken, or not of these variables; the message is the reason."""


#: By name: dtype and shape of a variable, as JSON has them.
Signature = Mapping[str, list[Any]]


def write(path: str, step: int, history: History, tensors: Mapping[str, tf.Tensor]) -> None:
    """Fills a new folder, and returns when it is on the disk. Raises one of REFUSALS."""
    tf.io.gfile.makedirs(path)
    prefix = os.path.join(path, BUNDLE)
    with tf.device("/CPU:0"):
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=list(tensors),
            shape_and_slices=[""] * len(tensors),
            tensors=list(tensors.values()),
        )
    record = {
        "step": step,
        "history": history.model_dump(mode="json"),
        "variables": {
            name: [tensor.dtype.name, list(tensor.shape)] for name, tensor in tensors.items()
        },
        "index": _hash(_read_bytes(f"{prefix}.index")),
    }
    _write_record(os.path.join(path, RECORD), record)
    for name in tf.io.gfile.listdir(path):
        sync(os.path.join(path, name))
    sync(path)


def read(path: str, step: int, signature: Signature) -> tuple[History, list[tf.Tensor]]:
    """Reads and verifies a whole checkpoint.

    Args:
      path: of its folder.
      step: it is expected to be of.
      signature: the variables it is expected to hold.

    Returns:
      Its history, and its tensors on the host, in the order of `signature`.

    Raises:
      UnusableError: it is broken, or of other variables.
    """
    record = _read_record(path, step)
    _compare(record["variables"], signature)
    prefix = os.path.join(path, BUNDLE)
    try:
        if _hash(_read_bytes(f"{prefix}.index")) != record["index"]:
            raise UnusableError(f"its {BUNDLE}.index is damaged")
        with tf.device("/CPU:0"):
            tensors = tf.raw_ops.RestoreV2(
                prefix=prefix,
                tensor_names=list(signature),
                shape_and_slices=[""] * len(signature),
                dtypes=[tf.as_dtype(dtype) for dtype, _ in signature.values()],
            )
    except REFUSALS as error:
        raise UnusableError(f"its {BUNDLE} cannot be read ({reason(error)})") from error
    return record["history"], tensors


def read_history(path: str, step: int) -> History:
    """The history in a checkpoint, without its variables. Raises UnusableError."""
    history: History = _read_record(path, step)["history"]
    return history


def replace_history(path: str, step: int, history: History) -> None:
    """Puts another history into a checkpoint, all at once.

    Raises:
      UnusableError: the record that is there is broken.
      OSError, tf.errors.OpError: it cannot be written; the one before it stays.
    """
    record = _read_record(path, step) | {"history": history.model_dump(mode="json")}
    target = os.path.join(path, RECORD)
    _write_record(f"{target}.new", record)
    sync(f"{target}.new")
    tf.io.gfile.rename(f"{target}.new", target, overwrite=True)
    sync(path)


def move(path: str, target: str) -> None:
    """Renames a folder: at once on a local disk, elsewhere file by file, the record last."""
    if is_local(path):
        tf.io.gfile.rename(path, target)
        sync(os.path.dirname(target))
        return
    tf.io.gfile.makedirs(target)
    for name in sorted(names(path), key=lambda name: name == RECORD):
        tf.io.gfile.rename(os.path.join(path, name), os.path.join(target, name))
    tf.io.gfile.rmtree(path)


def remove(path: str, *, through: str) -> None:
    """Deletes a checkpoint's folder, which is at no moment half a checkpoint.

    Args:
      path: of the folder.
      through: temporary name for it on a local disk. Elsewhere its record goes first.
    """
    if is_local(path):
        move(path, through)
        path = through
    elif tf.io.gfile.exists(os.path.join(path, RECORD)):
        tf.io.gfile.remove(os.path.join(path, RECORD))
    tf.io.gfile.rmtree(path)


def names(folder: str) -> list[str]:
    """Names in a folder; object stores end those of folders in a slash."""
    return [name.rstrip("/") for name in tf.io.gfile.listdir(folder)]


def is_local(path: str) -> bool:
    """Whether the operating system knows this path."""
    return "://" not in path


def sync(path: str) -> None:
    """Waits until a local file, or the names in a local folder, are on the disk."""
    if not is_local(path):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reason(error: Exception) -> str:
    """Why, in a few words: without TensorFlow's names of operations, and without paths."""
    text = str(error)
    if isinstance(error, tf.errors.OpError):
        text = re.sub(r"\{\{.*?\}\}|\[Op:.*", "", error.message)
        text = text.rpartition("; ")[2]  # "path; No space left on device"
    elif isinstance(error, OSError):
        text = error.strerror or text
    return text.strip().split("\n")[0] or type(error).__name__


def _read_bytes(path: str) -> bytes:
    with tf.io.gfile.GFile(path, "rb") as file:
        content: bytes = file.read()
    return content


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _record_hash(record: Mapping[str, Any]) -> str:
    hashed = {key: value for key, value in record.items() if key != "hash"}
    return _hash(json.dumps(hashed, sort_keys=True).encode())


def _write_record(path: str, record: Mapping[str, Any]) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps({**record, "hash": _record_hash(record)}, indent=1))


def _read_record(path: str, step: int) -> dict[str, Any]:
    """`history.json`, with a History in it. Raises UnusableError."""
    try:
        text = _read_bytes(os.path.join(path, RECORD))
    except tf.errors.NotFoundError as error:
        raise UnusableError(f"its {RECORD} is missing") from error
    except REFUSALS as error:
        raise UnusableError(f"its {RECORD} cannot be read ({reason(error)})") from error
    try:
        record = json.loads(text)
        intact = record["hash"] == _record_hash(record)
    except (ValueError, TypeError, KeyError, AttributeError):
        intact = False
    if not intact:
        raise UnusableError(f"its {RECORD} is damaged")
    if record["step"] != step:
        raise UnusableError(f"its {RECORD} is of step {record['step']}")
    try:
        record["history"] = History.model_validate(record["history"])
    except ValueError as error:
        raise UnusableError(f"its {RECORD} holds another kind of history") from error
    return record


def _compare(found: Signature, expected: Signature) -> None:
    for name in [*expected, *found]:
        if name not in found:
            raise UnusableError(f"variable {name} is not in it")
        if name not in expected:
            raise UnusableError(f"it holds {name}, which is no variable of this training")
        if list(found[name]) != list(expected[name]):
            there, here = ("{} {}".format(*one) for one in (found[name], expected[name]))
            raise UnusableError(f"variable {name} is {there} in it, and {here} here")
