"""Files in a run's folder, as far as they are there and whole: a page with a gap beats none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_text(path: Path) -> str:
    """The text of a file; empty where there is none."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where there is none, or half of one."""
    return _object(read_text(path))


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects in a file of one a line, without those that a crash cut off."""
    return [found for line in read_text(path).splitlines() if (found := _object(line))]


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
