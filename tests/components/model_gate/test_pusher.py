"""ServedModel and Pusher: real local runs with real metadata; pushing by itself."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tfx.dsl.components.common.importer import Importer
from tfx.dsl.io import fileio
from tfx.orchestration import metadata, pipeline
from tfx.orchestration.local.local_dag_runner import LocalDagRunner
from tfx.types import standard_artifacts

from components.pusher.component import Pusher
from components.pusher.push import push
from components.served_model.component import ServedModel
from components.served_model.fingerprint import NOTHING, ServedVersion, model_fingerprint


def saved_model(folder: Path, content: str = "weights") -> Path:
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_text("graph")
    (folder / "variables" / "data").write_text(content)
    return folder


@pytest.fixture
def model(tmp_path):
    return saved_model(tmp_path / "model")


def test_push_first_model_gets_the_time_as_version(tmp_path, model):
    served, copied = push(str(model), str(tmp_path / "to" / "serving"), clock=lambda: 1234.9)
    assert (served.version, copied) == (1234, True)
    assert served.path == str(tmp_path / "to" / "serving" / "1234")
    assert model_fingerprint(served.path) == model_fingerprint(str(model))


def test_push_clock_behind_the_newest_version_counts_on(tmp_path, model):
    destination = tmp_path / "serving"
    saved_model(destination / "5000", "others")
    (destination / "6000").mkdir()  # unfinished, but its number is taken
    served, _ = push(str(model), str(destination), clock=lambda: 10.0)
    assert served.version == 6001


def test_push_model_that_is_served_is_not_copied_again(tmp_path, model):
    destination = str(tmp_path / "serving")
    first, _ = push(str(model), destination, clock=lambda: 10.0)
    again, copied = push(str(model), destination, clock=lambda: 20.0)
    assert (again, copied) == (first, False)
    assert [path.name for path in Path(destination).iterdir()] == ["10"]


def test_push_model_that_was_served_before_another_is_served_again(tmp_path, model):
    destination = str(tmp_path / "serving")
    push(str(model), destination, clock=lambda: 10.0)
    push(str(saved_model(tmp_path / "other", "others")), destination, clock=lambda: 11.0)
    assert push(str(model), destination, clock=lambda: 12.0) == (
        ServedVersion(12, str(tmp_path / "serving" / "12")),
        True,
    )


def test_push_interrupted_copy_leaves_no_version(tmp_path, model, monkeypatch):
    destination = tmp_path / "serving"
    saved_model(destination / "1", "served")

    def fail(src, dst, overwrite=False):
        raise OSError("disk full")

    monkeypatch.setattr(fileio, "rename", fail)
    with pytest.raises(OSError, match="disk full"):
        push(str(model), str(destination))
    assert [path.name for path in destination.iterdir()] == ["1"]


class Pipeline:
    """ServedModel and Pusher, with a candidate and blessings from outside."""

    def __init__(self, root: Path, last_run: Callable):
        self.root = root
        self.serving = root / "serving"
        self._database = root / "metadata.sqlite"
        self._last_run = functools.partial(last_run, self._database)

    def run(self, candidate: Path, model_blessed: int = 1, infra_blessed: int = 1):
        """One run; returns what ServedModel and Pusher did."""
        model = self._import(standard_artifacts.Model, candidate.parent, "candidate")
        blessings = [
            self._import(kind, self.root / f"{kind.TYPE_NAME}{blessed}", kind.TYPE_NAME, blessed)
            for kind, blessed in (
                (standard_artifacts.ModelBlessing, model_blessed),
                (standard_artifacts.InfraBlessing, infra_blessed),
            )
        ]
        served = ServedModel(push_destination=str(self.serving))
        pusher = Pusher(
            model=model.outputs["result"],
            model_blessing=blessings[0].outputs["result"],
            infra_blessing=blessings[1].outputs["result"],
            push_destination=str(self.serving),
        )
        pusher.add_upstream_node(served)
        LocalDagRunner().run(
            pipeline.Pipeline(
                pipeline_name="push",
                pipeline_root=str(self.root / "pipeline"),
                components=[model, *blessings, served, pusher],
                enable_cache=True,
                metadata_connection_config=metadata.sqlite_metadata_connection_config(
                    str(self._database)
                ),
            )
        )
        return self._last_run("ServedModel"), self._last_run("Pusher")

    def _import(self, kind: type, uri: Path, name: str, blessed: int | None = None) -> Importer:
        uri.mkdir(exist_ok=True)
        properties = {} if blessed is None else {"blessed": blessed}
        return Importer(
            source_uri=str(uri), artifact_type=kind, custom_properties=properties
        ).with_id(name)


@pytest.fixture
def local(tmp_path, last_run):
    return Pipeline(tmp_path, last_run)


@pytest.fixture
def candidate(tmp_path):
    return saved_model(tmp_path / "trained" / "Format-Serving")


def test_pipeline_repeated_runs_push_once_and_settle_in_the_cache(local, candidate):
    served, pusher = local.run(candidate)
    assert not served.cached
    assert (served["served"], served["fingerprint"], served["version"]) == (0, NOTHING, 0)
    assert list(Path(served.uris["model"]).iterdir()) == []
    assert (pusher["pushed"], pusher["copied"]) == (1, 1)
    version = pusher["pushed_version"]
    assert pusher["pushed_destination"] == str(local.serving / version)

    served, pusher = local.run(candidate)
    assert not served.cached
    copy = Path(served.uris["model"]) / "Format-Serving"
    assert (served["served"], served["version"]) == (1, int(version))
    assert served["fingerprint"] == model_fingerprint(str(candidate))
    assert model_fingerprint(str(copy)) == served["fingerprint"]
    assert not pusher.cached
    assert (pusher["pushed"], pusher["copied"], pusher["pushed_version"]) == (1, 0, version)

    served, pusher = local.run(candidate)
    assert served.cached
    assert pusher.cached
    assert pusher["pushed_version"] == version
    assert [path.name for path in local.serving.iterdir()] == [version]


def test_pipeline_served_model_removed_is_noticed_and_pushed_again(local, candidate):
    local.run(candidate)
    shutil.rmtree(local.serving)
    served, pusher = local.run(candidate)
    assert served["served"] == 0
    assert not pusher.cached
    assert pusher["copied"] == 1
    assert Path(pusher["pushed_destination"], "saved_model.pb").is_file()


def test_pipeline_version_put_there_by_others_is_what_is_served(local, candidate):
    local.run(candidate)
    saved_model(local.serving / "99999999999", "others")
    served, _ = local.run(candidate)
    assert (served.cached, served["version"]) == (False, 99999999999)
    assert Path(served.uris["model"], "Format-Serving", "variables", "data").read_text() == "others"


def test_pipeline_served_version_overwritten_in_place_is_noticed(local, candidate):
    version = local.run(candidate)[1]["pushed_version"]
    first, _ = local.run(candidate)
    (local.serving / version / "variables" / "data").write_text("tampered with")
    second, _ = local.run(candidate)
    assert not second.cached
    assert second["version"] == first["version"]
    assert second["fingerprint"] != first["fingerprint"]


def test_pipeline_served_version_renumbered_is_noticed(local, candidate):
    version = local.run(candidate)[1]["pushed_version"]
    first, _ = local.run(candidate)
    (local.serving / version).rename(local.serving / "99999999999")
    second, pusher = local.run(candidate)
    assert not second.cached
    assert second["version"] == 99999999999
    assert second["fingerprint"] == first["fingerprint"]
    assert (pusher["copied"], pusher["pushed_version"]) == (0, "99999999999")


@pytest.mark.parametrize("blessings", [(0, 1), (1, 0), (0, 0)])
def test_pipeline_without_both_blessings_nothing_is_pushed(local, candidate, blessings):
    _, pusher = local.run(candidate, *blessings)
    assert (pusher["pushed"], pusher["copied"]) == (0, 0)
    assert not local.serving.exists()
