"""Options in words: what is wrong with given ones, and what is configured and why."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import pydantic
import yaml
from pydantic.fields import FieldInfo

from trainer.options import Options


def flat(error: object) -> str:
    """An error's message in one line."""
    return " ".join(str(error).split())


def problem(error: pydantic.ValidationError, kind: type[Options]) -> str:
    """The first problem of a validation, and how many more there are, in one line.

    Args:
      error: what validation found.
      kind: what was validated.
    """
    problems = error.errors(include_url=False)
    first = problems[0]
    # A union reports its members' failures one by one, with the member's type behind the key.
    keys = [str(part) for part in first["loc"]]
    while keys and not _is_key(kind, keys):
        keys.pop()
    key = ".".join(keys)
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        known = ", ".join(_section_at(kind, keys[:-1]).model_fields)
        line = f"{key}: unknown key; allowed: {known}"
    elif first["type"] == "value_error":
        line = message
    else:
        allowed = _allowed(kind, keys) or message
        line = f"{key}: got {first['input']!r}; allowed: {allowed}"
    others = {p["loc"][: len(keys)] for p in problems} - {first["loc"][: len(keys)]}
    return line + (f" (and {len(others)} more)" if others else "")


def _section_at(kind: type[Options], keys: Sequence[str]) -> type[Options]:
    section = kind
    for key in keys:
        section = section.model_fields[key].annotation  # type: ignore[assignment]
    return section


def _is_key(kind: type[Options], keys: Sequence[str]) -> bool:
    """Whether the path is that of a key, known or not, in a known section."""
    try:
        section = _section_at(kind, keys[:-1])
    except (KeyError, AttributeError):
        return False
    return isinstance(section, type) and issubclass(section, Options)


def _allowed(kind: type[Options], keys: Sequence[str]) -> str:
    """What a key may be, in words: its types and its bounds."""
    field = _section_at(kind, keys[:-1]).model_fields.get(keys[-1])
    if field is None:
        return ""
    return _allowed_values(field)


def _allowed_values(field: FieldInfo) -> str:
    """What a field may be, in words: its types and its bounds."""
    kinds = list(_kinds(field.annotation))
    bounds = []
    for rule in field.metadata:
        for name, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<")):
            if hasattr(rule, name):
                bounds.append(f"{sign} {getattr(rule, name)}")
        if getattr(rule, "pattern", None):
            bounds.append(f"matching {rule.pattern}")
        if getattr(rule, "min_length", None):
            bounds.append("not empty")
    return " ".join([" or ".join(kinds), " and ".join(bounds)]).strip()


def _kinds(annotation: Any) -> Iterator[str]:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    if annotation is type(None):
        yield "null"
    elif annotation in names:
        yield names[annotation]
    elif isinstance(annotation, type):
        yield "a section"
    elif getattr(annotation, "__origin__", None) is Literal:
        yield " or ".join(str(value) for value in get_args(annotation))
    elif hasattr(annotation, "__metadata__"):  # Annotated
        yield from _kinds(get_args(annotation)[0])
    else:
        for member in get_args(annotation):
            yield from _kinds(member)


def show(config: Options) -> str:
    """The configuration as YAML, each key with its meaning and unit: valid input again."""
    return "\n".join(_show_section(config, 0)) + "\n"


def _show_section(section: Options, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, Options):
            if depth == 0:
                yield ""
            yield f"{pad}{name}:  # {_first_line(type(value))}"
            yield from _show_section(value, depth + 1)
            continue
        unit = (field.json_schema_extra or {}).get("unit")  # type: ignore[union-attr]
        meaning = f"{field.description}{f' [{unit}]' if unit else ''}"
        for line in textwrap.wrap(meaning, 96 - len(pad)):
            yield f"{pad}# {line}"
        plain = yaml.safe_dump({name: value}, allow_unicode=True).strip()
        yield f"{pad}{plain}"


def _first_line(kind: type[Options]) -> str:
    return (kind.__doc__ or "").splitlines()[0]
