"""ImageExampleGen and Transform together: one set of images, three kinds of source."""

import gzip
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
import tensorflow as tf
import tensorflow_transform as tft
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2
from tfx import v1 as tfx
from tfx.types import channel_utils

from components.image_example_gen import decoding
from components.image_example_gen.component import ImageExampleGen

_DIGITS = sklearn.datasets.load_digits()
_SIZE = 16
# Named 5 to 14, so that sorting as text differs from sorting as numbers: "10" before "5".
_NAMES = np.array([str(digit + 5) for digit in _DIGITS.target])
_PIXELS = np.round(_DIGITS.images * 255 / 16).astype(np.uint8)
_PARTS = {"train": slice(0, 60), "test": slice(60, 100)}

_SCHEMA = """
feature { name: "image" type: BYTES presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "example_id" type: BYTES presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "label" type: BYTES %s }
"""
_DENSE = "presence { min_fraction: 1 } shape { dim { size: 1 } }"


def _png_tree(root: Path) -> Path:
    for split, part in _PARTS.items():
        for index, (pixels, name) in enumerate(zip(_PIXELS[part], _NAMES[part], strict=True)):
            path = root / split / name / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(decoding.encode_pixels(pixels, "x").data)
    return root


def _idx(root: Path) -> Path:
    root.mkdir()
    for split, part in _PARTS.items():
        stem = {"train": "train", "test": "t10k"}[split]
        head = struct.pack(">4i", 2051, len(_PIXELS[part]), 8, 8)
        path = root / f"{stem}-images-idx3-ubyte.gz"
        path.write_bytes(gzip.compress(head + _PIXELS[part].tobytes()))
        labels = np.array([int(name) for name in _NAMES[part]], np.uint8)
        head = struct.pack(">2i", 2049, len(labels))
        (root / f"{stem}-labels-idx1-ubyte").write_bytes(head + labels.tobytes())
    return root


def _tfrecords(root: Path) -> Path:
    root.mkdir()
    for split, part in _PARTS.items():
        with tf.io.TFRecordWriter(str(root / f"x-{split}.tfrecord-00000-of-00001")) as writer:
            for pixels, name in zip(_PIXELS[part], _NAMES[part], strict=True):
                features = {
                    "image/encoded": decoding.encode_pixels(pixels, "x").data,
                    "image/class/text": name.encode(),
                }
                example = tf.train.Example()
                for key, value in features.items():
                    example.features.feature[key].bytes_list.value.append(value)
                writer.write(example.SerializeToString())
    return root


class _Transformed:
    """What a pipeline of several ImageExampleGens and one Transform left behind."""

    def __init__(self, root: Path, inputs: dict[str, str], label_shape: str, **options):
        schema = root / "schema.pbtxt"
        schema.write_text(_SCHEMA % label_shape)
        gens = [
            ImageExampleGen(input=str(given), **options).with_id(name)
            for name, given in inputs.items()
        ]
        imported = tfx.components.ImportSchemaGen(schema_file=str(schema))
        transform = tfx.components.Transform(
            examples=channel_utils.union([gen.outputs["examples"] for gen in gens]),
            schema=imported.outputs["schema"],
            preprocessing_fn="components.transform.preprocessing.preprocessing_fn",
            disable_statistics=True,
            custom_config={"image_size": _SIZE, "channels": 1, "source": "hash"},
        )
        connection = tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(root / "metadata.sqlite")
        )
        tfx.orchestration.LocalDagRunner().run(
            tfx.dsl.Pipeline(
                pipeline_name="transform",
                pipeline_root=str(root / "pipeline"),
                components=[*gens, imported, transform],
                metadata_connection_config=connection,
            )
        )
        config = metadata_store_pb2.ConnectionConfig()
        config.sqlite.filename_uri = str(root / "metadata.sqlite")
        store = metadata_store.MetadataStore(config)
        (graph,) = store.get_artifacts_by_type("TransformGraph")
        self.graph = tft.TFTransformOutput(graph.uri)
        examples = sorted(store.get_artifacts_by_type("Examples"), key=lambda one: one.id)
        self.uris = {
            name: Path(artifact.uri)
            for name, artifact in zip(inputs, examples[len(inputs) :], strict=True)
        }

    def read(self, name: str, split: str) -> list[dict]:
        files = [str(path) for path in (self.uris[name] / f"Split-{split}").iterdir()]
        records = tf.data.TFRecordDataset(files, "GZIP")
        spec = self.graph.transformed_feature_spec()
        return [
            {key: value.numpy() for key, value in tf.io.parse_single_example(r, spec).items()}
            for r in records
        ]


@pytest.fixture(scope="module")
def agreed(tmp_path_factory) -> _Transformed:
    root = tmp_path_factory.mktemp("agreed")
    inputs = {
        "png": _png_tree(root / "png"),
        "idx": _idx(root / "idx"),
        "tfrecord": _tfrecords(root / "tfrecord"),
    }
    return _Transformed(root, inputs, _DENSE)


def _reference(part: slice) -> Counter:
    names = sorted(set(_NAMES[_PARTS["train"]]))
    size = [_SIZE, _SIZE]
    resized = tf.image.resize(_PIXELS[part][..., None], size, antialias=True).numpy()
    images = np.round(resized).astype(np.uint8)
    return Counter(
        (image.tobytes(), names.index(name))
        for image, name in zip(images, _NAMES[part], strict=True)
    )


@pytest.mark.parametrize("name", ["png", "idx", "tfrecord"])
def test_transform_every_kind_of_source_gives_the_same_examples(agreed, name):
    for split, part in (("train", _PARTS["train"]), ("eval", _PARTS["test"])):
        found = agreed.read(name, split)
        assert Counter((one["image"], one["label"]) for one in found) == _reference(part)
        ids = {one["example_id"] for one in found}
        assert len(ids) == len(found)


def test_transform_spec_is_one_value_each(agreed):
    spec = agreed.graph.transformed_feature_spec()
    assert {key: (one.dtype, one.shape) for key, one in spec.items()} == {
        "image": (tf.string, []),
        "label": (tf.int64, []),
        "example_id": (tf.string, []),
    }


def test_transform_vocabulary_is_names_in_descending_order(agreed):
    words = Path(agreed.graph.vocabulary_file_by_name("label")).read_text().splitlines()
    assert words[::-1] == sorted(set(_NAMES))
    assert words[::-1][:2] == ["10", "11"]


def test_transform_graph_serves_raw_images_alone(agreed):
    part = _PARTS["train"]
    encoded = [[decoding.encode_pixels(pixels, "x").data] for pixels in _PIXELS[part]]
    served = agreed.graph.transform_raw_features(
        {"image": tf.constant(encoded)}, drop_unused_features=True
    )
    assert set(served) == {"image"}
    expected = Counter(image for image, _ in _reference(part).elements())
    assert Counter(served["image"].numpy()) == expected


def test_transform_name_unknown_to_training_is_no_class(agreed):
    image = decoding.encode_pixels(_PIXELS[0], "x").data
    raw = {
        "image": tf.constant([[image], [image]]),
        "example_id": tf.constant([["a"], ["b"]]),
        "label": tf.constant([["never seen"], ["10"]]),
    }
    outputs = agreed.graph.transform_raw_features(raw)
    assert outputs["label"].numpy().tolist() == [-1, 0]


def test_transform_sparse_labels_and_empty_split_give_no_class_and_no_examples(tmp_path):
    root = tmp_path / "data"
    for index, path in enumerate(["cat/1.png", "dog/2.png", "3.png"]):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(decoding.encode_pixels(_PIXELS[index], "x").data)
    done = _Transformed(tmp_path, {"only": str(root)}, "", eval_fraction=1e-9)
    assert sorted(one["label"] for one in done.read("only", "train")) == [-1, 0, 1]
    assert done.read("only", "eval") == []
