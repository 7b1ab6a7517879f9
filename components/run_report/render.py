"""The run's page: one HTML file that opens anywhere, offline, without a script."""

from __future__ import annotations

import base64
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from components.run_report import curves

REPORT_FILE = "report.html"

_HEADLINES = {
    "served": "Served",
    "refused": "Refused: what was served before still is",
    "failed": "Failed",
    "interrupted": "Interrupted",
}


def render(folder: Path, summary: Mapping[str, Any]) -> Path:
    """Writes the report of one run into its folder.

    Args:
      folder: the run's folder; `samples.png`, `metrics.jsonl`, `quarantine.jsonl` and
        `config.yaml` in it are used where they exist.
      summary: the run's summary.

    Returns:
      Path of the page.
    """
    metrics = curves.read_metrics(folder / "metrics.jsonl")
    drawn = curves.draw(metrics)
    samples = folder / "samples.png"
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("components.run_report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = _number
    environment.filters["in_root"] = functools.partial(_in_root, folder.parent.parent)
    page = environment.get_template("template.html").render(
        run=summary,
        headline=_HEADLINES[summary["status"]],
        samples=_data_uri("image/png", samples.read_bytes()) if samples.exists() else None,
        curves=_data_uri("image/svg+xml", drawn) if drawn else None,
        readings=[(title, meaning) for _, title, meaning in curves.CURVES],
        table=_metrics_table(summary),
        last=metrics[-1] if metrics else None,
        quarantine=_head(folder / "quarantine.jsonl", 50),
        config=_text(folder / "config.yaml"),
    )
    path = folder / REPORT_FILE
    temporary = path.with_suffix(".tmp")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(path)
    return path


def _metrics_table(summary: Mapping[str, Any]) -> list[tuple[str, dict, dict]]:
    """Rows of (class, candidate's metrics, served model's metrics), all classes together first."""
    candidate, served = summary["metrics"], summary["baseline_metrics"] or {}
    if not candidate:
        return []
    rows = [("all", candidate, served)]
    for name, numbers in candidate.get("per_class", {}).items():
        rows.append((name, numbers, served.get("per_class", {}).get(name, {})))
    return rows


def _number(value: Any) -> str:
    """Four significant digits; a dash where there is no number."""
    return f"{value:.4g}" if isinstance(value, int | float) else "–"


def _in_root(root: Path, path: str) -> str:
    """A path as it reads from the pipeline root, where it lies below it."""
    return str(Path(path).relative_to(root)) if Path(path).is_relative_to(root) else path


def _data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _head(path: Path, lines: int) -> str:
    return "\n".join(_text(path).splitlines()[:lines])
