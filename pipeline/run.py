"""`tfx-wgan run`: one run of the pipeline here, from the lock to the report."""

from __future__ import annotations

import contextlib
import dataclasses
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
from pipeline import console, describe, lock
from trainer.errors import TrainingInterrupted

if TYPE_CHECKING:
    from pipeline.local import NodeRun

_GO_ON = "run the same command again to go on"

#: Ends the name of what only ran the nodes before training, and is no run of the pipeline.
FIT_SUFFIX = "-fit"

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
    with session(config) as opened:
        return _run_quietly(config, opened)


@dataclasses.dataclass(frozen=True)
class Session:
    """What a command that runs nodes works with.

    Attributes:
      folder: its own folder, with `config.yaml` and `log.txt`.
      screen: leads to the user; standard output and error lead to the log.
      interruptions: remembers SIGTERM and Ctrl-C.
    """

    folder: Path
    screen: TextIO
    interruptions: _Interruptions


@contextlib.contextmanager
def session(config: configuration.Config, suffix: str = "") -> Iterator[Session]:
    """Holds the root, with a new folder for what is done there.

    Args:
      config: names the root.
      suffix: ends the folder's name.

    Raises:
      lock.RootBusyError: where another run holds the root.
    """
    with lock.held(config.root):
        for left in config.root.glob("runs/*/tmp"):  # by one that was killed: nobody else runs
            shutil.rmtree(left, ignore_errors=True)
        folder = _new_run_folder(config.root, suffix)
        (folder / "config.yaml").write_text(describe.show(config), encoding="utf-8")
        with (
            console.redirected(folder / "log.txt") as screen,
            _Interruptions() as interruptions,
            _scratch(folder / "tmp"),
        ):
            print(f"run {folder.name} in {config.root}", file=screen)
            yield Session(folder, screen, interruptions)


def _new_run_folder(root: Path, suffix: str) -> Path:
    while True:
        moment = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        folder = root / "runs" / f"{moment}{suffix}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
        time.sleep(0.2)


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[None]:
    """Gives third-party code, child processes included, a temporary folder that is removed.

    Beam and TFX leave their temporary folders behind, and where they are interrupted while they
    package code, the process works in one of them.
    """
    folder.mkdir()
    working = os.getcwd()
    before = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        os.chdir(working)
        tempfile.tempdir = before[0]
        if before[1] is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before[1]
        shutil.rmtree(folder, ignore_errors=True)


class _Interruptions:
    """Makes SIGTERM interrupt the run as Ctrl-C does, and remembers both.

    Beam and TFX wrap or swallow a KeyboardInterrupt, depending on where it finds them.
    """

    def __init__(self) -> None:
        self.asked = False
        self._raising = True

    def __enter__(self) -> _Interruptions:
        self._before = {n: signal.signal(n, self._ask) for n in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: object) -> None:
        self.asked = True
        if self._raising:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raises KeyboardInterrupt when there was one that did not come through."""
        if self.asked:
            raise KeyboardInterrupt

    def hold(self) -> None:
        """From now on nothing is interrupted: what is left is short, and must be complete."""
        self._raising = False


def _run_quietly(config: configuration.Config, opened: Session) -> dict[str, Any]:
    """The run itself, with standard output and error already leading to the log."""
    from pipeline import reporting, summary

    clock = time.monotonic()
    folder, interruptions = opened.folder, opened.interruptions
    nodes: list[NodeRun] = []
    error = run_nodes(config, opened, nodes)
    interruptions.hold()
    gathered = summary.build(
        folder.name, folder, nodes, error, interrupted=error is not None and interruptions.asked
    )
    try:
        reporting.publish(folder, gathered)
    except Exception as problem:  # a report that fails must not hide how the run ended
        traceback.print_exc(file=sys.stderr)
        print(f"the report could not be made: {one_line(problem)}", file=opened.screen)
        gathered["report"] = None
    gathered["seconds"] = round(time.monotonic() - clock, 1)
    summary.write(folder, gathered)
    return gathered


def run_nodes(
    config: configuration.Config, opened: Session, nodes: list[NodeRun], until: str | None = None
) -> str | None:
    """Runs the pipeline's nodes.

    Args:
      config: says which.
      opened: the session that they run in.
      nodes: is filled with what became of them.
      until: id of the last node to run; None: all.

    Returns:
      Why they stopped, one line; None where they did not.
    """
    screen, interruptions = opened.screen, opened.interruptions
    print("loading TFX and TensorFlow", file=screen)
    try:
        from absl import logging as absl_logging

        from pipeline import dag, local

        absl_logging.set_verbosity(absl_logging.INFO)
        logging.captureWarnings(True)
        board = _Board(screen)

        def started(node_id: str) -> None:
            interruptions.check()
            board.started(node_id)

        def ended(node: NodeRun) -> None:
            if node.state == "failed" and interruptions.asked:
                node = dataclasses.replace(node, state="interrupted")
            nodes.append(node)
            board.ended(node)

        runner = local.LocalRunner(opened.folder.name, on_start=started, on_end=ended, until=until)
        runner.run(dag.create_pipeline(config))
    except KeyboardInterrupt:
        return _GO_ON
    except TrainingInterrupted as problem:
        interruptions.asked = True  # the signal may have reached the training alone
        return one_line(problem)
    except Exception as problem:
        traceback.print_exc(file=sys.stderr)
        if interruptions.asked:
            return _GO_ON
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
