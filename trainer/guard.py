"""When training has gone wrong, and when it goes nowhere: decisions on numbers, nothing else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from trainer.history import History, Validation
from trainer.options import GuardOptions

#: Relative distances below this tell good generators from good ones: none of them is lost.
SMALL_DISTANCE = 0.05


@dataclasses.dataclass(frozen=True)
class Fault:
    """Something that is wrong with the training.

    Attributes:
      quantity: name of the metric that shows it.
      what: the value and its bound, in words.
      advice: settings that may help, in words.
      in_weights: whether the newest checkpoint, from before it, may be trusted; otherwise it
        crept in, and the best one is.
    """

    quantity: str
    what: str
    advice: str
    in_weights: bool

    def __str__(self) -> str:
        return f"{self.quantity} {self.what}"


_SLOWER = (
    "a smaller training.optimizer.critic_learning_rate, a larger training.penalty.weight, "
    "or training.precision=float32"
)
_STRONGER = (
    "more training.critic_steps, smaller learning rates in training.optimizer, "
    "or wider networks (model.generator_channels)"
)


def check_metrics(extremes: Mapping[str, float], options: GuardOptions) -> Fault | None:
    """Whether the training has exploded.

    Args:
      extremes: largest absolute values of some steps by metric, infinite for NaN.
      options: the bounds.

    Returns:
      The fault, or None.
    """
    for name, value in extremes.items():
        if not math.isfinite(value):
            return Fault(name, "is not a finite number", _SLOWER, in_weights=True)
    bounds = {
        "gradient_norm": ("max_gradient_norm", options.max_gradient_norm),
        "gradient_penalty": ("max_gradient_penalty", options.max_gradient_penalty),
    }
    for name, (key, bound) in bounds.items():
        if extremes[name] > bound:
            what = f"is {extremes[name]:.3g}, above training.guard.{key}={bound:g}"
            return Fault(name, what, _SLOWER, in_weights=True)
    return None


def check_validation(newest: Validation, before: History, options: GuardOptions) -> Fault | None:
    """Whether the generator has collapsed or got lost.

    Args:
      newest: the last measurement.
      before: what was measured before it.
      options: the bounds.

    Returns:
      The fault, or None.
    """
    if not math.isfinite(newest.distance):
        return Fault("validation_distance", "is not a finite number", _SLOWER, in_weights=True)
    # Early in a run images are all alike: only what has varied before can collapse.
    widest = min(1.0, max((one.deviation for one in before.validations), default=0.0))
    if newest.deviation < options.min_sample_deviation * widest:
        what = (
            f"is {newest.deviation:.3g} of the real images', below "
            f"training.guard.min_sample_deviation={options.min_sample_deviation:g} "
            f"of the {widest:.3g} it has been"
        )
        return Fault("sample_deviation", what, _STRONGER, in_weights=False)
    if before.best is None:
        return None
    bound = options.max_distance_factor * max(before.best.distance, SMALL_DISTANCE)
    if newest.distance > bound:
        what = (
            f"is {newest.distance:.3g}, above training.guard.max_distance_factor="
            f"{options.max_distance_factor:g} times the best one, {before.best.distance:.3g} "
            f"at step {before.best.step}"
        )
        return Fault("validation_distance", what, _STRONGER, in_weights=False)
    return None


def has_stalled(history: History, validations: int | None) -> bool:
    """Whether so many validations have passed since the best one; never for None."""
    if validations is None or history.best is None:
        return False
    return sum(one.step > history.best.step for one in history.validations) >= validations
