"""The schema made from the first data, checked with TFDV's own validation of other data."""

import pandas as pd
import pytest
import tensorflow_data_validation as tfdv

from components.image_example_gen.statistics import MAX_LABELS, statistics_options
from components.pinned_schema_gen import schema


def _examples(count=20, **columns):
    rows = {
        "image": [f"bytes{i}" for i in range(count)],
        "height": [28] * count,
        "width": [28] * count,
        "channels": [1] * count,
        "format": ["png"] * count,
        "path": [f"{i}.png" for i in range(count)],
        "example_id": [f"id{i}" for i in range(count)],
        "label": [str(i % 10) for i in range(count)],
    }
    rows.update({name: value * count for name, value in columns.items()})
    return pd.DataFrame({name: value for name, value in rows.items() if value})


def _statistics(frame):
    return tfdv.generate_statistics_from_dataframe(frame, stats_options=statistics_options())


def _anomalies(inferred, frame):
    found = tfdv.validate_statistics(_statistics(frame), inferred)
    return {name: info.description for name, info in found.anomaly_info.items()}


@pytest.fixture(scope="module")
def inferred():
    return schema.infer({"train": _statistics(_examples())})


def test_infer_accepts_the_data_it_was_made_from(inferred):
    assert _anomalies(inferred, _examples()) == {}


@pytest.mark.parametrize(("count", "pinned"), [(1100, True), (MAX_LABELS + 100, False)])
def test_infer_accepts_any_number_of_labels(count, pinned):
    frame = _examples(count)
    frame["label"] = [f"class {i}" for i in range(count)]
    inferred = schema.infer({"train": _statistics(frame)})
    domains = {domain.name: len(domain.value) for domain in inferred.string_domain}
    assert domains.get("label") == (count if pinned else None)
    assert _anomalies(inferred, frame) == {}


@pytest.mark.parametrize(
    ("columns", "feature"),
    [
        ({"format": ["tiff"]}, "format"),
        ({"channels": [3]}, "channels"),
        ({"height": [29]}, "height"),
        ({"width": [27]}, "width"),
        ({"label": ["cat"]}, "label"),
        ({"label": []}, "label"),
    ],
)
def test_infer_other_data_is_an_anomaly(inferred, columns, feature):
    assert list(_anomalies(inferred, _examples(**columns))) == [feature]


def test_infer_missing_labels_are_an_anomaly(inferred):
    frame = _examples()
    frame.loc[3, "label"] = None
    assert "label" in _anomalies(inferred, frame)


def test_infer_half_labelled_data_is_an_anomaly_even_in_the_first_run():
    frame = _examples()
    frame.loc[3, "label"] = None
    assert "label" in _anomalies(schema.infer({"train": _statistics(frame)}), frame)


def test_infer_unlabelled_data_asks_for_no_label():
    frame = _examples(label=[])
    unlabelled = schema.infer({"train": _statistics(frame)})
    assert _anomalies(unlabelled, frame) == {}
    assert "label" in _anomalies(unlabelled, _examples())


def test_infer_varying_sizes_may_leave_the_range_by_a_factor_of_two():
    frame = _examples()
    frame.loc[0, "height"] = 40
    ranged = schema.infer({"train": _statistics(frame)})
    assert _anomalies(ranged, _examples(height=[14])) == {}
    assert _anomalies(ranged, _examples(height=[80])) == {}
    assert list(_anomalies(ranged, _examples(height=[13]))) == ["height"]
    assert list(_anomalies(ranged, _examples(height=[81]))) == ["height"]


def test_infer_looks_at_every_split():
    both = schema.infer(
        {"train": _statistics(_examples()), "eval": _statistics(_examples(format=["jpeg"]))}
    )
    assert _anomalies(both, _examples(format=["jpeg"])) == {}


def test_pin_written_schema_reads_back_without_an_edit_mark(tmp_path, inferred):
    path = str(tmp_path / "schema" / "schema.pbtxt")
    assert schema.edit_mark(path) == ""
    schema.pin(path, inferred)
    assert schema.read(path) == inferred
    assert schema.edit_mark(path) == ""


def test_edit_mark_changes_with_every_edit_and_goes_when_undone(tmp_path, inferred):
    path = tmp_path / "schema.pbtxt"
    schema.pin(str(path), inferred)
    original = path.read_text()
    marks = set()
    for edit in ("# a note\n", "# another\n"):
        path.write_text(original + edit)
        marks.add(schema.edit_mark(str(path)))
    assert len(marks - {""}) == 2
    path.write_text(original)
    assert schema.edit_mark(str(path)) == ""


def test_edit_mark_of_a_file_somebody_else_wrote_is_its_hash(tmp_path, inferred):
    path = str(tmp_path / "mine.pbtxt")
    schema.write(path, inferred)
    assert schema.edit_mark(path) != ""


def test_read_missing_or_broken_file_says_which(tmp_path):
    with pytest.raises(schema.SchemaError, match=r"nowhere\.pbtxt: cannot be read"):
        schema.read(str(tmp_path / "nowhere.pbtxt"))
    path = tmp_path / "broken.pbtxt"
    path.write_text("feature { nonsense: 3 }")
    with pytest.raises(schema.SchemaError, match=r"broken\.pbtxt: not a schema"):
        schema.read(str(path))
