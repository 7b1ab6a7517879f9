"""What all plots of the page share: size, colours for light and dark pages, SVG without a date."""

from __future__ import annotations

import io

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

TEXT, LINE = "#1c2430", "#d9dee5"
FIRST, SECOND = "#2f6fb3", "#b4530f"
GOOD, BAD = "#19724a", "#a5352b"

#: Each colour's name in the picture's style sheet, and what it is on a dark page.
_DARK = {
    TEXT: ("text", "#e4e8ee"),
    LINE: ("line", "#38414d"),
    FIRST: ("first", "#7db4ee"),
    SECOND: ("second", "#f0a267"),
    GOOD: ("good", "#5cc796"),
    BAD: ("bad", "#ee8479"),
}
#: The first rule of the style sheet that matplotlib writes.
_RULE = "*{stroke-linejoin"


def axes(width: float = 4.8, height: float = 2.7) -> tuple[Figure, Axes]:
    """A figure of so many inches, and its only axes."""
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="none")
    axis = figure.add_subplot(facecolor="none")
    axis.grid(color=LINE, linewidth=0.7)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(LINE)
    axis.tick_params(which="both", colors=TEXT, labelsize=9)
    axis.tick_params(which="both", color=LINE)
    axis.xaxis.label.set_color(TEXT)
    axis.yaxis.label.set_color(TEXT)
    return figure, axis


def make_logarithmic(axis: Axes) -> None:
    """Makes the vertical axis logarithmic, labelled with plain numbers, some at least."""
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("{x:g}" if high < 10 * low else "")


def legend(axis: Axes, above: bool = False) -> None:
    """Adds a legend without a frame: where there is room, or above the plot."""
    place = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 2} if above else {}
    axis.legend(frameon=False, fontsize=9, labelcolor=TEXT, **place)


def svg(figure: Figure) -> bytes:
    """The figure as an SVG file that follows the page into dark mode.

    The same figure gives the same bytes.
    """
    out = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "report"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue().decode("utf-8")
    for colour, (name, _) in _DARK.items():
        text = text.replace(colour, f"var(--{name})")
    light = "".join(f"--{name}:{colour};" for colour, (name, _) in _DARK.items())
    dark = "".join(f"--{name}:{colour};" for name, colour in _DARK.values())
    rules = f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return text.replace(_RULE, rules + _RULE, 1).encode("utf-8")
