"""The run's page: one HTML file that opens anywhere, offline, without a script."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from components.run_report import curves, dataset, files, making, pictures, scores, timeline

REPORT_FILE = "report.html"

_HEADLINES = {
    "served": "Served",
    "refused": "Refused: what was served before still is",
    "failed": "Failed",
    "interrupted": "Interrupted",
}


def render(
    folder: Path, summary: Mapping[str, Any], history: Sequence[Mapping[str, Any]] = ()
) -> Path:
    """Writes the report of one run into its folder.

    Args:
      folder: the run's folder; what lies in it is used, what is missing is left out.
      summary: the run's summary.
      history: all runs of the root, oldest first, see `timeline.view`.

    Returns:
      Path of the page.
    """
    root = folder.parent.parent
    candidate = summary.get("metrics") or {}
    served = summary.get("baseline_metrics")
    metrics = curves.read_metrics(folder / "metrics.jsonl")
    training = summary.get("training") or {}
    page = (
        _environment(root)
        .get_template("template.html")
        .render(
            run=summary,
            headline=_HEADLINES[summary["status"]],
            version=_version(summary),
            failures=scores.failures(files.read_json(folder / scores.VERDICT_FILE)),
            pictures=pictures.read(folder),
            training=training,
            curves=curves.draw(metrics, training.get("exported_step")),
            last=metrics[-1] if metrics else None,
            served=bool(served),
            scores=scores.table(candidate, served),
            by_class=scores.by_class(candidate, served),
            measured_on=scores.baseline(candidate),
            memorisation=candidate.get("memorisation"),
            data=dataset.read(folder, summary),
            times=making.times(summary),
            lineage=making.lineage(folder),
            config=files.read_text(folder / "config.yaml"),
            history=timeline.view(history, summary["run_id"]),
        )
    )
    path = folder / REPORT_FILE
    temporary = path.with_suffix(".tmp")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(path)
    return path


def _environment(root: Path) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("components.run_report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = scores.number
    environment.filters["in_root"] = functools.partial(_in_root, root)
    environment.filters["svg"] = functools.partial(pictures.data_uri, "image/svg+xml")
    return environment


def _version(summary: Mapping[str, Any]) -> str | None:
    """The version that is served now because of this run: the pushed folder's name."""
    pushed = summary.get("pushed_model")
    return Path(pushed).name if pushed else None


def _in_root(root: Path, path: str) -> str:
    """A path as it reads from the pipeline root, where it lies below it."""
    return str(Path(path).relative_to(root)) if Path(path).is_relative_to(root) else path
