"""The trainer as a user runs it: input, metrics, curves, samples, validation, checkpoints."""

from __future__ import annotations

import os

from timing import Hook, Side

from trainer import controller
from trainer.options import TrainingJob
from trainer.progress import CONSOLE_VARIABLE


def side(job: TrainingJob) -> Side:
    """The whole of `controller.run`; its hook is asked between calls into the device loop.

    Args:
      job: whose events all fall on multiples of `steps_per_call`.
    """
    training = job.training
    images = training.steps_per_call * training.global_batch_size * training.critic_steps

    def run(hook: Hook) -> None:
        def between_calls() -> bool:
            hook(images)
            return False

        with open(os.devnull, "w") as nowhere:
            os.environ[CONSOLE_VARIABLE] = str(nowhere.fileno())
            controller.run(job, between_calls)

    return run
