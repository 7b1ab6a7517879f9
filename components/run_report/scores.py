"""The metrics as tables: candidate against served model against floor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from trainer.quality import catalogue

VERDICT_FILE = "verdict.json"
#: What the table by class shows: all metrics would not fit beside each other.
_BY_CLASS = ("relative_frechet_distance", "precision", "recall", "coverage", "memorisation")
#: Standard errors that a change must exceed to be called one.
_CLEAR = 2.0


def number(value: Any) -> str:
    """Four significant digits; a dash where there is no number."""
    return f"{value:.4g}".replace("-", "−") if is_number(value) else "–"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def measured(value: Any, error: Any = None, sign: str = "") -> str:
    """A value with its standard error, no more digits than that allows.

    Args:
      value: finite, or it is a dash.
      error: its standard error; anything but a positive number: not known.
      sign: "+" shows the sign of positive values too.
    """
    if not is_number(value):
        return "–"
    if not is_number(error) or error <= 0:
        return f"{value:{sign}.4g}".replace("-", "−")
    decimals = 1 - math.floor(math.log10(error))  # two significant digits of the error
    if decimals > 6:
        return f"{value:{sign}.3g} ± {error:.1g}".replace("-", "−")
    decimals = max(decimals, 0)
    return f"{value:{sign}.{decimals}f} ± {error:.{decimals}f}".replace("-", "−")


def table(candidate: Mapping[str, Any], served: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """One row a metric that the candidate or the served model has, in the catalogue's order.

    Args:
      candidate: a model's metrics as summary.json has them; may be empty.
      served: the same of the served model; None or empty: there is none.

    Returns:
      Rows of `title`, `better`, `meaning`, `candidate`, `served`, `change`, `judgement`, `floor`.
    """
    served = served or {}
    return [
        _row(metric, candidate, served)
        for metric in catalogue.METRICS
        if metric.name in candidate or metric.name in served
    ]


def _row(
    metric: catalogue.Metric, candidate: Mapping[str, Any], served: Mapping[str, Any]
) -> dict[str, str]:
    ours, theirs = candidate.get(metric.name), served.get(metric.name)
    change, judgement = "–", ""
    if is_number(ours) and is_number(theirs):
        error = _part(candidate, "change_errors").get(metric.name)
        change = measured(ours - theirs, error, sign="+")
        judgement = _judgement(metric, ours - theirs, error)
    return {
        "name": metric.name,
        "title": metric.title,
        "better": metric.better,
        "meaning": metric.meaning,
        "candidate": _cell(candidate, metric.name),
        "served": _cell(served, metric.name),
        "change": change,
        "judgement": judgement,
        "floor": number(_part(candidate, "floors").get(metric.name)),
    }


def _judgement(metric: catalogue.Metric, change: float, error: Any) -> str:
    if not is_number(error):
        return ""
    if abs(change) <= _CLEAR * error:
        return "no clear change"
    return "worse" if metric.worsening(change) > 0 else "better"


def _cell(metrics: Mapping[str, Any], name: str) -> str:
    return measured(metrics.get(name), _part(metrics, "errors").get(name))


def _part(metrics: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return metrics.get(name) or {}


def by_class(
    candidate: Mapping[str, Any], served: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The main metrics of every class; None where there are no classes.

    Returns:
      `titles` of the columns, and `rows` of `name`, `examples` and `cells`, each the candidate's
      value and the served model's.
    """
    classes = _part(candidate, "per_class")
    names = [
        name for name in _BY_CLASS if any(is_number(one.get(name)) for one in classes.values())
    ]
    if not names:
        return None
    old = _part(served or {}, "per_class")
    return {
        "titles": [catalogue.BY_NAME[name].title for name in names],
        "rows": [
            {
                "name": label,
                "examples": metrics.get("examples"),
                "cells": [(_cell(metrics, n), _cell(old.get(label) or {}, n)) for n in names],
            }
            for label, metrics in classes.items()
        ],
    }


def failures(verdict: Mapping[str, Any]) -> list[dict[str, str]]:
    """What a candidate was refused for.

    Args:
      verdict: the Evaluator's verdict.json; empty where there is none.

    Returns:
      Rows of `metric`, `label`, `value`, `limit`, `message`, the worst first.
    """
    rows = []
    for one in verdict.get("failures") or ():
        metric = catalogue.BY_NAME.get(one.get("metric") or "")
        rows.append(
            {
                "metric": metric.title if metric else str(one.get("metric") or "All"),
                "label": str(one.get("class") or "all"),
                # Its error is in the message: here may be that of a difference.
                "value": number(one.get("value")),
                "limit": number(one.get("limit")),
                "message": str(one.get("message") or one.get("kind", "")).replace("_", " "),
            }
        )
    return rows


def baseline(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """What the numbers rest on: extractor, hash, counts and split, as far as is known."""
    keys = ("extractor", "extractor_sha256", "split", "examples", "sampled", "training")
    return {key: candidate.get(key) for key in keys}
