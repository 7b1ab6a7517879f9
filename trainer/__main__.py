"""`python -m trainer JOB.json`: one training run in a process of its own.

Exit codes: 0 trained and exported, 75 interrupted and saved (run it again), 2 not a job,
1 failure. The last line of an error is also in the log folder's `training.json`.

SIGTERM and SIGINT save and stop; with `--while-stdin-open` so does the end of standard input: a
parent that dies, however it dies, takes its training along.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

# Before TensorFlow is imported: its notes on CPU features are for nobody here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pydantic

from trainer.errors import EXIT_INTERRUPTED, TrainerError, TrainingInterrupted
from trainer.options import TrainingJob

WHILE_STDIN_OPEN = "--while-stdin-open"


def main(arguments: list[str]) -> int:
    """Runs the job in a file.

    Args:
      arguments: the path of a `TrainingJob` as JSON, and perhaps `--while-stdin-open`.

    Returns:
      The exit code.
    """
    if not arguments or arguments[1:] not in ([], [WHILE_STDIN_OPEN]):
        print(f"usage: python -m trainer JOB.json [{WHILE_STDIN_OPEN}]", file=sys.stderr)
        return 2
    try:
        job = TrainingJob.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, pydantic.ValidationError) as error:
        print(f"{arguments[0]}: not a training job: {_flat(error)}", file=sys.stderr)
        return 2
    stop = _Stop()
    if arguments[1:]:
        threading.Thread(target=stop.at_end_of_input, daemon=True).start()

    import tensorflow as tf

    from trainer import controller, result

    # Free on a CPU; on a GPU it is what makes a resumed run equal an uninterrupted one.
    tf.config.experimental.enable_op_determinism()
    try:
        controller.run(job, interrupted=stop.is_asked)
    except TrainingInterrupted as error:
        result.write(job, error=str(error))
        print(error, file=sys.stderr)
        return EXIT_INTERRUPTED
    except TrainerError as error:
        result.write(job, error=str(error))
        print(error, file=sys.stderr)
        return 1
    except Exception as error:
        result.write(job, error=f"{type(error).__name__}: {_flat(error)}")
        raise
    return 0


class _Stop:
    """Remembers that the process was told to stop."""

    def __init__(self) -> None:
        self._asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, number: int, frame: object) -> None:
        self._asked = True

    def at_end_of_input(self) -> None:
        """Waits for the end of standard input, and takes it as being told to stop."""
        os.read(sys.stdin.fileno(), 1)
        self._asked = True

    def is_asked(self) -> bool:
        return self._asked


def _flat(error: object) -> str:
    return " ".join(str(error).split())[:500]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
