"""The end of a training: the best of its checkpoints becomes the exported model."""

from __future__ import annotations

from collections.abc import Callable

from trainer import export, result
from trainer.checkpoint_files import REFUSALS, reason
from trainer.checkpoints import Checkpoints
from trainer.errors import TrainerError
from trainer.history import History
from trainer.options import TrainingJob
from trainer.state import State


def publish(
    job: TrainingJob,
    state: State,
    checkpoints: Checkpoints,
    history: History,
    report: Callable[[str], None],
    **details: object,
) -> None:
    """Exports the best step by validation distance, or the last where there is no such thing.

    Args:
      job: says where to.
      state: as training has left it; afterwards it is that of the exported step.
      checkpoints: of the training.
      history: of the training.
      report: takes a line for the user.
      **details: more to be told in the result.

    Raises:
      TrainerError: the model cannot be written.
    """
    trained, best = int(state.step.numpy()), history.best
    # Where the best one is broken, that is reported, and the last one is exported.
    if best and best.step != trained:
        checkpoints.restore_newest([best.step])
    exported = int(state.step.numpy())
    try:
        export.save(state, job.model, job.export_dir, class_names=job.class_names)
        result.write(
            job,
            steps=trained,
            exported_step=exported,
            best_validation_distance=best.distance if best else None,
            rollbacks=len(history.rollbacks),
            **details,
        )
    except REFUSALS as error:
        raise TrainerError(
            f"the model in {job.export_dir} cannot be written ({reason(error)}): training is "
            "done and saved; make room and run the same command again"
        ) from error
    why = ""
    if best and best.step == exported:
        why = f", the best by validation distance ({best.distance:.4g})"
    report(f"exported step {exported} of {trained}{why}: {job.export_dir}")
