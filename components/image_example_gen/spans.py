"""Inputs that grow: `{SPAN}` in a path stands for a number, and the newest one is read.

The rules are TFX's (tfx.components.example_gen.utils), which takes seconds to import: {SPAN} or
{SPAN:width}, or {YYYY} with {MM} and {DD} (days since 1970-01-01); {VERSION} below either.
Folders whose place holds no number are passed over.
"""

from __future__ import annotations

import datetime
import glob
import os
import re
from typing import NamedTuple

from components.image_example_gen.listing import SourceError

_PLACE = re.compile(r"\{(SPAN|VERSION|YYYY|MM|DD)(?::(\d+))?\}")
_WIDTH = {"YYYY": 4, "MM": 2, "DD": 2}


class Resolved(NamedTuple):
    """A path without placeholders, and what stood in their place."""

    path: str
    span: int
    version: int | None


def has_places(path: str) -> bool:
    """Whether a path has a placeholder."""
    return _PLACE.search(path) is not None


def split_pattern(path: str) -> tuple[str, str]:
    """Cuts a path before the first part that has a placeholder: TFX's input base and pattern."""
    parts = path.split("/")
    for index, part in enumerate(parts):
        if _PLACE.search(part):
            return "/".join(parts[:index]) or "/", "/".join(parts[index:])
    return path, "*"


def resolve(path: str) -> Resolved:
    """Finds the newest span, and its newest version, that exists.

    Raises:
      SourceError: where the placeholders make no sense together, or nothing matches.
    """
    if not has_places(path):
        return Resolved(path, 0, None)
    wild, pattern = _patterns(path)
    matches = (pattern.fullmatch(found) for found in glob.glob(wild))
    resolved = [one for match in matches if match and (one := _numbers(match))]
    if not resolved:
        raise SourceError(f"data.input {path}: nothing matches; looked for {wild}")
    return max(resolved, key=lambda one: (one.span, one.version or 0))


def _patterns(path: str) -> tuple[str, re.Pattern[str]]:
    """The glob and the regular expression that a path with placeholders stands for."""
    places = list(_PLACE.finditer(path))
    names = [place[1] for place in places]
    dated = {"YYYY", "MM", "DD"} & set(names)
    once = len(set(names)) == len(names)
    if not once or len(dated) not in (0, 3) or ("SPAN" in names) == bool(dated):
        raise SourceError(
            f"data.input {path}: wrong placeholders; allowed: {{SPAN}} once, or {{YYYY}}, {{MM}} "
            "and {DD} once each; and {VERSION} once"
        )
    wild, regex, end = "", "", 0
    for place in places:
        literal, end = path[end : place.start()], place.end()
        width = place[2] or _WIDTH.get(place[1])
        digits = rf"\d{{{width}}}" if width else r"\d+"
        wild += glob.escape(literal) + "*"
        regex += f"{re.escape(literal)}(?P<{place[1]}>{digits})"
    return wild + glob.escape(path[end:]), re.compile(regex + re.escape(path[end:]))


def _numbers(match: re.Match[str]) -> Resolved | None:
    found = {name: int(text) for name, text in match.groupdict().items()}
    if "SPAN" in found:
        span = found["SPAN"]
    else:
        try:
            day = datetime.date(found["YYYY"], found["MM"], found["DD"])
        except ValueError:
            return None
        span = (day - datetime.date(1970, 1, 1)).days
    return Resolved(os.path.normpath(match[0]), span, found.get("VERSION"))
