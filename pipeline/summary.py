"""What one run did, as one JSON object: gathered from artifacts, written beside the log."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from importlib import metadata as distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the command line reads summaries without loading TFX
    from pipeline.local import NodeRun

SUMMARY_FILE = "summary.json"

#: Distributions whose versions decide what a run does.
_VERSIONED = ("tfx-wgan", "tfx", "tensorflow", "tf-keras", "apache-beam", "numpy")


def build(
    run_id: str,
    folder: Path,
    nodes: Sequence[NodeRun],
    error: str | None,
    interrupted: bool,
) -> dict[str, Any]:
    """Gathers a run's summary and copies the small files it names into the run's folder.

    Args:
      run_id: the run's name.
      folder: the run's folder.
      nodes: what became of each node that was started, in order.
      error: one line that says why the run stopped; None: it went through.
      interrupted: it was told to stop.

    Returns:
      The summary, JSON-serialisable; `docs/summary.md` says what each key means.
    """
    by_id = {node.node_id: node for node in nodes}
    verdict = _read_json(_file(by_id, "Evaluator", "evaluation", "verdict.json"))
    infra = _read_json(_file(by_id, "ServingValidator", "blessing", "report.json"))
    approval = _read_json(_file(by_id, "DataGate", "approval", "approval.json"))
    training = _read_json(_file(by_id, "Trainer", "model_run", "training.json"))
    quarantine = _artifact(by_id, "ImageExampleGen", "quarantine")
    pushed = _artifact(by_id, "Pusher", "pushed_model")
    blessed = bool(verdict.get("blessed")) and bool(infra.get("blessed"))
    _copy(_file(by_id, "ImageExampleGen", "quarantine", "quarantine.jsonl"), folder)
    return {
        "run_id": run_id,
        "status": _status(error, interrupted, verdict, infra, blessed),
        "error": error,
        "blessed": blessed,
        "verdict": _verdict(verdict, infra),
        "pushed_model": pushed.get_string_custom_property("pushed_destination") or None
        if pushed and blessed
        else None,
        "report": str(folder / "report.html"),
        "log": str(folder / "log.txt"),
        "samples": None,
        "model": _model(by_id),
        "metrics": verdict.get("metrics") or {},
        "baseline_metrics": verdict.get("baseline_metrics"),
        "examples": approval.get("examples") or {},
        "quarantined": quarantine.get_int_custom_property("quarantined") if quarantine else 0,
        "training": training or None,
        "components": {
            node.node_id: {
                "seconds": round(node.seconds, 3),
                "cached": node.state == "cached",
                "state": node.state,
                "started": node.started.isoformat(timespec="seconds"),
            }
            for node in nodes
        },
        "artifacts": {
            node.node_id: {
                key: [artifact.uri for artifact in artifacts]
                for key, artifacts in node.outputs.items()
            }
            for node in nodes
        },
        "versions": {name: _version(name) for name in _VERSIONED},
    }


def _status(error: str | None, interrupted: bool, verdict: dict, infra: dict, blessed: bool) -> str:
    if interrupted:
        return "interrupted"
    if error is not None or not verdict or not infra:
        return "failed"
    return "served" if blessed else "refused"


def _verdict(verdict: dict[str, Any], infra: dict[str, Any]) -> str | None:
    """The sentence that decided: the export's fault if it has one, else the Evaluator's."""
    if infra and not infra.get("blessed"):
        return f"the exported model failed validation: {infra.get('reason')}"
    return verdict.get("reason")


def _version(name: str) -> str | None:
    try:
        return distributions.version(name)
    except distributions.PackageNotFoundError:
        return None


def _artifact(by_id: dict[str, NodeRun], node_id: str, key: str) -> Any:
    node = by_id.get(node_id)
    artifacts = node.outputs.get(key) if node else None
    return artifacts[0] if artifacts else None


def _file(by_id: dict[str, NodeRun], node_id: str, key: str, name: str) -> str | None:
    artifact = _artifact(by_id, node_id, key)
    return os.path.join(artifact.uri, name) if artifact else None


def _model(by_id: dict[str, NodeRun]) -> str | None:
    """Folder of the candidate's SavedModel, where TFX's Trainer puts it."""
    return _file(by_id, "Trainer", "model", "Format-Serving")


def _read_json(path: str | None) -> dict[str, Any]:
    if path is None or not os.path.exists(path):
        return {}
    return json.loads(Path(path).read_text(encoding="utf-8"))


def _copy(path: str | None, folder: Path) -> None:
    if path is not None and os.path.exists(path):
        shutil.copy(path, folder)


def write(folder: Path, summary: dict[str, Any]) -> None:
    """Writes the summary into the run's folder, whole or not at all."""
    temporary = folder / f"{SUMMARY_FILE}.tmp"
    temporary.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    temporary.replace(folder / SUMMARY_FILE)


def folders(root: Path) -> list[Path]:
    """The folders of all runs that left a summary, oldest first."""
    return [path.parent for path in sorted((root / "runs").glob(f"*/{SUMMARY_FILE}"))]


def latest(root: Path) -> Path | None:
    """The folder of the latest run that left a summary; None where there is none."""
    found = folders(root)
    return found[-1] if found else None


def read(folder: Path) -> dict[str, Any]:
    """The summary of the run in `folder`.

    Raises:
      ValueError: what stands there is no summary.
      OSError: it cannot be read.
    """
    found = json.loads((folder / SUMMARY_FILE).read_text(encoding="utf-8"))
    if not isinstance(found, dict) or "status" not in found:
        raise ValueError("it has no status")
    return found
