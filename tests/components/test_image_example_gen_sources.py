"""What inputs are taken for, what is read of them, and what is said of those that are none."""

import gzip
import os
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest
import sklearn.datasets
import tensorflow as tf

from components.image_example_gen import decoding
from components.image_example_gen.sources import Source, SourceError, open_source

_PIXELS = np.round(sklearn.datasets.load_digits().images[:20] * 255 / 16).astype(np.uint8)
_LABELS = sklearn.datasets.load_digits().target[:20]


def _png(index: int) -> bytes:
    return decoding.encode_pixels(_PIXELS[index % 20], "digits").data


def _tree(root, paths):
    for index, path in enumerate(paths):
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_png(index) if file.suffix.lower() in (".png", ".jpg") else b"text")
    return str(root)


def _read(source: Source) -> list:
    # As on a worker: every chunk has to survive the way there.
    return [
        (chunk.split, image)
        for chunk in source.chunks
        for image in pickle.loads(pickle.dumps(chunk)).read()
    ]


def _seen(source: Source) -> set:
    return {(split, image.path, image.label) for split, image in _read(source)}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["a.png", "b.PNG"], {(None, "a.png", None), (None, "b.PNG", None)}),
        (["cat/1.png", "dog/2.jpg"], {(None, "cat/1.png", "cat"), (None, "dog/2.jpg", "dog")}),
        (
            ["cat/persian/1.png", "cat/2.png", "dog/x/y/3.png"],
            {
                (None, "cat/persian/1.png", "cat"),
                (None, "cat/2.png", "cat"),
                (None, "dog/x/y/3.png", "dog"),
            },
        ),
        (["stray.png", "cat/1.png"], {(None, "stray.png", None), (None, "cat/1.png", "cat")}),
        (
            ["train/cat/1.png", "test/cat/2.png"],
            {("train", "train/cat/1.png", "cat"), ("eval", "test/cat/2.png", "cat")},
        ),
        (
            ["Train/1.png", "validation/2.png"],
            {("train", "Train/1.png", None), ("eval", "validation/2.png", None)},
        ),
        (
            ["mnist/train/0/1.png", "mnist/val/0/2.png"],
            {("train", "mnist/train/0/1.png", "0"), ("eval", "mnist/val/0/2.png", "0")},
        ),
        (["train/cat/1.png", "train/dog/2.png"], {
            (None, "train/cat/1.png", "cat"),
            (None, "train/dog/2.png", "dog"),
        }),
        (["train/1.png"], {(None, "train/1.png", None)}),
        (["train/1.png", "car/2.png"], {
            (None, "train/1.png", "train"),
            (None, "car/2.png", "car"),
        }),
        (["only/1.png"], {(None, "only/1.png", "only")}),
    ],
)  # fmt: skip
def test_open_source_image_tree_layout_gives_splits_and_labels(tmp_path, paths, expected):
    source = open_source(_tree(tmp_path, paths))
    assert source.format == "images"
    assert source.count == len(paths)
    assert _seen(source) == expected


def test_open_source_other_files_are_ignored_counted_and_named(tmp_path):
    paths = ["cat/1.png", "notes.txt", "cat/meta.json", "dog/meta.json", ".hidden.png", ".x/2.png"]
    source = open_source(_tree(tmp_path, paths))
    assert _seen(source) == {(None, "cat/1.png", "cat")}
    assert source.ignored == 3
    assert source.ignored_kinds == "2 .json, 1 .txt"


def test_open_source_many_files_are_cut_into_chunks(tmp_path):
    for index in range(2001):
        (tmp_path / f"{index:05}.png").touch()
    sizes = [len(list(chunk.read())) for chunk in open_source(str(tmp_path)).chunks]
    assert sizes == [1000, 1000, 1]


def test_open_source_loop_of_links_ends(tmp_path):
    _tree(tmp_path, ["cat/1.png"])
    (tmp_path / "cat" / "again").symlink_to(tmp_path)
    assert open_source(str(tmp_path)).count == 1


def test_read_vanished_file_is_a_problem_of_that_file(tmp_path):
    source = open_source(_tree(tmp_path, ["1.png", "2.png"]))
    (tmp_path / "1.png").unlink()
    problems = {image.path: image.problem for _, image in _read(source)}
    assert problems == {"1.png": "cannot be read: No such file or directory", "2.png": None}


def test_fingerprint_changes_with_what_is_read_only(tmp_path):
    root = _tree(tmp_path, ["cat/1.png", "cat/2.png"])
    first = open_source(root).fingerprint
    assert open_source(root).fingerprint == first
    (tmp_path / "notes.txt").write_text("not read")
    assert open_source(root).fingerprint == first
    stat = os.stat(tmp_path / "cat/1.png")
    os.utime(tmp_path / "cat/1.png", ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    touched = open_source(root).fingerprint
    assert touched != first
    (tmp_path / "cat/1.png").rename(tmp_path / "cat/3.png")
    assert open_source(root).fingerprint not in (first, touched)


# IDX


def _idx(root, name, values, zipped=False):
    values = np.asarray(values, np.uint8)
    magic = 2051 if values.ndim == 3 else 2049
    data = struct.pack(f">i{values.ndim}I", magic, *values.shape) + values.tobytes()
    path = root / (f"{name}.gz" if zipped else name)
    path.write_bytes(gzip.compress(data) if zipped else data)
    return path


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("labelled", [False, True])
def test_open_source_idx_files_give_all_images_in_order(tmp_path, zipped, labelled):
    _idx(tmp_path, "train-images-idx3-ubyte", _PIXELS[:14], zipped)
    _idx(tmp_path, "t10k-images-idx3-ubyte", _PIXELS[14:], zipped)
    if labelled:
        _idx(tmp_path, "train-labels-idx1-ubyte", _LABELS[:14], zipped)
        _idx(tmp_path, "t10k-labels-idx1-ubyte", _LABELS[14:], zipped)
    source = open_source(str(tmp_path))
    assert (source.format, source.count) == ("idx", 20)
    read = {split: [i for s, i in _read(source) if s == split] for split in ("train", "eval")}
    for split, part in (("train", slice(14)), ("eval", slice(14, None))):
        np.testing.assert_array_equal([i.pixels for i in read[split]], _PIXELS[part])
        expected = [str(label) if labelled else None for label in _LABELS[part]]
        assert [image.label for image in read[split]] == expected
    assert read["train"][3].path == f"train-images-idx3-ubyte{'.gz' * zipped}#3"


@pytest.mark.parametrize("zipped", [False, True])
def test_open_source_idx_in_several_chunks_gives_the_same_images(tmp_path, monkeypatch, zipped):
    monkeypatch.setattr("components.image_example_gen.idx._IMAGES_PER_CHUNK", 3)
    _idx(tmp_path, "train-images.idx3-ubyte", _PIXELS, zipped)
    _idx(tmp_path, "train-labels.idx1-ubyte", _LABELS, zipped)
    source = open_source(str(tmp_path))
    assert len(source.chunks) == 7
    images = _read(source)
    np.testing.assert_array_equal([image.pixels for _, image in images], _PIXELS)
    assert [image.label for _, image in images] == [str(label) for label in _LABELS]
    assert {split for split, _ in images} == {None}


def test_open_source_idx_label_count_mismatch_is_refused(tmp_path):
    _idx(tmp_path, "train-images-idx3-ubyte", _PIXELS)
    _idx(tmp_path, "train-labels-idx1-ubyte", _LABELS[:19])
    with pytest.raises(SourceError, match="holds 20 images, but train-labels-idx1-ubyte 19 labels"):
        open_source(str(tmp_path))


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("end", [-1, 10, 3])
def test_open_source_idx_cut_is_refused(tmp_path, zipped, end):
    path = _idx(tmp_path, "train-images-idx3-ubyte", _PIXELS, zipped)
    path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(SourceError, match=r"train-images-idx3-ubyte.*(header|read|IDX)"):
        open_source(str(tmp_path))


@pytest.mark.parametrize("zipped", [False, True])
def test_open_source_idx_longer_than_its_header_is_refused(tmp_path, zipped):
    data = struct.pack(">i3I", 2051, 19, 8, 8) + _PIXELS.tobytes()
    name = "train-images-idx3-ubyte" + ".gz" * zipped
    (tmp_path / name).write_bytes(gzip.compress(data) if zipped else data)
    with pytest.raises(SourceError, match="not as long as its header says"):
        open_source(str(tmp_path))


def test_open_source_idx_of_another_kind_is_refused(tmp_path):
    (tmp_path / "train-images-idx3-ubyte").write_bytes(struct.pack(">i3I", 2052, 1, 1, 1) + b"x")
    with pytest.raises(SourceError, match="not an IDX file of bytes with 3 dimensions"):
        open_source(str(tmp_path))


def test_open_source_idx_zipped_and_not_is_refused(tmp_path):
    _idx(tmp_path, "train-images-idx3-ubyte", _PIXELS)
    _idx(tmp_path, "train-images-idx3-ubyte", _PIXELS, zipped=True)
    with pytest.raises(SourceError, match=r"both .*: keep one of them"):
        open_source(str(tmp_path))


def test_open_source_idx_labels_for_one_split_only_is_refused(tmp_path):
    _idx(tmp_path, "train-images-idx3-ubyte", _PIXELS)
    _idx(tmp_path, "train-labels-idx1-ubyte", _LABELS)
    _idx(tmp_path, "t10k-images-idx3-ubyte", _PIXELS)
    with pytest.raises(SourceError, match="t10k-images-idx3-ubyte has no labels file"):
        open_source(str(tmp_path))


# TFRecords


def _records(path, count=3, compression="", **features):
    path.parent.mkdir(parents=True, exist_ok=True)
    features = features or {"image": _png, "label": lambda i: int(_LABELS[i])}
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for index in range(count):
            example = tf.train.Example()
            for key, value in features.items():
                one = value(index)
                kind = example.features.feature[key.replace("__", "/")]
                (kind.int64_list if isinstance(one, int) else kind.bytes_list).value.append(one)
            writer.write(example.SerializeToString())


@pytest.mark.parametrize("image_key", ["image", "image__encoded", "image_raw", "encoded"])
@pytest.mark.parametrize(
    ("label_key", "label", "expected"),
    [
        ("label", 7, "7"),
        ("label", b"seven", "seven"),
        ("image__class__text", "sieben ü".encode(), "sieben ü"),
        ("image__class__label", 7, "7"),
    ],
)
@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_open_source_tfrecord_keys_are_found(
    tmp_path, image_key, label_key, label, expected, compression
):
    name = "all.tfrecord.gz" if compression else "all.tfrecords"
    _records(tmp_path / name, 2, compression, **{image_key: _png, label_key: lambda i: label})
    for given in (tmp_path, tmp_path / name):
        source = open_source(str(given))
        assert (source.format, source.count) == ("tfrecord", None)
        assert [(s, i.path, i.label, i.data) for s, i in _read(source)] == [
            (None, f"{name}#0", expected, _png(0)),
            (None, f"{name}#1", expected, _png(1)),
        ]


def test_open_source_tfrecord_class_text_goes_before_class_number(tmp_path):
    keys = {"image__class__label": lambda i: 7, "image__class__text": lambda i: b"seven"}
    _records(tmp_path / "all.tfrecord", 1, image__encoded=_png, **keys)
    assert _read(open_source(str(tmp_path)))[0][1].label == "seven"


@pytest.mark.parametrize(
    "names",
    [
        ("train.tfrecord", "test.tfrecord"),
        ("mnist-train.tfrecord-00000-of-00001", "mnist-test.tfrecord-00000-of-00001"),
        ("train/data.tfrecord", "validation/data.tfrecord"),
        ("Split-train/data_tfrecord-00000-of-00001", "Split-eval/data_tfrecord-00000-of-00001"),
    ],
)
def test_open_source_tfrecord_names_give_splits(tmp_path, names):
    for name in names:
        _records(tmp_path / name, 1)
    assert {(split, image.path) for split, image in _read(open_source(str(tmp_path)))} == {
        ("train", f"{names[0]}#0"),
        ("eval", f"{names[1]}#0"),
    }


def test_read_tfrecord_without_image_names_what_is_there(tmp_path):
    _records(tmp_path / "a.tfrecord", 1, pixels=_png, height=lambda i: 8)
    ((_, image),) = _read(open_source(str(tmp_path)))
    assert image.problem.startswith("no bytes feature image or ")
    assert image.problem.endswith("found: height, pixels")


def test_read_tfrecord_of_something_else_is_a_problem_of_the_record(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(b"\xff\xff no protobuf")
    ((_, image),) = _read(open_source(str(tmp_path)))
    assert image.problem == "not a tf.Example"


def test_read_tfrecord_corrupted_keeps_what_comes_before(tmp_path):
    path = tmp_path / "a.tfrecord"
    _records(path, 3)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    images = [image for _, image in _read(open_source(str(tmp_path)))]
    assert [bool(image.problem) for image in images] == [False, True]
    assert images[1].problem == "corrupted record; the rest of the file is lost"
    assert images[1].path == "a.tfrecord#1"


# digits


def test_open_source_digits_are_scikit_learns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = open_source("digits")
    images = [image for _, image in _read(source)]
    reference = sklearn.datasets.load_digits()
    assert source.count == len(images) == len({image.path for image in images}) == 1797
    assert [int(image.label) for image in images] == list(reference.target)
    pixels = np.stack([image.pixels for image in images])
    assert pixels.dtype == np.uint8
    # 0..16 to 0..255: 0 and 16 to the ends, and never off by more than rounding.
    assert (pixels.min(), pixels.max()) == (0, 255)
    assert np.abs(pixels - reference.images * 255 / 16).max() <= 0.5


# What is no source


def _says(input, *words, format="auto"):
    with pytest.raises(SourceError) as caught:
        open_source(str(input), format)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"data.input {input}: ")
    for word in words:
        assert word in message


def test_open_source_missing_path_is_refused(tmp_path):
    _says(tmp_path / "nowhere", "no such file or folder")


def test_open_source_empty_folder_is_refused(tmp_path):
    (tmp_path / "class").mkdir()
    _says(tmp_path, "the folder is empty")


def test_open_source_text_files_are_refused_and_named(tmp_path):
    _says(
        _tree(tmp_path, ["a.txt", "b.txt", "c.csv"]), "no images", "found instead: 2 .txt, 1 .csv"
    )


def test_open_source_archive_is_refused(tmp_path):
    (tmp_path / "x.tar.gz").touch()
    _says(tmp_path / "x.tar.gz", "is an archive; unpack it")
    _says(tmp_path, "an archive, x.tar.gz: unpack it")


def test_open_source_single_image_is_refused(tmp_path):
    _tree(tmp_path, ["a.png"])
    _says(tmp_path / "a.png", "is a file; give the folder it is in")


@pytest.mark.parametrize("input", ["gs://bucket/images", "s3://bucket/images", "https://x/y"])
def test_open_source_remote_is_refused(input):
    _says(input, "remote inputs cannot be read")


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["train/1.png", "test/2.png", "val/3.png"], ["images in test, train, val;"]),
        (["train/1.png", "test/2.png", "more/3.png"], ["beside them in more"]),
        (["train/1.png", "test/2.png", "3.png"], ["beside them in 3.png"]),
    ],
)
def test_open_source_ambiguous_tree_is_refused(tmp_path, paths, words):
    _says(_tree(tmp_path, paths), "ambiguous", *words)


@pytest.mark.parametrize("third", ["val", "other"])
def test_open_source_ambiguous_tfrecords_are_refused(tmp_path, third):
    for name in ("train", "test", third):
        (tmp_path / f"{name}.tfrecord").touch()
    _says(tmp_path, "ambiguous: TFRecords for test, train")


def test_open_source_two_formats_need_data_format(tmp_path):
    _tree(tmp_path, ["a.png"])
    _idx(tmp_path, "train-images-idx3-ubyte", _PIXELS)
    _says(tmp_path, "holds idx and images files; set data.format")
    assert open_source(str(tmp_path), "idx").count == 20
    source = open_source(str(tmp_path), "images")
    assert (source.count, source.ignored) == (1, 1)


def test_open_source_format_that_is_not_there_is_refused(tmp_path):
    _says(_tree(tmp_path, ["a.png"]), "no idx files; found instead: 1 .png", format="idx")


def test_sources_import_loads_nothing_heavy():
    code = (
        "import sys, components.image_example_gen.sources as s; s.open_source('digits');"
        "heavy = {'tensorflow', 'tfx', 'apache_beam', 'numpy', 'sklearn', 'PIL'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
