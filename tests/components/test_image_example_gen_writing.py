"""Raw examples, the hash split, and shards that can be written twice."""

import hashlib
import random

import numpy as np
import pytest
import tensorflow as tf

from components.image_example_gen import decoding, sources, writing
from components.image_example_gen.chunks import RawImage

_PIXELS = np.arange(64, dtype=np.uint8).reshape(8, 8)


def _values(example: tf.train.Example) -> dict:
    found = {}
    for key, feature in example.features.feature.items():
        (found[key],) = getattr(feature, feature.WhichOneof("kind")).value
    return found


def test_make_example_holds_what_is_agreed():
    data = decoding.encode_pixels(_PIXELS[:5], "x").data
    example_id, example = writing.make_example(RawImage("cat/ü.png", "cat", data))
    expected = hashlib.sha256("cat/ü.png".encode() + b"\0" + data).hexdigest()[:32]
    assert example_id == expected
    assert _values(example) == {
        "image": data,
        "label": b"cat",
        "height": 5,
        "width": 8,
        "channels": 1,
        "format": b"png",
        "path": "cat/ü.png".encode(),
        "example_id": expected.encode(),
    }


def test_make_example_without_label_has_no_such_feature():
    _, example = writing.make_example(RawImage("a#1", pixels=_PIXELS, format="idx"))
    values = _values(example)
    assert "label" not in values
    assert values["format"] == b"idx"
    np.testing.assert_array_equal(tf.io.decode_png(values["image"])[..., 0], _PIXELS)


def test_make_example_id_tells_path_from_content():
    ids = {
        writing.make_example(RawImage(path, label, pixels=pixels, format="idx"))[0]
        for path, label, pixels in [
            ("a", None, _PIXELS),
            ("b", None, _PIXELS),
            ("a", None, _PIXELS + 1),
            ("a", "label", _PIXELS),  # the label is no part of it
        ]
    }
    assert len(ids) == 3


def test_make_example_of_a_problem_is_its_reason():
    with pytest.raises(decoding.UndecodableImage, match="cannot be read"):
        writing.make_example(RawImage("a", problem="cannot be read: gone"))


def test_choose_split_holds_out_the_share_asked_for():
    ids = [hashlib.sha256(str(i).encode()).hexdigest()[:32] for i in range(20_000)]
    for share in (0.01, 0.2, 0.5):
        held_out = sum(writing.choose_split(i, share) == "eval" for i in ids) / len(ids)
        # Three standard deviations of a share of 20,000 draws.
        assert abs(held_out - share) < 3 * (share * (1 - share) / len(ids)) ** 0.5


def test_choose_split_ends_are_exact():
    assert writing.choose_split("0" * 32, 1e-9) == "eval"
    assert writing.choose_split("f" * 32, 1 - 1e-9) == "train"
    assert writing.choose_split("8" + "0" * 31, 0.5) == "train"
    assert writing.choose_split("7" + "f" * 31, 0.5) == "eval"


def _shards(folder) -> writing.Shards:
    (folder / "temporary").mkdir(parents=True)
    files = {split: str(folder / f"{split}.gz") for split in writing.SPLITS}
    return writing.Shards(files, str(folder / "temporary"), 0.3)


def _members(shards: writing.Shards) -> dict[str, list[bytes]]:
    return {
        split: [
            _values(tf.train.Example.FromString(record.numpy()))["example_id"]
            for record in tf.data.TFRecordDataset(path, "GZIP")
        ]
        for split, path in shards.files.items()
    }


def _tree(root, count, start=0):
    root.mkdir(exist_ok=True)
    for index in range(start, count):
        pixels = np.full((4, 4), index, np.uint8)
        (root / f"{index:03}.png").write_bytes(decoding.encode_pixels(pixels, "x").data)
    return str(root)


def test_write_chunk_split_of_an_image_does_not_depend_on_the_others(tmp_path):
    root = _tree(tmp_path / "data", 60)
    (chunk,) = sources.open_source(root).chunks
    few, many = _shards(tmp_path / "few"), _shards(tmp_path / "many")
    writing.write_chunk(chunk, few)
    _tree(tmp_path / "data", 120, start=60)
    (chunk,) = sources.open_source(root).chunks
    files = list(chunk.files)
    random.Random(0).shuffle(files)
    outcome = writing.write_chunk(type(chunk)(None, chunk.root, tuple(files)), many)
    before, after = _members(few), _members(many)
    assert {split: len(ids) for split, ids in after.items()} == outcome.accepted
    for split in writing.SPLITS:
        assert before[split]
        assert set(before[split]) < set(after[split])


def test_write_chunk_twice_gives_the_same_files_and_leaves_nothing_else(tmp_path):
    (chunk,) = sources.open_source(_tree(tmp_path / "data", 20)).chunks
    shards = _shards(tmp_path / "out")
    first = writing.write_chunk(chunk, shards)
    members = _members(shards)
    assert writing.write_chunk(chunk, shards) == first
    assert _members(shards) == members
    names = sorted(path.name for path in (tmp_path / "out").rglob("*"))
    assert names == ["eval.gz", "temporary", "train.gz"]


def test_write_chunk_bad_files_are_named_and_counted_exactly(tmp_path):
    root = _tree(tmp_path / "data", 10)
    (tmp_path / "data/003.png").write_bytes(b"no image")
    (tmp_path / "data/007.png").write_bytes(b"")
    (chunk,) = sources.open_source(root).chunks
    shards = _shards(tmp_path / "out")
    outcome = writing.write_chunk(chunk, shards)
    assert outcome.quarantined == [
        {"path": "003.png", "reason": "not a PNG, JPEG, BMP, GIF or WebP image"},
        {"path": "007.png", "reason": "empty file"},
    ]
    assert sum(outcome.accepted.values()) == sum(map(len, _members(shards).values())) == 8


def test_outcome_merged_adds_counts_and_sorts_by_path():
    one = writing.Outcome(writing.Counter(train=2), [{"path": "b", "reason": "x"}])
    two = writing.Outcome(writing.Counter(train=1, eval=4), [{"path": "a", "reason": "y"}])
    merged = writing.Outcome.merged([one, two])
    assert merged.accepted == {"train": 3, "eval": 4}
    assert [item["path"] for item in merged.quarantined] == ["a", "b"]
