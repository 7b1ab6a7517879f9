"""`tfx-wgan run`: one run of the pipeline here, from the lock to the report."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pipeline import config as configuration
from pipeline import console, lock
from trainer.errors import TrainingInterrupted

if TYPE_CHECKING:
    from pipeline.local import NodeRun

#: The command's exit code, by how the run ended.
EXIT_CODES = {"served": 0, "failed": 1, "refused": 3, "interrupted": 75}


def run(config: configuration.Config) -> dict[str, Any]:
    """Runs the pipeline once and leaves a summary and a report, whatever happens.

    Progress goes to standard error, everything third-party to `log.txt` in the run's folder.

    Args:
      config: the validated configuration.

    Returns:
      The run's summary, see `summary.build`.

    Raises:
      lock.RootBusyError: where another run holds the root.
    """
    with lock.held(config.root):
        folder = _new_run_folder(config.root)
        (folder / "config.yaml").write_text(configuration.show(config), encoding="utf-8")
        with (
            console.redirected(folder / "log.txt") as screen,
            _terminable(),
            _scratch(folder / "tmp"),
        ):
            print(f"run {folder.name} in {config.root}", file=screen)
            return _run_quietly(config, folder, screen)


def _new_run_folder(root: Path) -> Path:
    while True:
        folder = root / "runs" / datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
        time.sleep(0.2)


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[None]:
    """Gives third-party code, child processes included, a temporary folder that is removed.

    Beam and TFX leave their temporary folders behind.
    """
    folder.mkdir()
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before[0]
        if before[1] is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before[1]
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Makes SIGTERM interrupt the run as Ctrl-C does, so that it ends tidily."""

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _run_quietly(config: configuration.Config, folder: Path, screen: TextIO) -> dict[str, Any]:
    """The run itself, with standard output and error already leading to the log."""
    from pipeline import reporting, summary

    clock = time.monotonic()
    nodes: list[NodeRun] = []
    error = _run_nodes(config, folder.name, nodes, screen)
    gathered = summary.build(folder.name, folder, nodes, error)
    try:
        reporting.publish(folder, gathered)
    except Exception as problem:  # a report that fails must not hide how the run ended
        traceback.print_exc(file=sys.stderr)
        print(f"the report could not be made: {one_line(problem)}", file=screen)
        gathered["report"] = None
    gathered["seconds"] = round(time.monotonic() - clock, 1)
    summary.write(folder, gathered)
    return gathered


def _run_nodes(
    config: configuration.Config, run_id: str, nodes: list[NodeRun], screen: TextIO
) -> str | None:
    """Runs every node, filling `nodes`; returns why the run stopped, None if it did not."""
    print("loading TFX and TensorFlow", file=screen)
    try:
        from absl import logging as absl_logging

        from pipeline import dag, local

        absl_logging.set_verbosity(absl_logging.INFO)
        logging.captureWarnings(True)
        board = _Board(screen)

        def ended(node: NodeRun) -> None:
            nodes.append(node)
            board.ended(node)

        runner = local.LocalRunner(run_id, on_start=board.started, on_end=ended)
        runner.run(dag.create_pipeline(config))
    except KeyboardInterrupt:
        return "run the same command again to go on"
    except TrainingInterrupted as problem:
        return one_line(problem)
    except Exception as problem:
        traceback.print_exc(file=sys.stderr)
        failed = nodes and nodes[-1].state == "failed"
        return f"{nodes[-1].node_id}: {one_line(problem)}" if failed else one_line(problem)
    return None


def one_line(problem: BaseException) -> str:
    """An exception as one line for a person: its message, or its name where it has none."""
    return " ".join(str(problem).split()) or type(problem).__name__


class _Board:
    """One line per component: start, end, seconds, and what became of it."""

    def __init__(self, screen: TextIO):
        self._screen = screen
        self._live = screen.isatty()

    def started(self, node_id: str) -> None:
        if self._live:
            clock = datetime.datetime.now().strftime("%H:%M:%S")
            print(f"  {node_id:<18} {clock} ...", end="\r", file=self._screen, flush=True)

    def ended(self, node: NodeRun) -> None:
        print(
            f"  {node.node_id:<18} {node.started:%H:%M:%S} - {node.ended:%H:%M:%S} "
            f"{node.seconds:8.1f} s  {node.state}",
            file=self._screen,
            flush=True,
        )
