"""Options in words: what is configured and why."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic.fields import FieldInfo

from trainer.options import Options


def show(config: Options) -> str:
    """The configuration as YAML, each key with its meaning and unit: valid input again."""
    return "\n".join(_show_section(config, 0)) + "\n"


def _show_section(section: Options, depth: int) -> Iterator[str]:
    pad = "  " * depth
    explained = set()
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        # A group with a description of its own is one of many alike, and takes one line.
        if isinstance(value, Options) and field.description is None:
            if depth == 0:
                yield ""
            yield f"{pad}{name}:  # {_first_line(type(value))}"
            yield from _show_section(value, depth + 1)
            continue
        if isinstance(value, Options) and type(value) not in explained:
            explained.add(type(value))
            yield f"{pad}# {_first_line(type(value))}"
            for key, part in type(value).model_fields.items():
                yield from _comment(part, f"{pad}# ", f"{key}: ")
        yield from _comment(field, f"{pad}# ")
        yield f"{pad}{name}: {_plain(value)}"


def _comment(field: FieldInfo, pad: str, before: str = "") -> Iterator[str]:
    """A key's meaning and unit."""
    unit = (field.json_schema_extra or {}).get("unit")  # type: ignore[union-attr]
    meaning = f"{before}{field.description}{f' [{unit}]' if unit else ''}"
    for line in textwrap.wrap(meaning, 98 - len(pad)):
        yield f"{pad}{line}"


def _plain(value: Any) -> str:
    """A value as YAML in one line."""
    if isinstance(value, Options):
        value = value.model_dump()
    text = yaml.safe_dump(
        value, allow_unicode=True, default_flow_style=True, sort_keys=False, width=sys.maxsize
    )
    return text.strip().removesuffix("\n...")


def _first_line(kind: type[Options]) -> str:
    return (kind.__doc__ or "").splitlines()[0]
