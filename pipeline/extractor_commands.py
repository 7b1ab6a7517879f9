"""`tfx-wgan extractor`: what turns images into the features that they are compared by."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from pipeline import config as configuration
from pipeline.command import CONFIG_HELP, UserError, check_data, leave, shown, with_config

_EPILOG = """\b
Exit codes:
  0   done
  2   wrong usage or configuration; nothing was written
  75  interrupted: run the same command again
  1   failed
"""


@click.group()
def extractor() -> None:
    """What turns images into the features that they are compared by."""


@extractor.command(
    epilog=_EPILOG,
    help="Fit an extractor to the data's labels, and print the lines of configuration that use it. "
    f"It is a small classifier, and what it knows of the classes its features tell. {CONFIG_HELP}",
)
@with_config
@click.option(
    "--output",
    metavar="DIR",
    type=click.Path(path_type=Path, resolve_path=True),
    help="Where to write it; without it, below ROOT/extractors, named by its content.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as JSON instead.")
def fit(config: configuration.Config, output: Path | None, as_json: bool) -> None:
    """Fit an extractor to the data's labels."""
    from pipeline import extractor as extractors
    from pipeline import lock

    check_data(config)
    try:
        if output:
            extractors.check_output(output)
    except extractors.FitError as error:
        raise UserError(str(error), 2) from error
    try:
        fitted = extractors.fit(config, output)
    except (extractors.FitError, lock.RootBusyError) as error:
        raise UserError(str(error), 1) from error
    except OSError as error:
        raise UserError(
            f"{error.filename or config.root}: cannot be written: {error.strerror}", 1
        ) from error
    except KeyboardInterrupt:
        click.echo("tfx-wgan: interrupted: run the same command again", err=True)
        leave(75)
    details = fitted.details
    accuracy = "not measured" if details["accuracy"] is None else f"{details['accuracy']:.1%}"
    click.echo(
        f"accuracy {accuracy} on {details['heldout_images']} held-out images, fitted to "
        f"{details['training_images']} of {len(details['class_names'])} classes in "
        f"{details['steps']} steps\n  {'extractor':<9} {shown(fitted.path)}",
        err=True,
    )
    if as_json:
        click.echo(json.dumps({"path": fitted.path, "sha256": fitted.sha256, **details}))
    else:
        click.echo(fitted.lines)


@extractor.command(
    name="show",
    help="Print name, hash and dimension of the extractor that is configured; what has to be "
    f"downloaded for it is. {CONFIG_HELP}",
)
@with_config
def show_extractor(config: configuration.Config) -> None:
    """Print what the configured extractor is."""
    from pipeline import console, pinning

    # What TensorFlow writes while it loads is of no use to the user.
    with console.redirected(Path(os.devnull)):
        from trainer.quality import extractors

        try:
            found = extractors.create(pinning.located(config.evaluation.extractor))
        except extractors.ExtractorError as error:
            raise UserError(str(error), 2) from error
    for key, value in (
        ("name", found.name),
        ("sha256", found.sha256),
        ("dimension", found.dimension),
    ):
        click.echo(f"{key:<9} {value}")
