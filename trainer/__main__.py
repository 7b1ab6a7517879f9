"""`python -m trainer`: WGAN-GP on a folder of images in arrays or TFRecords, without TFX."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

# Before TensorFlow is imported, here and in the training process: what it and the packages that
# it brings along say on loading is for nobody here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if "PYTHONWARNINGS" not in os.environ:
    os.environ["PYTHONWARNINGS"] = "ignore::FutureWarning"
    warnings.simplefilter("ignore", FutureWarning)

import click
from pydantic import model_validator

from trainer import settings, user_error
from trainer.errors import TrainerError
from trainer.options import SERVED, ModelOptions, Options, TrainingOptions, check_together

#: Sections that `tfx-wgan run` reads and this command does not, so that one file serves both.
PIPELINE_SECTIONS = ("data", "tuning", "evaluation", "serving", "runtime")

_EPILOG = """\b
DATA is a folder with
  train* and eval*              TFRecords of transformed examples
  Split-train/ and Split-eval/  the same, as TFX's Transform leaves them
  train.npz and eval.npz        uint8 images [N, H, W, C], int labels [N]
  train/ and eval/              images.npy and labels.npy in each
or one .npz file. Labels and the eval part may be missing: without the latter
nothing is validated, and the last weights are exported instead of the best.
class_names.txt in it, one a line, names the labels.

\b
OUTPUT gets
  model/     SavedModel: signatures serving_default, sample and score
  training/  checkpoints and metrics.jsonl; the same command goes on from there
  log/       TensorBoard's event files, training.json

On several workers, run the same command on each, with TF_CONFIG set.

\b
Exit codes:
  0   trained, and the model is exported
  2   wrong usage or configuration; nothing was written
  75  interrupted, and saved: run the same command again
  1   failed
"""


class Config(Options):
    """What of a configuration file counts here."""

    model: ModelOptions = ModelOptions()
    training: TrainingOptions = TrainingOptions()

    @model_validator(mode="after")
    def _fit_together(self) -> Config:
        check_together(self.model, self.training)
        if self.training.warm_start == SERVED:
            raise ValueError(
                "training.warm_start: got served, which only a pipeline has; allowed: the path of "
                "a SavedModel or of a checkpoint, or null"
            )
        return self


class UserError(user_error.UserError):
    """One line for the user of this command."""

    program = "trainer"


@click.command(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--data", metavar="DATA", required=True, help="What to train on, see below.")
@click.option(
    "--config",
    "source",
    metavar="FILE",
    help="YAML with the sections `model` and `training`; those of a pipeline's file that do not "
    "concern training are passed over. `tfx-wgan config show` lists every key.",
)
@click.option("--output", metavar="OUTPUT", required=True, help="Where everything goes, see below.")
@click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Override one key, e.g. training.steps=200; may be repeated.",
)
def main(data: str, source: str | None, output: str, overrides: tuple[str, ...]) -> None:
    """Trains a WGAN-GP on a folder of images, without TFX.

    Try: python -m trainer --data DATA --output OUTPUT --set training.steps=200
    """
    try:
        config = load(source, overrides)
        if "://" not in data and not os.path.exists(data):
            raise settings.ConfigError(f"--data {data}: no such file or folder")
    except settings.ConfigError as error:
        raise UserError(str(error), 2) from error
    try:
        path = _write_job(config, data, output)
    except TrainerError as error:
        raise UserError(str(error), 1) from error
    except OSError as error:
        raise UserError(f"--output {output}: cannot be written: {error.strerror}", 1) from error
    except KeyboardInterrupt:
        raise UserError(
            "interrupted before training began: run the same command again", 75
        ) from None
    # In a new process: this one has used TensorFlow, and devices can no longer be configured.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "trainer.process", path])


def load(source: str | None, overrides: Sequence[str]) -> Config:
    """Reads what concerns training from a configuration file.

    Args:
      source: path of a YAML file; None: the defaults.
      overrides: `section.key=value` each, the value as YAML.

    Raises:
      ConfigError: one line naming the key, what was given and what is allowed.
    """
    tree = settings.read(source, list(Config.model_fields)) if source else {}
    for section in PIPELINE_SECTIONS:
        tree.pop(section, None)
    for override in overrides:
        settings.override(tree, override)
    config = settings.validate(Config, tree)
    if config.training.warm_start:
        settings.check_weights(config.training.warm_start)
    return config


def _write_job(config: Config, data: str, output: str) -> str:
    """Looks at the data and writes what is to be done; returns the file's path."""
    from trainer import standalone

    job = standalone.make_job(config.model, config.training, data, output)
    text = job.model_dump_json(indent=2) + "\n"
    if "://" in output:
        descriptor, path = tempfile.mkstemp(prefix="tfx-wgan-", suffix=".json", text=True)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return path
    # Every worker of a cluster writes the same.
    local = Path(output, "job.json")
    local.parent.mkdir(parents=True, exist_ok=True)
    temporary = local.with_name(f"job.json.tmp-{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(local)
    return str(local)


if __name__ == "__main__":
    main(prog_name="python -m trainer")
