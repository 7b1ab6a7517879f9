"""Training curves: one small plot for each thing that is worth looking at."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.run_report import files, plots

Points = list[tuple[int, float]]


@dataclasses.dataclass(frozen=True)
class Curve:
    """What one plot shows.

    Attributes:
      title: heading.
      lines: keys of metrics.jsonl and what a person calls them, one line each.
      meaning: what to look for.
      log: a logarithmic axis, where all values allow it.
      exported: mark the step that was exported.
    """

    title: str
    lines: tuple[tuple[str, str], ...]
    meaning: str
    log: bool = False
    exported: bool = False


CURVES = (
    Curve(
        "Wasserstein estimate",
        (("wasserstein", "training images"), ("validation_wasserstein", "held-out images")),
        "falls towards 0 as samples get closer to the data; where the held-out line stays behind, "
        "the critic knows the training images by heart",
    ),
    Curve(
        "Validation distance",
        (("validation_distance", "held-out images"),),
        "relative Frechet distance of the moving average's samples; the exported step is the best",
        log=True,
        exported=True,
    ),
    Curve(
        "Gradient norm of the critic",
        (("gradient_norm", "between real and generated"),),
        "near 1 where the penalty holds",
    ),
    Curve(
        "Gradient penalty",
        (("gradient_penalty", "between real and generated"),),
        "small and steady",
        log=True,
    ),
    Curve(
        "Critic loss",
        (("critic_loss", "training images"),),
        "negative; rises towards 0",
    ),
    Curve(
        "Deviation of the samples",
        (("sample_deviation", "moving average's samples"),),
        "spread of the samples over that of held-out images: falls to 0 where the generator "
        "collapses",
    ),
)


@dataclasses.dataclass(frozen=True)
class Plot:
    """A drawn curve: SVG file, what it shows in words, and what to look for."""

    title: str
    svg: bytes
    alt: str
    meaning: str


def read_metrics(path: Path) -> list[dict[str, float]]:
    """The whole lines of a metrics.jsonl; an empty list where there is no such file."""
    return [line for line in files.read_json_lines(path) if isinstance(line.get("step"), int)]


def draw(metrics: Sequence[Mapping[str, float]], exported: int | None = None) -> list[Plot]:
    """Draws the curves that are in the metrics.

    Args:
      metrics: one mapping per logged step, with `step` and the keys of `CURVES`.
      exported: step whose model was exported.

    Returns:
      A plot for every one of `CURVES` of which there are two points to join.
    """
    drawn = []
    for curve in CURVES:
        lines = {label: _points(metrics, key) for key, label in curve.lines}
        lines = {label: points for label, points in lines.items() if len(points) > 1}
        if lines:
            mark = exported if curve.exported else None
            drawn.append(
                Plot(
                    curve.title,
                    _svg(lines, curve.log, mark),
                    _alt(curve.title, lines, mark),
                    curve.meaning,
                )
            )
    return drawn


def _points(metrics: Sequence[Mapping[str, float]], key: str) -> Points:
    found = ((int(line["step"]), line.get(key)) for line in metrics)
    return [(step, float(y)) for step, y in found if y is not None and math.isfinite(y)]


def _svg(lines: Mapping[str, Points], log: bool, exported: int | None) -> bytes:
    figure, axis = plots.axes()
    for (label, points), colour in zip(lines.items(), (plots.FIRST, plots.SECOND), strict=False):
        marker = "o" if len(points) < 20 else ""
        axis.plot(
            *zip(*points, strict=True),
            color=colour,
            linewidth=1.5,
            marker=marker,
            markersize=3.5,
            label=label,
        )
    if log and all(y > 0 for points in lines.values() for _, y in points):
        plots.make_logarithmic(axis)
    if exported is not None:
        axis.axvline(exported, color=plots.GOOD, linewidth=1.2, linestyle="--", label="exported")
    if len(lines) > 1 or exported is not None:
        plots.legend(axis)
    axis.set_xlabel("generator step", fontsize=9)
    return plots.svg(figure)


def _alt(title: str, lines: Mapping[str, Points], exported: int | None) -> str:
    parts = [
        f"{label}: {points[0][1]:.3g} at step {points[0][0]}, {points[-1][1]:.3g} at step "
        f"{points[-1][0]}, lowest {min(y for _, y in points):.3g}"
        for label, points in lines.items()
    ]
    if exported is not None:
        parts.append(f"exported: step {exported}")
    return f"{title} over generator steps. {'; '.join(parts)}"
