"""Training curves as one picture."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

#: What is drawn: key of metrics.jsonl, title, and what to look for in it.
CURVES = (
    ("wasserstein", "Wasserstein estimate", "falls towards 0 as samples get closer to the data"),
    ("critic_loss", "critic loss", "negative; rises towards 0"),
    ("gradient_norm", "gradient norm of the critic", "near 1 where the penalty holds"),
    ("gradient_penalty", "gradient penalty", "small and steady"),
)


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The lines of a metrics.jsonl; an empty list where there is no such file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def draw(metrics: Sequence[Mapping[str, float]]) -> bytes | None:
    """Draws the curves that are in the metrics.

    Args:
      metrics: one mapping per logged step, with `step` and the keys of `CURVES`.

    Returns:
      An SVG file, or None where there are fewer than two points to join.
    """
    if len(metrics) < 2:
        return None
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True)
    for axis, (key, title, _) in zip(axes.flat, CURVES, strict=True):
        points = [(m["step"], m[key]) for m in metrics if math.isfinite(m.get(key, math.nan))]
        if points:
            axis.plot(*zip(*points, strict=True), linewidth=1.4, color="#2f6fb3")
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("generator step")
    out = io.BytesIO()
    # No date: the same metrics give the same picture.
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
