"""How a run went: seconds of each component, executions and artifacts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.run_report import files

LINEAGE_FILE = "lineage.json"


def times(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a component: `name`, `started`, `seconds`, `state`, `percent` of the slowest."""
    components = summary.get("components") or {}
    slowest = max((one["seconds"] for one in components.values()), default=0.0)
    return [
        {
            "name": name,
            "started": one["started"][11:],
            "seconds": one["seconds"],
            "state": one["state"],
            "percent": round(100 * one["seconds"] / slowest, 1) if slowest else 0.0,
        }
        for name, one in components.items()
    ]


def lineage(folder: Path) -> dict[str, Any] | None:
    """Executions and artifacts as they were gathered after the run; None where they were not."""
    found = files.read_json(folder / LINEAGE_FILE)
    return found if found.get("executions") else None
