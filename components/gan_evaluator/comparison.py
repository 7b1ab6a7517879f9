"""One metric of two models: whether the one is worse, or better, by more than chance."""

from __future__ import annotations

import dataclasses
import math

from scipy import special

from components.gan_evaluator.measurements import Value
from trainer.quality import jackknife
from trainer.quality.catalogue import Metric

#: Standard errors that a difference must exceed to be called one.
Z = 2.0


def class_z(classes: int) -> float:
    """Standard errors for each of several classes, so that all of them together err as one does.

    Bonferroni's bound, which holds however the classes depend on each other, on the tail of
    Student's t: so far out the normal distribution's is too thin for errors that are themselves
    estimated, from the groups of a jackknife.

    Args:
      classes: that are compared, at least 1.

    Returns:
      `Z` for one class, 3.1 for ten, 4.1 for a hundred.
    """
    freedom = jackknife.GROUPS - 1
    return float(-special.stdtrit(freedom, special.stdtr(freedom, -Z) / classes))


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A candidate's value beside the served model's.

    Attributes:
      metric: what is compared.
      new: the candidate's, finite.
      old: the served model's, finite.
      tolerance: worsening that is tolerated, as a share of the old value.
      z: standard errors that a difference must exceed.
      class_name: None: on all examples.
    """

    metric: Metric
    new: Value
    old: Value
    tolerance: float
    z: float = Z
    class_name: str | None = None

    @property
    def worsening(self) -> float:
        """How much worse the candidate is; negative: better."""
        return self.metric.worsening(self.new.value - self.old.value)

    @property
    def error(self) -> float:
        """Standard error of the difference; NaN: not known."""
        return self.new.change_error

    @property
    def allowed(self) -> float:
        """The worsening that is not called worse. An unknown error excuses nothing."""
        chance = self.z * self.error if math.isfinite(self.error) else 0.0
        return max(self.tolerance * abs(self.old.value), chance)

    @property
    def limit(self) -> float:
        """The worst value that is accepted."""
        return self.old.value + self.metric.worsening(self.allowed)

    @property
    def is_worse(self) -> bool:
        """Whether the worsening exceeds the tolerance and chance."""
        return self.worsening > self.allowed

    @property
    def is_chance(self) -> bool:
        """Whether the difference may be one of the draw alone."""
        return abs(self.worsening) <= self.z * self.error

    @property
    def is_better(self) -> bool:
        """Whether it is better by more than chance; by an unknown error it is not."""
        return -self.worsening > self.z * self.error
