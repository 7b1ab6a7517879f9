"""The configuration: one YAML file (or a preset's name) to frozen, validated options.

Imports nothing heavy: a wrong configuration is refused before TensorFlow or TFX is loaded and
before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from components.gan_evaluator.options import EvaluationOptions
from trainer import settings
from trainer.options import (
    IMAGE_SIZES,
    SERVED,
    ModelOptions,
    Options,
    Real,
    TrainingOptions,
    check_together,
    option,
)
from trainer.settings import ConfigError
from trainer.tuning import TuningOptions

PRESETS_DIR = Path(__file__).with_name("presets")


class DataOptions(Options):
    """Where the images come from and what becomes of them."""

    input: str = option(
        "digits",
        "folder of images (class folders or flat), folder of IDX files, folder or file of "
        "TFRecords, all with {SPAN} if it grows; or digits: scikit-learn's handwritten digits",
        min_length=1,
    )
    format: Literal["auto", "images", "idx", "tfrecord", "digits"] = option(
        "auto", "what the input is; auto: told by what is there"
    )
    image_size: int = option(
        32, f"height and width the images are resized to: one of {list(IMAGE_SIZES)}", "pixels"
    )
    channels: Literal[1, 3] = option(3, "1: grey, 3: colour; images are converted")
    eval_fraction: Real = option(
        0.2,
        "share of the images held out, where the input has no train and test folders",
        gt=0.0,
        lt=1.0,
    )
    max_quarantined_fraction: Real = option(
        0.05, "share of unreadable files above which the run stops", ge=0.0, le=1.0
    )
    schema_file: str | None = option(
        None,
        "schema (schema.pbtxt) the data must fit; null: pinned from the first accepted data",
        min_length=1,
    )

    @model_validator(mode="after")
    def _size_is_buildable(self) -> DataOptions:
        if self.image_size not in IMAGE_SIZES:
            raise ValueError(
                f"data.image_size: got {self.image_size}, which the networks cannot build; "
                f"allowed: {', '.join(map(str, IMAGE_SIZES))}"
            )
        return self


class ServingOptions(Options):
    """Where good models go."""

    push_destination: str | None = option(
        None,
        "folder of versioned SavedModels, as TF Serving reads it; null: ROOT/serving",
        min_length=1,
    )


class RuntimeOptions(Options):
    """Where and how the pipeline runs."""

    root: str = option(
        "runs/tfx-wgan", "folder that holds everything of this pipeline", min_length=1
    )
    pipeline_name: str = option(
        "tfx-wgan", "name of the pipeline in the metadata", pattern=r"^[a-z][a-z0-9-]*$"
    )

    @model_validator(mode="after")
    def _root_is_local(self) -> RuntimeOptions:
        if "://" in self.root:
            raise ValueError(f"runtime.root: got {self.root!r}; allowed: a folder of this machine")
        return self


class Config(Options):
    """The whole configuration."""

    data: DataOptions = DataOptions()
    model: ModelOptions = ModelOptions()
    training: TrainingOptions = TrainingOptions()
    tuning: TuningOptions = TuningOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
    serving: ServingOptions = ServingOptions()
    runtime: RuntimeOptions = RuntimeOptions()

    @model_validator(mode="after")
    def _fit_together(self) -> Config:
        check_together(self.model, self.training)
        return self

    @property
    def root(self) -> Path:
        """`runtime.root` as an absolute path."""
        return Path(absolute(self.runtime.root))

    @property
    def schema_path(self) -> str:
        """The schema the data must fit, given or pinned: absolute."""
        given = self.data.schema_file
        return absolute(given) if given else str(self.root / "schema" / "schema.pbtxt")

    @property
    def warm_start_path(self) -> str | None:
        """Weights to begin with that `training.warm_start` names by path: absolute, or a URL."""
        given = self.training.warm_start
        return None if given is None or given == SERVED else absolute(given)

    @property
    def push_destination(self) -> str:
        """Folder of served versions: absolute, or a URL as it is."""
        given = self.serving.push_destination
        return str(self.root / "serving") if given is None else absolute(given)


def absolute(path: str) -> str:
    """A local path in full; a URL as it is."""
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


def presets() -> dict[str, str]:
    """Names of the presets and, for each, its first comment line."""
    found = {}
    for path in sorted(PRESETS_DIR.glob("*.yaml")):
        found[path.stem] = path.read_text().splitlines()[0].lstrip("# ").strip()
    return found


def load(source: str | None, overrides: Sequence[str] = (), root: str | None = None) -> Config:
    """Reads, overrides and validates a configuration.

    Args:
      source: path of a YAML file, or the name of a preset; None: the defaults.
      overrides: `section.key=value` each, the value as YAML.
      root: replaces `runtime.root`.

    Raises:
      ConfigError: one line naming the key, what was given and what is allowed.
    """
    tree = _read(source) if source is not None else {}
    for override in overrides:
        settings.override(tree, override)
    if root is not None:
        settings.put(tree, ["runtime", "root"], root, "--root")
    return settings.validate(Config, tree)


def _read(source: str) -> dict[str, Any]:
    path = Path(source)
    if not path.suffix and not path.is_file():
        path = PRESETS_DIR / f"{source}.yaml"
    if not path.is_file():
        raise ConfigError(
            f"configuration {source!r}: no such file or preset; "
            f"give a YAML file or one of: {', '.join(presets())}"
        )
    return settings.read(path, list(Config.model_fields))
