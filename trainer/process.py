"""`python -m trainer.process JOB.json`: one training run in a process of its own.

Exit codes: 0 trained and exported, 75 interrupted and saved (run it again), 2 not a job,
1 failure. The last line of an error is also in the log folder's `training.json`.

SIGTERM and SIGINT save and stop; with `--while-stdin-open` so does the end of standard input: a
parent that dies, however it dies, takes its training along.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

# Before TensorFlow is imported: its notes on CPU features are for nobody here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pydantic

from trainer import lock
from trainer.errors import EXIT_INTERRUPTED, PeerLost, TrainerError, TrainingInterrupted
from trainer.options import TrainingJob
from trainer.progress import CONSOLE_VARIABLE, console
from trainer.settings import flat

WHILE_STDIN_OPEN = "--while-stdin-open"
#: How long a process that was told to stop may take to save, before it ends without.
GRACE_SECONDS = 300.0
#: How long to wait for an earlier training in the same folder, told to stop but not ended yet.
LOCK_SECONDS = 60.0
#: How often a process replaces itself after the loss of another worker while no checkpoint is
#: written in between, and the pause before it.
MAX_RESTARTS = 10
RESTART_PAUSE_SECONDS = 1.0
#: Counts the restarts.
RESTARTS_VARIABLE = "TFX_WGAN_RESTARTS"


def main(arguments: list[str]) -> int:
    """Runs the job in a file.

    Args:
      arguments: the path of a `TrainingJob` as JSON, and perhaps `--while-stdin-open`.

    Returns:
      The exit code.
    """
    if not arguments or arguments[1:] not in ([], [WHILE_STDIN_OPEN]):
        print(f"usage: python -m trainer.process JOB.json [{WHILE_STDIN_OPEN}]", file=sys.stderr)
        return 2
    try:
        job = TrainingJob.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, pydantic.ValidationError) as error:
        print(f"{arguments[0]}: not a training job: {flat(error)[:500]}", file=sys.stderr)
        return 2
    return run(job, Stop(while_stdin_open=bool(arguments[1:])))


class Stop:
    """Remembers that the process was told to stop: by a signal, or by the end of its input.

    A thread of its own listens, because a call into TensorFlow that waits for a lost worker does
    not come back to Python's signal handlers. It ends the process when nothing else does.

    Args:
      while_stdin_open: whether the end of standard input tells to stop, too.
    """

    def __init__(self, while_stdin_open: bool = False):
        self._asked = threading.Event()
        heard, told = os.pipe()
        os.set_blocking(told, False)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, frame: self._asked.set())
        ends = [heard, sys.stdin.fileno()] if while_stdin_open else [heard]
        threading.Thread(target=self._listen, args=(ends,), daemon=True).start()

    def is_asked(self) -> bool:
        """Whether the process was told to stop."""
        return self._asked.is_set()

    def wait(self, seconds: float) -> bool:
        """Waits, but no longer than until the process is told to stop; whether it was."""
        return self._asked.wait(seconds)

    def _listen(self, ends: list[int]) -> None:
        select.select(ends, [], [])
        self._asked.set()
        time.sleep(GRACE_SECONDS)
        print(f"training did not stop within {GRACE_SECONDS:.0f} s: ended", file=sys.stderr)
        sys.stderr.flush()
        os._exit(EXIT_INTERRUPTED)


def run(job: TrainingJob, stop: Stop) -> int:
    """Trains in this process, which TensorFlow must not have been used in.

    After the loss of another worker the process replaces itself, with the same arguments,
    environment and standard streams: it then waits for the worker to come back, and goes on from
    the last checkpoint.

    Args:
      job: what to train.
      stop: tells when to stop.

    Returns:
      The exit code.
    """
    import tensorflow as tf

    from trainer import result

    # Free on a CPU; on a GPU it is what makes a resumed run equal an uninterrupted one.
    tf.config.experimental.enable_op_determinism()
    if _speaks_for_all():
        with contextlib.suppress(OSError, tf.errors.OpError):  # what cannot be deleted is told yet
            result.clear(job)
    before = _checkpoints(job)
    try:
        _run_alone(job, stop)
    except PeerLost as error:
        progressed = not _checkpoints(job) <= before
        line, code = _start_anew(error, stop, progressed), EXIT_INTERRUPTED
    except TrainingInterrupted as error:
        line, code = str(error), EXIT_INTERRUPTED
    except TrainerError as error:
        line, code = str(error), 1
    except Exception as error:
        _leave(job, f"{type(error).__name__}: {flat(error)[:500]}")
        raise
    else:
        return 0
    print(line, file=sys.stderr)
    _leave(job, line)
    return code


def _leave(job: TrainingJob, line: str) -> None:
    """Leaves the line that says why training ended, where that can be written."""
    import tensorflow as tf

    from trainer import result

    if _speaks_for_all():
        with contextlib.suppress(OSError, tf.errors.OpError):  # a full disk may be the reason
            result.write(job, error=line)


def _speaks_for_all() -> bool:
    """Whether this process writes into the log folder: of several workers the chief alone does."""
    from trainer import cluster

    with contextlib.suppress(TrainerError):  # what is wrong with the cluster is told elsewhere
        workers = cluster.described()
        return workers is None or workers.is_chief
    return True


def _run_alone(job: TrainingJob, stop: Stop) -> None:
    """Trains while no other process that does the same work is in its folder."""
    from trainer import controller

    with contextlib.ExitStack() as stack:
        if "://" not in job.work_dir:
            held = lock.held(
                Path(job.work_dir), _lock_name(), seconds=LOCK_SECONDS, until=stop.is_asked
            )
            try:
                stack.enter_context(held)
            except lock.FolderBusyError as error:
                if stop.is_asked():
                    raise TrainingInterrupted("training interrupted before it began") from None
                raise TrainerError(
                    f"{job.work_dir} is in use by another training ({error.holder}); "
                    "wait for it, or end it"
                ) from None
            except OSError as error:
                raise TrainerError(
                    f"{job.work_dir}: cannot be written: {error.strerror}"
                ) from error
        controller.run(job, interrupted=stop.is_asked)


def _lock_name() -> str:
    """Of the lock file: who writes in the folder keeps other trainings out of it.

    The other workers of one training share its folder, and have a lock each, so that none of them
    is started twice.
    """
    from trainer import cluster

    workers = cluster.described()
    if workers is None or workers.is_chief:
        return ".lock"
    return f".lock-{workers.own.replace(' ', '-')}"


def _checkpoints(job: TrainingJob) -> set[str]:
    """The checkpoints that can be seen now."""
    import tensorflow as tf

    with contextlib.suppress(OSError, tf.errors.OpError):
        return set(tf.io.gfile.glob(os.path.join(job.work_dir, "*", "checkpoints", "step-*")))
    return set()


def _start_anew(error: PeerLost, stop: Stop, progressed: bool) -> str:
    """Replaces this process by a new one after a pause; returns only to say why it did not.

    Args:
      error: why.
      stop: ends the pause.
      progressed: whether a checkpoint was written since this process began: restarts are then
        counted anew.
    """
    restarts = 0 if progressed else int(os.environ.get(RESTARTS_VARIABLE, "0"))
    if restarts >= MAX_RESTARTS:
        return (
            f"{error}; given up after {restarts} restarts: run the same command on every worker "
            "to go on"
        )
    print(f"{error}; starting anew ({restarts + 1} of {MAX_RESTARTS} times)", file=console())
    if stop.wait(RESTART_PAUSE_SECONDS):
        return f"{error}; training interrupted: run the same command again to go on"
    os.environ[RESTARTS_VARIABLE] = str(restarts + 1)
    _replace_process()


def _replace_process() -> NoReturn:
    """Begins this process again; only its standard streams and the console stay open."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {0, 1, 2, int(os.environ.get(CONSOLE_VARIABLE) or 2)}
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor not in kept:
            with contextlib.suppress(OSError):  # the one that listed them is closed already
                os.set_inheritable(descriptor, False)
    os.execv(sys.executable, sys.orig_argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
