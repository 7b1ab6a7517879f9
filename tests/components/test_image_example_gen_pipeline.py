"""The node under LocalDagRunner: caching, spans, splits, quarantine."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2
from tfx import v1 as tfx

from components.image_example_gen import decoding
from components.image_example_gen.component import ImageExampleGen
from components.image_example_gen.sources import SourceError
from components.image_example_gen.statistics import statistics_options


def _tree(root: Path, classes: str = "ab", count: int = 6) -> Path:
    for name in classes:
        (root / name).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            pixels = np.full((5, 4), 10 * index + ord(name), np.uint8)
            data = decoding.encode_pixels(pixels, "x").data
            (root / name / f"{index}.png").write_bytes(data)
    return root


def _run(root: Path, input, beam_args=(), statistics=False, **options) -> bool:
    """Runs the node; tells whether it did the work, rather than taking it from the cache."""
    example_gen = ImageExampleGen(input=str(input), **options)
    nodes = [example_gen]
    if statistics:
        nodes.append(
            tfx.components.StatisticsGen(
                examples=example_gen.outputs["examples"], stats_options=statistics_options()
            )
        )
    pipeline = tfx.dsl.Pipeline(
        pipeline_name="ingest",
        pipeline_root=str(root / "pipeline"),
        components=nodes,
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(root / "metadata.sqlite")
        ),
        beam_pipeline_args=list(beam_args),
    )
    tfx.orchestration.LocalDagRunner().run(pipeline)
    executions = _store(root).get_executions_by_type(
        f"{ImageExampleGen.__module__}.{ImageExampleGen.__qualname__}"
    )
    states = metadata_store_pb2.Execution.State
    return executions[-1].last_known_state == states.COMPLETE


def _store(root: Path) -> metadata_store.MetadataStore:
    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = str(root / "metadata.sqlite")
    return metadata_store.MetadataStore(config)


def _artifact(root: Path, kind: str) -> metadata_store_pb2.Artifact:
    return _store(root).get_artifacts_by_type(kind)[-1]


def _examples(root: Path) -> dict[str, list[dict]]:
    """The examples by split, as any TFX node finds them."""
    folder = Path(_artifact(root, "Examples").uri)
    found: dict[str, list[dict]] = {}
    for split in ("train", "eval"):
        files = sorted((folder / f"Split-{split}").iterdir())
        total = len(files)
        names = [f"data_tfrecord-{shard:05}-of-{total:05}.gz" for shard in range(total)]
        assert [file.name for file in files] == names
        found[split] = []
        for record in tf.data.TFRecordDataset([str(file) for file in files], "GZIP"):
            features = tf.train.Example.FromString(record.numpy()).features.feature
            value = {k: getattr(f, f.WhichOneof("kind")).value[0] for k, f in features.items()}
            found[split].append(value)
    assert sorted(path.name for path in folder.iterdir()) == ["Split-eval", "Split-train"]
    return found


def _counts(root: Path) -> dict[str, int]:
    properties = _artifact(root, "Quarantine").custom_properties
    return {key: properties[key].int_value for key in ("accepted", "quarantined", "ignored")}


def _quarantined(root: Path) -> list[dict]:
    text = (Path(_artifact(root, "Quarantine").uri) / "quarantine.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_image_example_gen_run_again_is_cached_until_a_file_changes(tmp_path):
    data = _tree(tmp_path / "data")
    assert _run(tmp_path, data)
    assert sum(map(len, _examples(tmp_path).values())) == 12
    assert not _run(tmp_path, data)
    (data / "a" / "0.png").write_bytes(decoding.encode_pixels(np.eye(9, dtype=np.uint8), "x").data)
    assert _run(tmp_path, data)
    sizes = {e["path"]: e["width"] for part in _examples(tmp_path).values() for e in part}
    assert sizes[b"a/0.png"] == 9
    (data / "b" / "5.png").unlink()
    assert _run(tmp_path, data)
    assert _counts(tmp_path)["accepted"] == 11
    assert _run(tmp_path, data, eval_fraction=0.5)
    assert not _run(tmp_path, os.path.relpath(data), eval_fraction=0.5)


def test_image_example_gen_newest_span_is_read_and_named(tmp_path):
    _tree(tmp_path / "spans" / "span-9", count=2)
    pattern = tmp_path / "spans" / "span-{SPAN}"
    assert _run(tmp_path, pattern)
    assert _artifact(tmp_path, "Examples").custom_properties["span"].int_value == 9
    assert not _run(tmp_path, pattern)
    _tree(tmp_path / "spans" / "span-10", count=3)
    assert _run(tmp_path, pattern)
    examples = _artifact(tmp_path, "Examples")
    assert examples.custom_properties["span"].int_value == 10
    assert examples.custom_properties["input_fingerprint"].string_value
    assert _counts(tmp_path)["accepted"] == 6


def test_image_example_gen_own_splits_labels_and_bad_files(tmp_path):
    data = tmp_path / "data"
    _tree(data / "train", "ab", 5)
    _tree(data / "test", "ab", 2)
    (data / "train" / "a" / "text.png").write_text("no image")
    (data / "test" / "b" / "empty.jpg").touch()
    (data / "README.md").write_text("about")
    _run(tmp_path, data)
    found = _examples(tmp_path)
    seen = {split: sorted((e["path"], e["label"]) for e in part) for split, part in found.items()}
    for split, folder, count in (("train", "train", 5), ("eval", "test", 2)):
        expected = [(f"{folder}/{c}/{i}.png", c) for c in "ab" for i in range(count)]
        assert seen[split] == [(path.encode(), label.encode()) for path, label in expected]
    assert _counts(tmp_path) == {"accepted": 14, "quarantined": 2, "ignored": 1}
    assert _quarantined(tmp_path) == [
        {"path": "test/b/empty.jpg", "reason": "empty file"},
        {"path": "train/a/text.png", "reason": "not a PNG, JPEG, BMP, GIF or WebP image"},
    ]
    properties = _artifact(tmp_path, "Examples")
    assert json.loads(properties.properties["split_names"].string_value) == ["train", "eval"]
    assert properties.custom_properties["file_format"].string_value == "tfrecords_gzip"


def test_image_example_gen_digits_are_all_there_with_several_workers(tmp_path):
    args = ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]
    _run(tmp_path, "digits", args, eval_fraction=0.25)
    found = _examples(tmp_path)
    ids = {example["example_id"] for part in found.values() for example in part}
    assert len(ids) == sum(map(len, found.values())) == 1797
    assert 0.2 < len(found["eval"]) / 1797 < 0.3
    assert _counts(tmp_path) == {"accepted": 1797, "quarantined": 0, "ignored": 0}
    assert _quarantined(tmp_path) == []


def test_image_example_gen_empty_split_is_a_file_that_statistics_gen_reads(tmp_path):
    data = _tree(tmp_path / "data")
    _run(tmp_path, data, statistics=True, eval_fraction=1e-9)
    folder = Path(_artifact(tmp_path, "ExampleStatistics").uri)
    statistics = {
        split: tfdv.load_stats_binary(str(folder / f"Split-{split}" / "FeatureStats.pb"))
        for split in ("train", "eval")
    }
    counts = {split: int(one.datasets[0].num_examples) for split, one in statistics.items()}
    assert counts == {"train": 12, "eval": 0}
    features = {f.path.step[0]: f for f in statistics["train"].datasets[0].features}
    assert features["image"].bytes_stats.common_stats.num_non_missing == 12
    assert not features["image"].HasField("string_stats")
    labels = features["label"].string_stats.rank_histogram.buckets
    assert {bucket.label: bucket.sample_count for bucket in labels} == {"a": 6, "b": 6}


def test_image_example_gen_no_image_at_all_fails_in_one_line(tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("1.png", "2.png"):
        (tmp_path / "data" / name).write_text("no image")
    with pytest.raises(
        SourceError, match=r"not one of 2 images can be read; the first, 1\.png: not"
    ):
        _run(tmp_path, tmp_path / "data")


def test_image_example_gen_missing_input_fails_in_one_line(tmp_path):
    with pytest.raises(SourceError, match="no such file or folder"):
        _run(tmp_path, tmp_path / "nowhere")
