"""Which execution made which artifact from which in one run, read back from ML Metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ml_metadata.proto import metadata_store_pb2

from pipeline import metadata

#: Properties that tell an artifact's content, the first that is there.
_FINGERPRINTS = ("fingerprint", "input_fingerprint", "sha256")
_INPUTS = (metadata_store_pb2.Event.INPUT, metadata_store_pb2.Event.DECLARED_INPUT)


def gather(database: Path, run_id: str) -> dict[str, list[dict[str, Any]]]:
    """Reads the executions and artifacts of one run.

    Args:
      database: the SQLite file; it is not written to.
      run_id: the run's name in the metadata.

    Returns:
      `executions`: {id, component, state, inputs, outputs (artifact ids)} in order; `artifacts`:
      {id, type, uri, fingerprint (or null), made_by (execution id, or null: of an earlier run)}.
      Both empty where the run is not known. JSON-serialisable.
    """
    store = metadata.opened(database)
    context = store and store.get_context_by_type_and_name("pipeline_run", run_id)
    if not (store and context):
        return {"executions": [], "artifacts": []}
    executions = sorted(store.get_executions_by_context(context.id), key=lambda one: one.id)
    events = store.get_events_by_execution_ids([one.id for one in executions])
    used = sorted({event.artifact_id for event in events})
    made_by = {
        event.artifact_id: event.execution_id
        for event in store.get_events_by_artifact_ids(used)
        if event.type == metadata_store_pb2.Event.OUTPUT
        and event.execution_id in {one.id for one in executions if not _is_cached(one)}
    }
    return {
        "executions": [_execution(store, one, events) for one in executions],
        "artifacts": [
            _artifact(one, made_by.get(one.id)) for one in store.get_artifacts_by_id(used)
        ],
    }


def _execution(store: Any, execution: Any, events: Any) -> dict[str, Any]:
    mine = [event for event in events if event.execution_id == execution.id]
    inputs = sorted({event.artifact_id for event in mine if event.type in _INPUTS})
    return {
        "id": execution.id,
        "component": _component(store, execution),
        "state": metadata_store_pb2.Execution.State.Name(execution.last_known_state).lower(),
        "inputs": inputs,
        "outputs": sorted({event.artifact_id for event in mine} - set(inputs)),
    }


def _component(store: Any, execution: Any) -> str:
    """The node's id: its context is named `<pipeline>.<node>`."""
    for context in store.get_contexts_by_execution(execution.id):
        if context.type == "node":
            return str(context.name).partition(".")[2]
    return str(execution.type).rpartition(".")[2]


def _artifact(artifact: Any, made_by: int | None) -> dict[str, Any]:
    found = None
    for name in _FINGERPRINTS:
        for properties in (artifact.custom_properties, artifact.properties):
            if name in properties and not found:
                found = properties[name].string_value or None
    return {
        "id": artifact.id,
        "type": artifact.type,
        "uri": artifact.uri,
        "fingerprint": found,
        "made_by": made_by,
    }


def _is_cached(execution: Any) -> bool:
    return bool(execution.last_known_state == metadata_store_pb2.Execution.CACHED)
