"""A training job without TFX: from a folder of TFRecords, or of plain arrays."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import tensorflow as tf

from trainer import data
from trainer.errors import TrainerError
from trainer.options import ModelOptions, TrainingJob, TrainingOptions

CLASS_NAMES_FILE = "class_names.txt"

#: Patterns of TFRecords to train on and held out, and of arrays.
_RECORDS = (("Split-train/*", "Split-eval/*"), ("train*", "eval*"))
_ARRAYS = (("train.npz", "eval.npz"), ("train", "eval"))
_ARRAY_SUFFIXES = (".npz", ".npy")
_WRITE_BATCH = 256


def make_job(
    model: ModelOptions, training: TrainingOptions, source: str, output: str
) -> TrainingJob:
    """Looks at the data and says what is to be done. Uses TensorFlow.

    Args:
      model: the networks.
      training: the training loop.
      source: folder of data, or `.npz` file; see `python -m trainer --help`.
      output: parent of all folders that are written. Arrays are copied into its `examples`.

    Raises:
      TrainerError: there is no data, or it does not fit what is to be trained.
    """
    train, heldout = find(source, os.path.join(output, "examples"))
    found = data.describe(train)
    classes = found.classes
    if classes > found.examples:
        raise TrainerError(
            f"--data {source}: got labels up to {classes - 1} for {found.examples} images; "
            "allowed: class ids from 0 on, no more of them than images"
        )
    if heldout:
        other = data.describe(heldout)
        if str(other) != str(found):
            raise TrainerError(
                f"--data {source}: the held-out images are {other}, those to train on {found}; "
                "allowed: the same for both"
            )
    if model.conditional is True and not classes:
        raise TrainerError(
            "model.conditional: got true, but the data has no labels; allowed: false or auto"
        )
    return TrainingJob(
        model=model,
        training=training,
        image_size=found.image_size,
        channels=found.channels,
        class_names=_class_names(source, classes),
        train_files=tuple(train),
        eval_files=tuple(heldout),
        warm_start_dir=training.warm_start and _absolute(training.warm_start),
        work_dir=os.path.join(_absolute(output), "training"),
        export_dir=os.path.join(_absolute(output), "model"),
        log_dir=os.path.join(_absolute(output), "log"),
    )


def find(source: str, copies: str) -> tuple[list[str], list[str]]:
    """TFRecord files to train on and held out; the latter may be none.

    Args:
      source: see `make_job`.
      copies: folder that TFRecords are written to where the source holds arrays.

    Raises:
      TrainerError: there is nothing to train on.
    """
    source = _absolute(source)
    for train, heldout in _RECORDS:
        if files := _records(source, train):
            return files, _records(source, heldout)
    if "://" not in source:
        for train, heldout in _ARRAYS:
            if os.path.exists(os.path.join(source, train)):
                return (
                    _copied(os.path.join(source, train), copies, "train"),
                    _copied(os.path.join(source, heldout), copies, "eval"),
                )
        if source.endswith(".npz") or os.path.exists(os.path.join(source, "images.npy")):
            return _copied(source, copies, "train"), []
    raise TrainerError(
        f"--data {source}: nothing to train on; allowed: a folder with TFRecords train* or in "
        "Split-train/, with train.npz, or with images.npy in it or in train/, or an .npz file"
    )


def _records(source: str, pattern: str) -> list[str]:
    found = tf.io.gfile.glob(os.path.join(source, pattern))
    return sorted(
        path for path in found if not path.endswith(_ARRAY_SUFFIXES) and not tf.io.gfile.isdir(path)
    )


def _copied(source: str, folder: str, split: str) -> list[str]:
    """Arrays as one TFRecord of transformed examples, written if it is not there yet."""
    if not os.path.exists(source):
        return []
    arrays = data.load_arrays(source)
    path = os.path.join(folder, f"{split}-{arrays.fingerprint[:16]}")
    try:
        if not tf.io.gfile.exists(path):
            tf.io.gfile.makedirs(folder)
            temporary = os.path.join(folder, f".tmp-{os.getpid()}-{split}")
            _write_all(arrays, temporary)
            tf.io.gfile.rename(temporary, path, overwrite=True)
    except tf.errors.OpError as error:
        raise TrainerError(
            f"--output: {path}: cannot be written ({' '.join(error.message.split())})"
        ) from error
    return [_absolute(path)]


def _write_all(arrays: data.Dataset, path: str) -> None:
    with tf.io.TFRecordWriter(path) as writer:
        for first in range(0, len(arrays), _WRITE_BATCH):
            places = np.arange(first, min(first + _WRITE_BATCH, len(arrays)))
            _write(writer, places, *arrays.gather(places), labelled=arrays.classes > 0)


def _write(
    writer: tf.io.TFRecordWriter,
    places: np.ndarray,
    images: np.ndarray,
    labels: np.ndarray,
    labelled: bool,
) -> None:
    for place, image, label in zip(places, images, labels, strict=True):
        example = tf.train.Example()
        features = example.features.feature
        features["image"].bytes_list.value.append(image.tobytes())
        features["example_id"].bytes_list.value.append(b"%020d" % place)
        if labelled:
            features["label"].int64_list.value.append(int(label))
        writer.write(example.SerializeToString())


def _class_names(source: str, classes: int) -> tuple[str, ...]:
    """Names by label: those beside the data, or numbers."""
    path = os.path.join(source, CLASS_NAMES_FILE)
    if not classes or not tf.io.gfile.exists(path):
        return tuple(map(str, range(classes)))
    with tf.io.gfile.GFile(path) as file:
        names = tuple(line.strip() for line in file.read().split("\n"))
    names = tuple(filter(None, names))
    if len(names) < classes:
        raise TrainerError(
            f"{path}: got {len(names)} names; the labels go up to {classes - 1}: "
            f"{classes} are needed"
        )
    return names


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).expanduser().absolute())
