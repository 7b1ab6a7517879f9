"""The parts of the page by themselves: curves, pictures, tables, data, history."""

import numpy as np
import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from components.run_report import curves, dataset, pictures, scores, timeline


def test_draw_needs_two_points():
    assert curves.draw([]) == []
    assert curves.draw([{"step": 1, "wasserstein": 1.0}]) == []


def test_draw_leaves_out_what_is_not_finite():
    metrics = [
        {"step": step, "wasserstein": value, "critic_loss": value}
        for step, value in ((1, 1.0), (2, float("nan")), (3, 4.0))
    ]
    drawn = curves.draw(metrics)
    assert [plot.title for plot in drawn] == ["Wasserstein estimate", "Critic loss"]
    assert "training images: 1 at step 1, 4 at step 3, lowest 1" in drawn[0].alt


def test_draw_same_metrics_give_the_same_picture_for_light_and_dark():
    metrics = [{"step": step, "validation_distance": 1.0 / step} for step in (1, 2)]
    (plot,) = curves.draw(metrics, exported=2)
    assert plot == curves.draw(metrics, exported=2)[0]
    assert b"@media(prefers-color-scheme:dark)" in plot.svg
    assert b"var(--first)" in plot.svg
    assert "exported: step 2" in plot.alt


def test_read_metrics_leaves_out_a_line_that_a_crash_cut_off(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "wasserstein": 2.0}\n{"step": 2, "wass')
    assert curves.read_metrics(path) == [{"step": 1, "wasserstein": 2.0}]


@pytest.mark.parametrize(
    ("count", "expected"), [(9, [0, 3, 6, 9]), (3, [0, 1, 2, 3]), (1, [0, 1]), (4, [0, 1, 3, 4])]
)
def test_spread_keeps_first_and_last(count, expected):
    assert pictures.spread(range(count + 1), 4) == expected


def test_step_files_are_by_step_and_nothing_else(tmp_path):
    for name in ("step-00000500.png", "step-00000020.png", "step-1.png.tmp-7", "other.png"):
        (tmp_path / name).touch()
    assert [step for step, _ in pictures.step_files(tmp_path)] == [20, 500]


def test_compared_images_are_sorted_by_class_alike(tmp_path):
    shades = np.arange(3, dtype=np.uint8).reshape(3, 1, 1, 1)
    np.savez(
        tmp_path / pictures.PICTURES_FILE,
        real=shades * 100,
        real_label=np.array([2, 0, 1]),
        generated=shades * 100,
        generated_label=np.array([2, 0, 1]),
    )
    found = pictures.read(tmp_path)["compared"]
    # Classes 0, 1, 2 are the second, third and first image.
    in_order = pictures._grid(shades[[1, 2, 0]] * 100, 8)
    assert found == {"real": in_order, "generated": in_order, "count": 3, "labelled": True}


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (2.85601, 0.0123, "2.856 ± 0.012"),
        (-0.5, 0.25, "−0.50 ± 0.25"),
        (1234.5, 67.8, "1234 ± 68"),
        (1.5e-7, 2e-8, "1.5e−07 ± 2e−08"),
        (0.123456, None, "0.1235"),
        (0.123456, 0.0, "0.1235"),
        (float("nan"), 0.1, "–"),
        (None, 0.1, "–"),
        (True, None, "–"),
    ],
)
def test_measured_shows_the_digits_that_the_error_allows(value, error, expected):
    assert scores.measured(value, error) == expected


@pytest.mark.parametrize(
    ("name", "ours", "theirs", "error", "judgement"),
    [
        ("relative_frechet_distance", 0.2, 0.1, 0.04, "worse"),
        ("relative_frechet_distance", 0.1, 0.2, 0.04, "better"),
        ("precision", 0.2, 0.1, 0.04, "better"),
        ("precision", 0.1, 0.2, 0.04, "worse"),
        ("precision", 0.1, 0.2, 0.06, "no clear change"),
        ("precision", 0.1, 0.2, None, ""),
    ],
)
def test_table_change_is_judged_by_direction_and_two_errors(name, ours, theirs, error, judgement):
    (row,) = scores.table({name: ours, "change_errors": {name: error}}, {name: theirs})
    assert row["judgement"] == judgement


def test_table_of_no_metrics_is_empty():
    assert scores.table({}, None) == []
    assert scores.by_class({}, None) is None


def test_gather_reads_counts_labels_sizes_and_anomalies(tmp_path):
    found = statistics_pb2.DatasetFeatureStatisticsList()
    data = found.datasets.add(num_examples=5)
    label = data.features.add(name="label", type=statistics_pb2.FeatureNameStatistics.STRING)
    for name, count in (("cat", 2), ("ant", 3)):
        label.string_stats.rank_histogram.buckets.add(label=name, sample_count=count)
    for name, low, median, high in (("height", 8, 9, 12), ("width", 7, 7, 7)):
        numbers = data.features.add(name=name).num_stats
        numbers.min, numbers.median, numbers.max = low, median, high
    statistics = tmp_path / "statistics" / "Split-train"
    statistics.mkdir(parents=True)
    (statistics / "FeatureStats.pb").write_bytes(found.SerializeToString())
    anomalies = anomalies_pb2.Anomalies()
    anomalies.anomaly_info["label"].description = "a new value"
    (tmp_path / "anomalies" / "Split-train").mkdir(parents=True)
    (tmp_path / "anomalies" / "Split-train" / "SchemaDiff.pb").write_bytes(
        anomalies.SerializeToString()
    )
    gathered = dataset.gather(tmp_path / "statistics", tmp_path / "anomalies")
    assert gathered == {
        "splits": {
            "train": {
                "examples": 5,
                "labels": {"ant": 3, "cat": 2},
                "sizes": {"height": [8, 9, 12], "width": [7, 7, 7]},
            }
        },
        "anomalies": ["train: label: a new value"],
    }
    assert dataset._size(gathered["splits"]["train"]["sizes"]) == "8–12 × 7–7, median 9 × 7"


def test_gather_of_a_run_that_stopped_before_is_empty():
    assert dataset.gather(None, None) == {"splits": {}, "anomalies": []}


def _run(run_id, distance, **more):
    return {"run_id": run_id, "metrics": {"relative_frechet_distance": distance}, **more}


def test_view_plots_only_runs_with_the_features_of_the_latest():
    history = [_run("a", 0.1, extractor="inception"), _run("b", 0.2), _run("c", 0.3)]
    found = timeline.view(history, "c")
    assert [row["run_id"] for row in found["rows"]] == ["c", "b", "a"]
    assert found["plot"]["alt"].startswith("Relative Frechet distance of 2 runs, 0 of them pushed")


def test_view_of_one_run_or_of_none_that_was_measured_has_no_plot():
    assert timeline.view([_run("a", 0.1)], "a") is None
    assert timeline.view([_run("a", None), _run("b", None)], "b")["plot"] is None
