"""All runs of a root over time, read back from ML Metadata."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ml_metadata import errors
from ml_metadata.proto import metadata_store_pb2

from pipeline import metadata, summary
from pipeline.run import FIT_SUFFIX
from trainer.quality import catalogue

#: Types of artifacts, one of each in a run, that tell how it ended.
_TOLD_BY = ("ModelEvaluation", "ModelBlessing", "InfraBlessing", "PushedModel")


class HistoryError(RuntimeError):
    """The metadata cannot be read; the message is one line for the user."""


def runs(root: Path) -> list[dict[str, Any]]:
    """Every run of a root, oldest first; fitting an extractor is none.

    A node that came from the cache counts as if it had run. What the metadata does not know, such
    as how a run ended that came to no verdict, is taken from the run's summary.

    Args:
      root: the pipeline's folder; nothing in it is written to.

    Returns:
      For each run `run_id`, `started` (ISO 8601, local time; null where no node was), `status` (as
      in its summary, or `unfinished`), `blessed` (by Evaluator and ServingValidator; null: not
      both have spoken), `verdict` or null, `metrics` and `errors` of the candidate by name,
      `extractor` and `extractor_sha256` of the features ('' where nothing was measured), and
      `pushed_version`, which its model is served as, or null. JSON-serialisable.

    Raises:
      HistoryError: the metadata is damaged.
    """
    summaries = {folder.name: _summary(folder) for folder in summary.folders(root)}
    database = root / "metadata.sqlite"
    try:
        known = {found["run_id"]: found for found in _known(database)}
    except (RuntimeError, errors.StatusError) as error:  # the store raises either
        what = " ".join(str(error).split(" query:")[0].split())
        raise HistoryError(
            f"{database}: cannot be read ({what}); bring it back, or begin with a new root"
        ) from error
    unknown = [_row(run_id, None) for run_id in summaries.keys() - known.keys()]
    rows = sorted([*known.values(), *unknown], key=lambda row: row["run_id"])
    return [_completed(row, summaries.get(row["run_id"], {})) for row in rows]


def _known(database: Path) -> Iterator[dict[str, Any]]:
    """A row for each run in the metadata."""
    store = metadata.opened(database)
    if store is None:
        return
    for run in store.get_contexts_by_type("pipeline_run"):
        if run.name.endswith(FIT_SUFFIX):
            continue
        executions = store.get_executions_by_context(run.id)
        states = {execution.last_known_state for execution in executions}
        made = [
            event.artifact_id
            for event in store.get_events_by_execution_ids([each.id for each in executions])
            if event.type == metadata_store_pb2.Event.OUTPUT
        ]
        told = {
            artifact.type: {
                key: getattr(value, value.WhichOneof("value"))
                for key, value in artifact.custom_properties.items()
            }
            for artifact in store.get_artifacts_by_id(made)
            if artifact.type in _TOLD_BY
        }
        row = _row(run.name, run.create_time_since_epoch)
        row.update(_outcome(told))
        if metadata_store_pb2.Execution.FAILED in states:
            row["status"] = "failed"
        yield row


def _row(run_id: str, started_milliseconds: int | None) -> dict[str, Any]:
    """A run of which nothing is known but its name."""
    started = None
    if started_milliseconds is not None:
        moment = datetime.datetime.fromtimestamp(started_milliseconds / 1000).astimezone()
        started = moment.isoformat(timespec="seconds")
    return {
        "run_id": run_id,
        "started": started,
        "status": "unfinished",
        "blessed": None,
        "verdict": None,
        "metrics": {},
        "errors": {},
        "extractor": "",
        "extractor_sha256": "",
        "pushed_version": None,
    }


def _outcome(told: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the custom properties of a run's artifacts, by type, tell of it."""
    evaluation, blessing, infra, pushed = (told.get(kind, {}) for kind in _TOLD_BY)
    outcome: dict[str, Any] = {
        "verdict": evaluation.get("reason"),
        "metrics": {name: evaluation[name] for name in catalogue.BY_NAME if name in evaluation},
        "errors": {
            name: evaluation[f"{name}_error"]
            for name in catalogue.BY_NAME
            if f"{name}_error" in evaluation
        },
        "extractor": evaluation.get("extractor", ""),
        "extractor_sha256": evaluation.get("extractor_sha256", ""),
    }
    if blessing and infra:
        outcome["blessed"] = bool(blessing.get("blessed") and infra.get("blessed"))
        if not infra.get("blessed"):
            outcome["verdict"] = "the exported model failed validation"
    if pushed:
        outcome["status"] = "served" if pushed.get("pushed") else "refused"
    if pushed.get("pushed"):
        outcome["pushed_version"] = int(pushed["pushed_version"])
    return outcome


def _summary(folder: Path) -> dict[str, Any]:
    try:
        return summary.read(folder)
    except (OSError, ValueError):  # a page of many runs is not lost for one broken file
        return {}


def _completed(row: dict[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The row with what only the run itself could tell."""
    row["status"] = told.get("status") or row["status"]
    row["verdict"] = told.get("verdict") or row["verdict"]
    return row
