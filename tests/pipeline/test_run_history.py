"""The history of a root, read from metadata that TFX itself has written."""

# No `from __future__ import annotations`: TFX reads the annotations of its function components.
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tfx.dsl.component.experimental.annotations import OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration import metadata, pipeline
from tfx.types import standard_artifacts

from components.gan_evaluator import results
from components.gan_evaluator.measurements import (
    ExtractorIdentity,
    ModelMetrics,
    SliceMetrics,
    Value,
)
from components.gan_evaluator.options import GateRule, GateRules
from components.gan_evaluator.verdict import decide
from pipeline import cli, history, history_table, lineage, local

NOTHING_ASKED = {name: GateRule() for name in GateRules.model_fields}
RULES = GateRules(**(NOTHING_ASKED | {"relative_frechet_distance": GateRule(bound=0.5)}))


@component
def Evaluate(
    distance: Parameter[float],
    features: Parameter[str],
    evaluation: OutputArtifact[standard_artifacts.ModelEvaluation],
    blessing: OutputArtifact[standard_artifacts.ModelBlessing],
) -> None:
    """Stands in for the Evaluator: leaves what it leaves in the metadata."""
    if distance < 0.0:
        raise ValueError("no such distance")
    extractor = ExtractorIdentity(features, features[0] * 64, 8)
    found = SliceMetrics({"relative_frechet_distance": Value(distance, 0.015625)}, 50, 50, 50)
    verdict = decide(ModelMetrics(found, {}, extractor, "eval"), None, RULES)
    results.describe_artifact(evaluation, verdict)
    blessing.set_int_custom_property("blessed", int(verdict.blessed))


@component
def Validate(
    blessed: Parameter[int], blessing: OutputArtifact[standard_artifacts.InfraBlessing]
) -> None:
    """Stands in for the ServingValidator."""
    blessing.set_int_custom_property("blessed", blessed)


@component
def Push(
    version: Parameter[str], pushed_model: OutputArtifact[standard_artifacts.PushedModel]
) -> None:
    """Stands in for the Pusher, which leaves what TFX's does."""
    pushed_model.set_int_custom_property("pushed", int(bool(version)))
    if version:
        pushed_model.set_string_custom_property("pushed_version", version)


def run(root: Path, run_id: str, nodes: list) -> None:
    local.LocalRunner(run_id).run(
        pipeline.Pipeline(
            pipeline_name="tfx-wgan",
            pipeline_root=str(root / "pipeline"),
            components=nodes,
            enable_cache=True,
            metadata_connection_config=metadata.sqlite_metadata_connection_config(
                str(root / "metadata.sqlite")
            ),
        )
    )


def leave_summary(root: Path, run_id: str, text: str) -> None:
    folder = root / "runs" / run_id
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(text)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Runs of every kind, in the order of their numbers."""
    folder = tmp_path_factory.mktemp("root")
    good = {"distance": 0.25, "features": "inception"}
    run(folder, "run-1", [Evaluate(**good), Validate(blessed=1), Push(version="7")])
    run(folder, "run-2", [Evaluate(**good), Validate(blessed=1), Push(version="7")])
    bad = Evaluate(distance=0.75, features="random")
    run(folder, "run-3", [bad, Validate(blessed=1), Push(version="")])
    better = Evaluate(distance=0.125, features="random")
    run(folder, "run-4", [better, Validate(blessed=0), Push(version="")])
    with pytest.raises(ValueError, match="no such distance"):
        run(folder, "run-5", [Evaluate(distance=-1.0, features="random")])
    leave_summary(folder, "run-6", json.dumps({"status": "interrupted", "verdict": None}))
    leave_summary(folder, "run-7", "{half")
    run(folder, "run-8", [Validate(blessed=1)])
    run(folder, "run-9-fit", [Validate(blessed=1)])  # an extractor was fitted: no run
    return folder


@pytest.fixture(scope="module")
def runs(root) -> dict[str, dict]:
    found = history.runs(root)
    assert [one["run_id"] for one in found] == [f"run-{number}" for number in range(1, 9)]
    return {one["run_id"]: one for one in found}


def test_runs_served_has_numbers_errors_and_version(runs):
    found = dict(runs["run-1"])
    assert found.pop("started").startswith("20")
    assert found == {
        "run_id": "run-1",
        "status": "served",
        "blessed": True,
        "verdict": "Blessed: Relative Frechet distance 0.25 ± 0.016 (bound 0.5); nothing was "
        "served before (50 examples).",
        "metrics": {"relative_frechet_distance": 0.25},
        "errors": {"relative_frechet_distance": 0.015625},
        "extractor": "inception",
        "extractor_sha256": "i" * 64,
        "pushed_version": 7,
    }


def test_runs_from_the_cache_counts_as_if_it_had_run(root, runs):
    counted = lineage.gather(root / "metadata.sqlite", "run-2")["executions"]
    assert {one["state"] for one in counted} == {"cached"}
    first, second = dict(runs["run-1"]), dict(runs["run-2"])
    for one in (first, second):
        del one["run_id"], one["started"]
    assert first == second


def test_runs_refused_by_evaluator_or_validator_is_not_pushed(runs):
    assert [runs[name]["status"] for name in ("run-3", "run-4")] == ["refused"] * 2
    assert [runs[name]["blessed"] for name in ("run-3", "run-4")] == [False, False]
    assert [runs[name]["pushed_version"] for name in ("run-3", "run-4")] == [None, None]
    assert "0.75 ± 0.016 is above the bound 0.5" in runs["run-3"]["verdict"]
    assert runs["run-4"]["verdict"] == "the exported model failed validation"


def test_runs_without_a_verdict_tell_how_they_ended(runs):
    names = ("run-5", "run-6", "run-7", "run-8")
    assert [runs[name]["status"] for name in names] == [
        *("failed", "interrupted", "unfinished", "unfinished")
    ]
    for name in names:
        assert (runs[name]["blessed"], runs[name]["metrics"]) == (None, {})
    assert runs["run-6"]["started"] is None


def test_runs_reading_changes_nothing(root):
    before = (root / "metadata.sqlite").read_bytes()
    history.runs(root)
    assert (root / "metadata.sqlite").read_bytes() == before


def test_runs_of_an_empty_root_are_none(tmp_path):
    assert history.runs(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"garbage", b"SQLite format 3\0"])
def test_report_of_damaged_metadata_is_one_line_and_the_page_goes_without(tmp_path, content):
    leave_summary(tmp_path, "run-1", json.dumps({"run_id": "run-1", "status": "refused"}))
    (tmp_path / "metadata.sqlite").write_bytes(content)
    listed = CliRunner().invoke(cli.main, ["report", str(tmp_path), "--history"])
    assert listed.exit_code == 1
    assert listed.output.startswith(f"tfx-wgan: {tmp_path / 'metadata.sqlite'}: cannot be read (")
    assert len(listed.output.splitlines()) == 1
    page = CliRunner().invoke(cli.main, ["report", str(tmp_path)])
    assert page.exit_code == 0
    assert page.stdout == f"{tmp_path / 'runs' / 'run-1' / 'report.html'}\n"
    assert len(page.stderr.splitlines()) == 1


@pytest.mark.parametrize("content", ["", "[]", "{}", "{half"])
def test_runs_summary_that_is_damaged_leaves_the_run_in_the_list(tmp_path, content):
    leave_summary(tmp_path, "run-1", content)
    assert [(run["run_id"], run["status"]) for run in history.runs(tmp_path)] == [
        ("run-1", "unfinished")
    ]


def test_lines_mark_numbers_of_other_features(runs):
    table = history_table.lines(list(runs.values()))
    assert table[2] == "run-1  served       7        0.2500 ± 0.0156*  -         -          -"
    assert table[5] == "run-4  refused      -        0.1250 ± 0.0156   -         -          -"
    assert table[-1].startswith("* measured with other features than the last run")
    assert len(table) == 2 + len(runs) + 1
    same = [runs["run-3"], runs["run-4"]]
    assert "*" not in "".join(history_table.lines(same))


def test_lines_error_that_is_not_known_is_left_out(runs):
    row = {**runs["run-1"], "errors": {}}
    assert history_table.lines([row])[-1].split()[2:] == ["7", "0.2500", "-", "-", "-"]


def test_report_history_as_json_is_the_last_line(root):
    result = CliRunner().invoke(cli.main, ["report", str(root), "--history", "--json"])
    assert result.exit_code == 0
    *table, last = result.output.splitlines()
    assert table == history_table.lines(history.runs(root))
    assert json.loads(last) == {"runs": history.runs(root)}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--history"], "no run there; `tfx-wgan run` makes one"),
        (["--json"], "only with --history"),
    ],
)
def test_report_history_of_nothing_exits_2_with_one_line(tmp_path, arguments, line):
    result = CliRunner().invoke(cli.main, ["report", str(tmp_path), *arguments])
    assert result.exit_code == 2
    assert line in result.output
    assert len(result.output.splitlines()) == 1
