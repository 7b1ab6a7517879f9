"""What a run remembers of its past, beside its weights: it is in every checkpoint, as JSON."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Record(BaseModel):
    """Frozen; infinite and NaN values survive the way through JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Validation(_Record):
    """One measurement against held-out images.

    Attributes:
      step: generator updates done.
      distance: relative Frechet distance of the average generator's images.
      deviation: standard deviation of their pixels over that of the real images.
    """

    step: int
    distance: float
    deviation: float


class Rollback(_Record):
    """One return to a checkpoint.

    Attributes:
      step: at which something was wrong.
      to_step: of the checkpoint.
      fault: what was wrong, in words.
    """

    step: int
    to_step: int
    fault: str


class History(_Record):
    """Everything before a step that decides what happens after it.

    Attributes:
      validations: in order of steps.
      rollbacks: in order of time. Their number picks the order of the data.
    """

    validations: tuple[Validation, ...] = ()
    rollbacks: tuple[Rollback, ...] = ()

    @property
    def best(self) -> Validation | None:
        """The validation with the smallest distance, the first of equals."""
        measured = [one for one in self.validations if one.distance == one.distance]
        return min(measured, key=lambda one: one.distance, default=None)

    def validated(self, validation: Validation) -> History:
        """With one validation more."""
        return self.model_copy(update={"validations": (*self.validations, validation)})

    def rolled_back(self, rollback: Rollback) -> History:
        """With one return to a checkpoint more."""
        return self.model_copy(update={"rollbacks": (*self.rollbacks, rollback)})
