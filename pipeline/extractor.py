"""`tfx-wgan extractor fit`: an extractor of the data's own, from the pipeline's own examples."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pipeline import config as configuration
from pipeline import run
from trainer.errors import TrainerError
from trainer.options import ExtractorOptions
from trainer.quality.extractors import files

if TYPE_CHECKING:
    from pipeline.local import NodeRun
    from trainer.quality.extractors.fit import FitJob

#: The node whose output an extractor is fitted to; in the pipeline it comes after all of data.
_LAST_NODE = "Transform"
#: An output folder's name is the first so many digits of its hash.
_NAME_DIGITS = 12


class FitError(RuntimeError):
    """An extractor could not be fitted; the message is one line for the user."""


@dataclasses.dataclass(frozen=True)
class Fitted:
    """A fitted extractor.

    Attributes:
      path: its SavedModel's folder.
      sha256: of its files.
      details: what is known about it, as in its `extractor.json`.
    """

    path: str
    sha256: str
    details: dict[str, Any]

    @property
    def lines(self) -> str:
        """What to write into a configuration to use it."""
        chosen = yaml.safe_dump(
            {"name": self.path, "sha256": self.sha256},
            default_flow_style=True,
            sort_keys=False,
            width=float("inf"),
        )
        return f"evaluation:\n  extractor: {chosen.strip()}"


def fit(config: configuration.Config, output: Path | None = None) -> Fitted:
    """Runs the pipeline's data nodes and fits an extractor to what they give.

    The nodes are those of `tfx-wgan run`, with the same cache: what one of the two commands has
    computed the other does not compute again.

    Args:
      config: the validated configuration; which extractor it names does not matter.
      output: becomes the extractor's folder; None: one below the root that is named by content.

    Raises:
      FitError: a node or the fitting failed.
      KeyboardInterrupt: somebody asked to stop.
      lock.RootBusyError: where another run holds the root.
    """
    evaluation = config.evaluation.model_copy(update={"extractor": ExtractorOptions()})
    config = config.model_copy(update={"evaluation": evaluation})
    with run.session(config, run.FIT_SUFFIX) as opened:
        nodes: list[NodeRun] = []
        error = run.run_nodes(config, opened, nodes, until=_LAST_NODE)
        opened.interruptions.check()
        if error is not None:
            raise FitError(f"{error} (more in {opened.folder / 'log.txt'})")
        temporary = _temporary(output or config.root / "extractors" / "fitted")
        try:
            details = _fit(_job(config, nodes[-1], str(temporary)))
            opened.interruptions.hold()
            return _keep(temporary, output, details)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def check_output(output: Path) -> None:
    """Refuses a folder that holds something else than an extractor, or that cannot be made.

    Raises:
      FitError: it does.
    """
    if output.exists() and not (output / files.SAVED_MODEL_FILE).is_file():
        raise FitError(f"--output {output}: exists, and is no extractor; give a new folder")
    above = next(folder for folder in output.parents if folder.exists())
    if not (above.is_dir() and os.access(above, os.W_OK)):
        raise FitError(f"--output {output}: {above} is no folder that can be written to")


def _job(config: configuration.Config, transform: NodeRun, output_dir: str) -> FitJob:
    from trainer import entrypoint
    from trainer.quality.extractors.fit import FitJob

    examples = transform.outputs["transformed_examples"][0].uri
    return FitJob(
        train_files=(os.path.join(examples, "Split-train", "*"),),
        eval_files=(os.path.join(examples, "Split-eval", "*"),),
        class_names=entrypoint.read_class_names(transform.outputs["transform_graph"][0].uri),
        image_size=config.data.image_size,
        channels=config.data.channels,
        memory_bytes=config.training.input_memory_bytes,
        # Where training looks, too: a large data set is laid out once.
        cache_dir=str(config.root / "training" / "input" / socket.gethostname()),
        output_dir=output_dir,
    )


def _fit(job: FitJob) -> dict[str, Any]:
    from trainer.quality.extractors import fit as fitting

    try:
        return dataclasses.asdict(fitting.in_new_process(job))
    except TrainerError as error:
        raise FitError(str(error)) from error


def _temporary(target: Path) -> Path:
    """A folder beside the target, so that it can be renamed; those of killed processes go."""
    target.parent.mkdir(parents=True, exist_ok=True)
    for left in target.parent.glob(f".{target.name}.tmp-*"):
        shutil.rmtree(left)
    return target.with_name(f".{target.name}.tmp-{os.getpid()}")


def _keep(temporary: Path, output: Path | None, details: dict[str, Any]) -> Fitted:
    """Gives a complete extractor its name."""
    sha256 = files.sha256(str(temporary))
    target = output or temporary.with_name(sha256[:_NAME_DIGITS])
    if not target.exists() or files.sha256(str(target)) != sha256:
        shutil.rmtree(target, ignore_errors=True)
        temporary.rename(target)
    return Fitted(str(target), sha256, details)
