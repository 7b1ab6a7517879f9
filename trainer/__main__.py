"""`python -m trainer JOB.json`: one training run in a process of its own.

Exit codes: 0 trained and exported, 75 interrupted and saved (run it again), 2 not a job,
1 failure. The last line of an error is also in the log folder's `training.json`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

# Before TensorFlow is imported: its notes on CPU features are for nobody here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import pydantic

from trainer.errors import EXIT_INTERRUPTED, TrainerError, TrainingInterrupted
from trainer.options import TrainingJob


def main(arguments: list[str]) -> int:
    """Runs the job in a file.

    Args:
      arguments: the path of a `TrainingJob` as JSON.

    Returns:
      The exit code.
    """
    if len(arguments) != 1:
        print("usage: python -m trainer JOB.json", file=sys.stderr)
        return 2
    try:
        job = TrainingJob.model_validate_json(Path(arguments[0]).read_text(encoding="utf-8"))
    except (OSError, pydantic.ValidationError) as error:
        print(f"{arguments[0]}: not a training job: {_flat(error)}", file=sys.stderr)
        return 2
    stop = _Stop()

    import tensorflow as tf

    from trainer import controller

    # Free on a CPU; on a GPU it is what makes a resumed run equal an uninterrupted one.
    tf.config.experimental.enable_op_determinism()
    try:
        controller.run(job, interrupted=stop.is_asked)
    except TrainingInterrupted as error:
        controller.write_result(job, error=str(error))
        print(error, file=sys.stderr)
        return EXIT_INTERRUPTED
    except TrainerError as error:
        controller.write_result(job, error=str(error))
        print(error, file=sys.stderr)
        return 1
    except Exception as error:
        controller.write_result(job, error=f"{type(error).__name__}: {_flat(error)}")
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

    def is_asked(self) -> bool:
        return self._asked


def _flat(error: object) -> str:
    return " ".join(str(error).split())[:500]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
