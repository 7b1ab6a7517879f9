"""Settings as people write them: YAML and overrides to validated options, faults in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import pydantic
import yaml
from pydantic.fields import FieldInfo

from trainer.options import Options

#: Files of which one is in every folder that training can begin with.
WEIGHTS_FILES = ("saved_model.pb", "variables.index")

_Options = TypeVar("_Options", bound=Options)


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one line for the user."""


class _Loader(yaml.SafeLoader):
    """YAML, but no key twice: PyYAML takes the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuses a mapping in which a key stands twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} stands there twice", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def read(path: str | Path, sections: Sequence[str]) -> dict[str, Any]:
    """Reads a YAML file.

    Args:
      path: of the file.
      sections: that may be at its top level, for the error's sake.

    Returns:
      What is in it, not yet validated; empty for an empty file.

    Raises:
      ConfigError: it cannot be read, is not YAML, or has no keys at top level.
    """
    where = f"configuration '{path}'"
    try:
        tree = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not YAML: {flat(error)}") from error
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(
            f"{where}: got a {type(tree).__name__} at top level; "
            f"allowed: the sections {', '.join(sections)}"
        )
    return tree


def override(tree: dict[str, Any], text: str) -> None:
    """Applies `section.key=value`, the value as YAML, to what was read.

    Raises:
      ConfigError: the text is not of that form.
    """
    key, equals, given = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"--set {text}: not of the form section.key=value")
    try:
        value = yaml.load(given, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"--set {text}: value is not YAML: {flat(error)}") from error
    put(tree, key.strip().split("."), value, f"--set {text}")


def put(tree: dict[str, Any], keys: Sequence[str], value: Any, where: str) -> None:
    """Sets a value deep in what was read, making the sections on the way.

    Args:
      tree: is changed.
      keys: the path of the value.
      value: to set.
      where: who wants it, for the error's sake.

    Raises:
      ConfigError: something on the way is not a section.
    """
    for depth, key in enumerate(keys[:-1], start=1):
        if tree.get(key) is None:
            tree[key] = {}
        tree = tree[key]
        if not isinstance(tree, dict):
            raise ConfigError(f"{where}: {'.'.join(keys[:depth])} is not a section")
    tree[keys[-1]] = value


def validate(kind: type[_Options], tree: Mapping[str, Any]) -> _Options:
    """Options from what was read.

    Raises:
      ConfigError: one line naming the key, what was given and what is allowed.
    """
    try:
        return kind.model_validate(tree)
    except pydantic.ValidationError as error:
        raise ConfigError(problem(error, kind)) from error


def check_weights(path: str) -> None:
    """Refuses early what training cannot begin with; what is not local is looked at later.

    Args:
      path: what `training.warm_start` names.

    Raises:
      ConfigError: there is neither a SavedModel nor a checkpoint.
    """
    if "://" in path or any(Path(path, name).is_file() for name in WEIGHTS_FILES):
        return
    what = "holds neither" if Path(path).is_dir() else "is no folder"
    raise ConfigError(
        f"training.warm_start: got {path!r}, which {what}; allowed: the folder of a "
        "SavedModel or of one checkpoint (step-00000500)"
    )


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
    elif getattr(annotation, "__origin__", None) is tuple:
        members = get_args(annotation)
        if members[-1] is Ellipsis:
            yield f"a list [{' or '.join(_kinds(members[0]))}, ...]"
        else:
            yield f"a list of {len(members)} numbers > 0, the second the larger"
    elif isinstance(annotation, type):
        yield "a section"
    elif getattr(annotation, "__origin__", None) is Literal:
        yield " or ".join(str(value) for value in get_args(annotation))
    elif hasattr(annotation, "__metadata__"):  # Annotated
        yield from _kinds(get_args(annotation)[0])
    else:
        for member in get_args(annotation):
            yield from _kinds(member)
