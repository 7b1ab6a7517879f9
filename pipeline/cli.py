"""The command line: parse, call, print. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from pipeline import config as configuration
from pipeline import describe
from pipeline.command import CONFIG_HELP, UserError, check_data, leave, shown, with_config
from pipeline.extractor_commands import extractor
from trainer import settings

_EPILOG = """\b
Exit codes:
  0   done, and the model is served
  3   done, but the model was refused
  2   wrong usage or configuration; nothing was written
  75  interrupted: run the same command again
  1   failed
"""


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tfx-wgan")
def main() -> None:
    """Turns a folder of images into a served image generator: WGAN-GP in a TFX pipeline.

    Try: tfx-wgan run digits
    """


@main.command(epilog=_EPILOG, help=f"Run the pipeline on this machine. {CONFIG_HELP}")
@with_config
@click.option("--json", "as_json", is_flag=True, help="Print the summary as the last line.")
def run(config: configuration.Config, as_json: bool) -> None:
    """Run the pipeline on this machine."""
    from pipeline import lock
    from pipeline import run as runner

    _check_input(config)
    try:
        summary = runner.run(config)
    except lock.RootBusyError as error:
        raise UserError(str(error), 1) from error
    except OSError as error:
        raise UserError(f"{config.root}: cannot be used as root: {error.strerror}", 1) from error
    except KeyboardInterrupt:
        raise UserError("interrupted: run the same command again", 75) from None
    _print_outcome(summary)
    if as_json:
        click.echo(json.dumps(summary))
    code = runner.EXIT_CODES[summary["status"]]
    if summary["status"] == "interrupted":
        leave(code)
    sys.exit(code)


def _check_input(config: configuration.Config) -> None:
    """Refuses files that are not there, before anything is imported or written."""
    from pipeline import pinning
    from trainer.quality.extractors.errors import ExtractorError

    check_data(config)
    try:
        if config.warm_start_path:
            settings.check_weights(config.warm_start_path)
        pinning.pinned(config.evaluation.extractor)
    except (configuration.ConfigError, ExtractorError) as error:
        raise UserError(str(error), 2) from error


def _print_outcome(summary: dict[str, Any]) -> None:
    """What a person wants to know after a run, on standard error."""
    failure = f"{summary['status']}: {summary['error']}" if summary["error"] else None
    lines = [failure or summary["verdict"]]
    if summary["quarantined"]:
        listed = shown(str(Path(summary["log"]).with_name("quarantine.jsonl")))
        lines.append(f"{summary['quarantined']} files could not be read, listed in {listed}")
    for name, key in (("model", "pushed_model"), ("samples", "samples"), ("report", "report")):
        if summary[key]:
            lines.append(f"  {name:<8} {shown(summary[key])}")
    if summary["error"]:
        lines.append(f"  {'log':<8} {shown(summary['log'])}")
    click.echo("\n".join(lines), err=True)


@main.command(help="Draw images from MODEL, a SavedModel or a folder of versions, into one PNG.")
@click.argument("model")
@click.option("--count", default=64, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1))
@click.option("--output", default="samples.png", show_default=True, type=click.Path(dir_okay=False))
@click.option("--label", help="Name or id of the class to draw; without it, classes at random.")
def sample(model: str, count: int, seed: int, output: str, label: str | None) -> None:
    """Draw images from a pushed model."""
    from pipeline import console

    # What TensorFlow writes while it loads is of no use to the user.
    with console.redirected(Path(os.devnull)):
        from trainer import grid, sampling

        try:
            sampler = sampling.Sampler(sampling.find_model(model))
            images = sampler.draw(count, seed, label)
        except sampling.ModelError as error:
            raise UserError(str(error), 2) from error
        try:
            grid.write(images, columns=max(1, round(count**0.5)), path=output)
        except OSError as error:
            raise UserError(f"{output}: cannot be written: {error.strerror}", 1) from error
    click.echo(f"{count} images of {model}, seed {seed}: {output}")


@main.command(
    help="Render the report of the latest run in ROOT, and print its path; or list all runs."
)
@click.argument("root", type=click.Path(path_type=Path))
@click.option("--history", is_flag=True, help="List all runs instead: what each was measured at.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON, as the last line.")
def report(root: Path, history: bool, as_json: bool) -> None:
    """The report of the latest run, or the list of all."""
    if as_json and not history:
        raise UserError("--json: only with --history", 2)
    if history:
        _print_history(root, as_json)
    else:
        _print_report(root)


def _print_history(root: Path, as_json: bool) -> None:
    from pipeline import history, history_table

    try:
        runs = history.runs(root)
    except history.HistoryError as error:
        raise UserError(str(error), 1) from error
    if not runs:
        raise UserError(f"{root}: no run there; `tfx-wgan run` makes one", 2)
    for line in history_table.lines(runs):
        click.echo(line)
    if as_json:
        click.echo(json.dumps({"runs": runs}))


def _print_report(root: Path) -> None:
    from pipeline import reporting, summary

    folder = summary.latest(root)
    if folder is None:
        raise UserError(f"{root}: no run there that ended; `tfx-wgan run` makes one", 2)
    try:
        found = summary.read(folder)
    except (ValueError, OSError) as error:
        raise UserError(f"{folder / summary.SUMMARY_FILE}: not a summary: {error}", 1) from error
    click.echo(reporting.render(folder, found))


main.add_command(extractor)


@main.group(name="config")
def config_group() -> None:
    """What is configured, and what may be."""


@config_group.command(
    help=f"Print every key, its value, meaning and unit. {CONFIG_HELP} Without it: the defaults."
)
@functools.partial(with_config, required=False)
def show(config: configuration.Config) -> None:
    """Print the whole configuration as YAML."""
    click.echo(describe.show(config), nl=False)


@config_group.command()
def schema() -> None:
    """Print the JSON schema of the configuration, for editors and other tools."""
    click.echo(json.dumps(configuration.Config.model_json_schema(), indent=2))


@config_group.command()
def presets() -> None:
    """List the configurations that ship with the package."""
    for name, meaning in configuration.presets().items():
        click.echo(f"{name:<16} {meaning}")


@main.command()
def doctor() -> None:
    """Tell what this machine can do, and what is missing for the rest."""
    from pipeline import doctor as diagnosis

    for line in diagnosis.lines():
        click.echo(line)


if __name__ == "__main__":
    main()
