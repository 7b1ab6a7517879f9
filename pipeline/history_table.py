"""The history of a root as a table in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.quality import catalogue

#: Metrics in the table, those that the gate asks for by default, and the heading of each.
_METRICS = {
    name: textwrap.wrap(catalogue.BY_NAME[name].title, 16)
    for name in ("relative_frechet_distance", "coverage", "diversity", "memorisation")
}
_GAP = "  "


def lines(history: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table, newest run last.

    Args:
      history: as `history.runs` gives it.

    Returns:
      Lines. Numbers whose features are not those of the run that was measured last have a star.
    """
    measured = [_features(run) for run in history if run["metrics"]]
    last = measured[-1] if measured else None
    rows = [*_headings(), *(_cells(run, last) for run in history)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    if any(features != last for features in measured):
        table.append("* measured with other features than the last run: not comparable with it")
    return table


def _headings() -> list[list[str]]:
    columns = [["run"], ["status"], ["version"], *_METRICS.values()]
    height = max(map(len, columns))
    return [
        [column[row - height] if row >= height - len(column) else "" for column in columns]
        for row in range(height)
    ]


def _cells(run: Mapping[str, Any], last: tuple[str, str] | None) -> list[str]:
    star = "" if _features(run) == last else "*"
    version = run["pushed_version"]
    return [
        run["run_id"],
        run["status"],
        "-" if version is None else str(version),
        *(_cell(run["metrics"].get(name), run["errors"].get(name), star) for name in _METRICS),
    ]


def _cell(value: float | None, error: float | None, star: str) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}{star}" if error is None else f"{value:.4f} ± {error:.4f}{star}"


def _features(run: Mapping[str, Any]) -> tuple[str, str]:
    return run["extractor"], run["extractor_sha256"]
