"""All runs of a root over time: a small plot and a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.run_report import plots
from components.run_report.scores import is_number, measured
from trainer.quality import catalogue

#: Runs in the table, the newest ones.
_LISTED = 30
#: Metrics in the table; the first one is plotted.
_COLUMNS = ("relative_frechet_distance", "coverage", "diversity")


def view(history: Sequence[Mapping[str, Any]], run_id: str) -> dict[str, Any] | None:
    """The history for the template.

    Args:
      history: a run each, oldest first: `run_id`, `started`, `status`, `pushed_version`,
        `metrics`, `errors` by metric, `extractor`, `extractor_sha256`.
      run_id: of the run that the page is of.

    Returns:
      `titles` and `rows` (newest first) of the table, `plot` or None; None where there are fewer
      than two runs.
    """
    if len(history) < 2:
        return None
    titles = [catalogue.BY_NAME[name].title for name in _COLUMNS]
    rows = [
        {
            "run_id": run["run_id"],
            "this": run["run_id"] == run_id,
            "status": run.get("status") or "–",
            "version": run.get("pushed_version") or "–",
            "cells": [_cell(run, name) for name in _COLUMNS],
        }
        for run in reversed(history[-_LISTED:])
    ]
    return {
        "titles": titles,
        "rows": rows,
        "left_out": max(0, len(history) - _LISTED),
        "plot": _plot(_comparable(history), titles[0]),
    }


def _cell(run: Mapping[str, Any], name: str) -> str:
    return measured((run.get("metrics") or {}).get(name), (run.get("errors") or {}).get(name))


def _comparable(history: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The measured runs whose features are those of the latest: others have other units."""
    found = [run for run in history if is_number((run.get("metrics") or {}).get(_COLUMNS[0]))]
    if not found:
        return []
    return [run for run in found if _features(run) == _features(found[-1])]


def _features(run: Mapping[str, Any]) -> tuple[Any, Any]:
    return run.get("extractor"), run.get("extractor_sha256")


def _plot(runs: Sequence[Mapping[str, Any]], title: str) -> dict[str, Any] | None:
    if len(runs) < 2:
        return None
    name = _COLUMNS[0]
    figure, axis = plots.axes(width=5.6, height=2.6)
    for pushed, colour, label in ((True, plots.GOOD, "pushed"), (False, plots.BAD, "not pushed")):
        at = [i for i, run in enumerate(runs) if bool(run.get("pushed_version")) == pushed]
        if at:
            errors = [float((runs[i].get("errors") or {}).get(name) or 0.0) for i in at]
            axis.errorbar(
                at,
                [runs[i]["metrics"][name] for i in at],
                yerr=errors,
                color=colour,
                marker="o" if pushed else "x",
                linestyle="none",
                capsize=3,
                label=label,
            )
    axis.set_xticks([0, len(runs) - 1], [runs[0]["run_id"], runs[-1]["run_id"]])
    axis.set_xlim(-0.5, len(runs) - 0.5)
    axis.set_ylim(bottom=0)
    plots.legend(axis, above=True)
    pushed_runs = sum(bool(run.get("pushed_version")) for run in runs)
    first, last = (_cell(run, name) for run in (runs[0], runs[-1]))
    return {
        "title": title,
        "svg": plots.svg(figure),
        "alt": f"{title} of {len(runs)} runs, {pushed_runs} of them pushed: {first} in the first, "
        f"{last} in the latest",
    }
