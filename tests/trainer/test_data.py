"""Reading training data: examples and arrays."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf

from trainer import data
from trainer.errors import TrainerError

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 4, 4, 3), np.uint8)
LABELS = np.arange(7) % 3
#: Numbers of the images in the order of the ids that `write_examples` gives them.
BY_ID = sorted(range(7), key=lambda i: hashlib.sha256(str(i).encode()).hexdigest())


@pytest.fixture(params=["memory", "mapped"])
def load(request, tmp_path):
    """`data.load` of 4x4x3 images, into memory or into a file."""

    def load_(*patterns, **changed):
        options = {
            "image_size": 4,
            "channels": 3,
            "labelled": True,
            "memory_bytes": 2**20 if request.param == "memory" else 0,
            "cache_dir": str(tmp_path / "cache"),
        }
        return data.load([str(p) for p in patterns], **(options | changed))

    return load_


def _all(dataset):
    return dataset.gather(np.arange(len(dataset)))


def _records(path):
    return list(tf.data.TFRecordDataset(str(path), "GZIP").as_numpy_iterator())


def _rewrite(path, records, compression="GZIP"):
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)


def test_load_gives_the_examples_in_the_order_of_their_ids(load, write_examples, tmp_path):
    write_examples(tmp_path / "a.gz", IMAGES, LABELS)
    dataset = load(tmp_path / "a.gz")
    images, labels = _all(dataset)
    np.testing.assert_array_equal(images, IMAGES[BY_ID])
    np.testing.assert_array_equal(labels, LABELS[BY_ID])
    assert (images.dtype, labels.dtype) == (np.uint8, np.int32)
    assert (len(dataset), dataset.image_shape, dataset.classes) == (7, (4, 4, 3), 3)


def test_load_files_in_any_split_and_order_give_the_same_dataset(load, write_examples, tmp_path):
    write_examples(tmp_path / "one.gz", IMAGES, LABELS)
    records = _records(tmp_path / "one.gz")
    _rewrite(tmp_path / "two" / "b-0.gz", records[4:])
    _rewrite(tmp_path / "two" / "b-1", records[:1], compression="")
    _rewrite(tmp_path / "two" / "b-2.gz", [])
    _rewrite(tmp_path / "two" / "b-3.gz", records[3:0:-1])
    whole, split = load(tmp_path / "one.gz"), load(tmp_path / "two" / "b-*")
    for a, b in zip(_all(whole), _all(split), strict=True):
        np.testing.assert_array_equal(a, b)
    assert whole.fingerprint == split.fingerprint
    # A file that two patterns find is read once.
    assert len(load(tmp_path / "one.gz", tmp_path / "on*")) == 7


def test_load_in_memory_and_mapped_are_the_same_bit_for_bit(write_examples, tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (3000, 4, 4, 3), np.uint8)
    write_examples(tmp_path / "a.gz", images, np.arange(3000) % 10)
    bytes_ = images.nbytes
    options = {"image_size": 4, "channels": 3, "labelled": True, "cache_dir": str(tmp_path / "c")}
    memory = data.load([str(tmp_path / "a.gz")], memory_bytes=bytes_, **options)
    assert not (tmp_path / "c").exists()
    for _ in range(2):  # written, and found again
        mapped = data.load([str(tmp_path / "a.gz")], memory_bytes=bytes_ - 1, **options)
        assert len(list((tmp_path / "c").glob("*.images"))) == 1
        assert mapped.fingerprint == memory.fingerprint
        assert (len(mapped), mapped.classes) == (3000, 10)
        for a, b in zip(_all(memory), _all(mapped), strict=True):
            np.testing.assert_array_equal(a, b)


def test_load_that_takes_long_says_how_far_it_is(load, write_examples, tmp_path, monkeypatch):
    write_examples(tmp_path / "a.gz", np.zeros([2500, 4, 4, 3], np.uint8), np.zeros(2500, int))
    reported = []
    load(tmp_path / "a.gz", report=reported.append)
    assert not [line for line in reported if "so far" in line]
    monkeypatch.setattr(data, "_REPORT_SECONDS", -1.0)
    load(tmp_path / "a.gz", report=reported.append, memory_bytes=2**30, labelled=False)
    assert reported[-3:] == [f"reading images: {n} so far" for n in ("1,024", "2,048", "2,500")]


@pytest.mark.parametrize("change", ["pixel", "label", "id", "swapped ids"])
def test_load_other_content_has_another_fingerprint(load, write_examples, tmp_path, change):
    write_examples(tmp_path / "a.gz", IMAGES, LABELS)
    before = load(tmp_path / "a.gz").fingerprint
    examples = [tf.train.Example.FromString(record) for record in _records(tmp_path / "a.gz")]
    first, second = (example.features.feature for example in examples[:2])
    if change == "pixel":
        pixels = bytearray(first["image"].bytes_list.value[0])
        pixels[5] ^= 1
        first["image"].bytes_list.value[0] = bytes(pixels)
    elif change == "label":
        first["label"].int64_list.value[0] += 1
    elif change == "id":
        first["example_id"].bytes_list.value[0] += b"x"
    else:
        ids = [example["example_id"].bytes_list.value[0] for example in (first, second)]
        first["example_id"].bytes_list.value[0] = ids[1]
        second["example_id"].bytes_list.value[0] = ids[0]
    _rewrite(tmp_path / "b.gz", [example.SerializeToString() for example in examples])
    assert load(tmp_path / "b.gz").fingerprint != before


def test_load_unlabelled_gives_zeros(load, write_examples, tmp_path):
    write_examples(tmp_path / "a.gz", IMAGES, None)
    write_examples(tmp_path / "b.gz", IMAGES, LABELS)
    examples = [tf.train.Example.FromString(record) for record in _records(tmp_path / "a.gz")]
    for example in examples:
        example.features.feature["label"].bytes_list.value.append(b"a name")
    _rewrite(tmp_path / "c.gz", [example.SerializeToString() for example in examples])
    for file in ("a.gz", "b.gz", "c.gz"):  # labels that nobody wants are not looked at
        dataset = load(tmp_path / file, labelled=False)
        assert dataset.classes == 0
        assert _all(dataset)[1].tolist() == [0] * 7
    assert load(tmp_path / "b.gz").classes == 3


def test_load_nothing_or_something_else_is_one_line(load, write_examples, tmp_path):
    with pytest.raises(TrainerError, match=r"none.gz: no examples found$"):
        load(tmp_path / "none.gz")
    _rewrite(tmp_path / "empty.gz", [])
    with pytest.raises(TrainerError, match=r"empty.gz: no examples found$"):
        load(tmp_path / "empty.gz")
    write_examples(tmp_path / "a.gz", IMAGES, LABELS)
    for wrong in ({"image_size": 8}, {"channels": 1}):
        with pytest.raises(TrainerError, match="examples as Transform writes them") as error:
            load(tmp_path / "a.gz", **wrong)
        assert "\n" not in str(error.value)
    with pytest.raises(TrainerError, match=r"training data no://where: cannot be looked for \("):
        load("no://where")
    (tmp_path / "text.gz").write_text("no record")
    with pytest.raises(TrainerError, match="not 4x4x3 examples as Transform writes them"):
        load(tmp_path / "text.gz")


def test_load_missing_negative_and_huge_labels_are_one_line(load, write_examples, tmp_path):
    write_examples(tmp_path / "some.gz", IMAGES, None)
    write_examples(tmp_path / "others.gz", IMAGES[:3] + 1, LABELS[:3])
    with pytest.raises(TrainerError, match=r"got no label for example [0-9a-f]{64}; allowed"):
        load(tmp_path / "some.gz", tmp_path / "others.gz")
    unknown = hashlib.sha256(b"4").hexdigest()
    for value in (-1, 2**31):
        write_examples(tmp_path / "wrong.gz", IMAGES, np.where(np.arange(7) == 4, value, LABELS))
        with pytest.raises(TrainerError, match=f"got label {value} for example {unknown}; allowed"):
            load(tmp_path / "wrong.gz")


def test_load_the_same_id_twice_is_refused(load, write_examples, tmp_path):
    write_examples(tmp_path / "a.gz", IMAGES, LABELS)
    write_examples(tmp_path / "b.gz", IMAGES[:2], LABELS[:2])
    with pytest.raises(TrainerError, match=r"got 2 examples with the id of another.* such as") as e:
        load(tmp_path / "?.gz")
    named = {hashlib.sha256(str(i).encode()).hexdigest() for i in range(2)}
    assert any(example_id in str(e.value) for example_id in named)


def test_gather_takes_indices_of_any_shape_and_refuses_others(load, write_examples, tmp_path):
    write_examples(tmp_path / "a.gz", IMAGES, LABELS)
    dataset = load(tmp_path / "a.gz")
    indices = np.array([[[6, 0, 0]], [[1, 5, 6]]])
    images, labels = dataset.gather(indices)
    np.testing.assert_array_equal(images, IMAGES[BY_ID][indices])
    np.testing.assert_array_equal(labels, LABELS[BY_ID][indices])
    images[:] = 0  # a copy
    np.testing.assert_array_equal(_all(dataset)[0], IMAGES[BY_ID])
    assert dataset.gather(np.array(3))[0].shape == (4, 4, 3)
    with pytest.raises(IndexError):
        dataset.gather(np.array([7]))


def test_of_arrays_keeps_the_order_beyond_ten_examples():
    images = np.arange(101, dtype=np.uint8).reshape(101, 1, 1, 1)
    dataset = data.Dataset.of_arrays(images, np.arange(101))
    np.testing.assert_array_equal(_all(dataset)[0], images)
    assert _all(dataset)[1].tolist() == list(range(101))
    assert dataset.classes == 101
    unlabelled = data.Dataset.of_arrays(images, None)
    assert (unlabelled.classes, _all(unlabelled)[1].any()) == (0, False)
    reversed_ = data.Dataset.of_arrays(images[::-1], np.arange(101)[::-1])
    np.testing.assert_array_equal(_all(reversed_)[0], images[::-1])
    assert reversed_.fingerprint != dataset.fingerprint


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES.astype(np.float32), None, r"got float32 \[7, 4, 4, 3\]; allowed: uint8"),
        (IMAGES[0], None, r"got uint8 \[4, 4, 3\]"),
        (IMAGES[:0], None, "N at least 1"),
        (IMAGES, LABELS[:6], r"labels: got int64 \[6\]; allowed: whole numbers \[7\]"),
        (IMAGES, LABELS / 2, "labels: got float64"),
        (IMAGES, LABELS - 1, "labels: got label -1 for example 0+; allowed"),
    ],
)
def test_of_arrays_other_shapes_and_types_are_refused(images, labels, message):
    with pytest.raises(TrainerError, match=message):
        data.Dataset.of_arrays(images, labels)


@pytest.mark.parametrize(("size", "channels"), [(16, 1), (16, 3), (28, 1), (32, 3), (64, 1)])
def test_describe_tells_shape_and_classes(write_examples, tmp_path, size, channels):
    images = np.zeros((5, size, size, channels), np.uint8)
    write_examples(tmp_path / "0.gz", images, np.array([0, 0, 1, 0, 0]))
    write_examples(tmp_path / "1.gz", images, np.array([0, 7, 0, 0, 0]))
    described = data.describe([str(tmp_path / "*.gz")])
    assert described == data.Description(size, channels, labelled=True, classes=8, examples=10)
    write_examples(tmp_path / "2" / "a.gz", images, None)
    described = data.describe([str(tmp_path / "2" / "a.gz")])
    assert described == data.Description(size, channels, labelled=False, classes=0, examples=5)


def test_describe_what_cannot_be_trained_on_is_one_line(write_examples, tmp_path):
    write_examples(tmp_path / "a.gz", IMAGES, LABELS)
    with pytest.raises(TrainerError, match=r"got images of 48 bytes; allowed: .* 16, 28, 32, 64"):
        data.describe([str(tmp_path / "a.gz")])
    _rewrite(tmp_path / "empty.gz", [])
    with pytest.raises(TrainerError, match=r"empty.gz: no examples found"):
        data.describe([str(tmp_path / "empty.gz")])
    with pytest.raises(TrainerError, match=r"none.gz: no examples found"):
        data.describe([str(tmp_path / "none.gz")])
    _rewrite(tmp_path / "other.gz", [tf.train.Example().SerializeToString()])
    with pytest.raises(TrainerError, match="not examples as Transform writes them"):
        data.describe([str(tmp_path / "other.gz")])


ARRAY_IMAGES = np.random.default_rng(2).integers(0, 256, (6, 16, 16, 1), np.uint8)


@pytest.mark.parametrize("labels", [np.arange(6, dtype=np.uint8) % 4, None])
@pytest.mark.parametrize("grey", ["[N, H, W]", "[N, H, W, 1]"])
@pytest.mark.parametrize("kind", ["file", "folder of npz", "folder of npy"])
def test_load_arrays_finds_images_and_labels(tmp_path, labels, grey, kind):
    images = ARRAY_IMAGES[..., 0] if grey == "[N, H, W]" else ARRAY_IMAGES
    arrays = {"images": images} | ({} if labels is None else {"labels": labels})
    if kind == "folder of npy":
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
    else:
        np.savez(tmp_path / "digits.npz", **arrays)
    dataset = data.load_arrays(str(tmp_path / "digits.npz" if kind == "file" else tmp_path))
    found = _all(dataset)
    np.testing.assert_array_equal(found[0], ARRAY_IMAGES)
    np.testing.assert_array_equal(found[1], np.zeros(6) if labels is None else labels)
    assert dataset.classes == (0 if labels is None else 4)
    assert dataset.fingerprint == data.Dataset.of_arrays(ARRAY_IMAGES, labels).fingerprint


def test_load_arrays_something_else_is_one_line(tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 torn")
    (tmp_path / "empty.npz").write_bytes(b"")
    np.savez(tmp_path / "names.npz", pictures=ARRAY_IMAGES)
    np.savez(tmp_path / "objects.npz", images=np.array([None]))
    (tmp_path / "folder").mkdir()
    for name in ("none", "text.npz", "torn.npz", "empty.npz", "names.npz", "objects.npz", "folder"):
        with pytest.raises(
            TrainerError, match=r"cannot be read .*; allowed: an .npz file"
        ) as error:
            data.load_arrays(str(tmp_path / name))
        assert "\n" not in str(error.value)
    for images in (IMAGES, ARRAY_IMAGES.astype(float), ARRAY_IMAGES[0, ..., 0], np.array(1)):
        np.savez(tmp_path / "shape.npz", images=images)
        with pytest.raises(TrainerError, match=r"shape.npz: got .*; allowed: uint8 pixels of sq"):
            data.load_arrays(str(tmp_path / "shape.npz"))
