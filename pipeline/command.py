"""What every command of the command line begins and ends with."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import click

from pipeline import config as configuration
from trainer import user_error

CONFIG_HELP = "CONFIG is a YAML file or the name of a preset (`tfx-wgan config presets`)."


class UserError(user_error.UserError):
    """One line for the user of this command."""

    program = "tfx-wgan"


def with_config(command: Callable[..., None], required: bool = True) -> Callable[..., None]:
    """Adds CONFIG and --set to a command, which gets the validated configuration instead."""

    @click.argument("source", metavar="CONFIG", required=required)
    @click.option(
        "--set",
        "overrides",
        metavar="KEY=VALUE",
        multiple=True,
        help="Override one key, e.g. training.steps=200; may be repeated.",
    )
    @click.option("--root", metavar="DIR", help="Override runtime.root.")
    @functools.wraps(command)
    def loaded(
        source: str | None, overrides: tuple[str, ...], root: str | None, **rest: Any
    ) -> None:
        try:
            config = configuration.load(source, overrides, root)
        except configuration.ConfigError as error:
            raise UserError(str(error), 2) from error
        command(config, **rest)

    return loaded


def check_data(config: configuration.Config) -> None:
    """Refuses data that is not there."""
    from components.image_example_gen import sources

    try:
        sources.open_source(config.data.input, config.data.format)
    except sources.SourceError as error:
        raise UserError(str(error), 2) from error
    if config.data.schema_file and not os.path.isfile(config.schema_path):
        raise UserError(f"data.schema_file {config.data.schema_file}: no such file", 2)


def shown(path: str) -> str:
    """A path as a person would type it here: relative only where it lies below."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def leave(code: int) -> NoReturn:
    """Exits at once: Beam's threads do not hear of an interruption, and would be waited for."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
