"""At which steps the host gets to see the device loop, and what happens there."""

from __future__ import annotations

from collections.abc import Iterator

from trainer.options import TrainingOptions


def calls(step: int, options: TrainingOptions) -> Iterator[tuple[int, int]]:
    """Pieces of at most `steps_per_call` steps, none of which crosses a step that has an event.

    The ends do not depend on where training begins, as long as it begins at one of them: what is
    decided there is decided alike in a run that was interrupted.

    Args:
      step: steps done.
      options: of the training.

    Yields:
      First and last (exclusive) step of each call.
    """
    cadences = (
        options.steps_per_call,
        options.log_every_steps,
        options.sample_every_steps,
        options.checkpoint_every_steps,
        options.validate_every,
    )
    while step < options.steps:
        end = min(options.steps, *((step // every + 1) * every for every in cadences))
        yield step, end
        step = end


def is_due(step: int, every: int, options: TrainingOptions) -> bool:
    """Whether something that happens every so many steps, and at the end, happens now."""
    return step % every == 0 or step == options.steps
