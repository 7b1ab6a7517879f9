"""Search for training options by short trainings: what may be chosen, and the door from TFX.

Only pydantic is imported until the search begins.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from trainer.options import CriticSteps, Options, Real, option


def _ascending(bounds: tuple[float, float]) -> tuple[float, float]:
    if not 0 < bounds[0] < bounds[1]:
        raise PydanticCustomError("not_a_range", "[low, high] with 0 < low < high")
    return bounds


#: Two numbers between which values are drawn evenly on a logarithmic scale.
Range = Annotated[tuple[Real, Real], Field(strict=False), AfterValidator(_ascending)]


class TuningOptions(Options):
    """Search for better training options before training; off with 0 trials."""

    trials: int = option(
        0, "short trainings, each with drawn options; the best one's are trained with", ge=0
    )
    steps: int = option(1000, "training.steps of a trial", "steps", ge=1, lt=2**31)
    seed: int = option(0, "seed of the draws", ge=0, lt=2**31)
    penalty_weight: Range | None = option(
        (1.0, 100.0),
        "[low, high] of training.penalty.weight, on a log scale; null: not searched, nor where "
        "weights are clipped instead",
    )
    generator_learning_rate: Range | None = option(
        (2e-5, 2e-3),
        "[low, high] of training.optimizer.generator_learning_rate, on a log scale; "
        "null: not searched",
    )
    critic_learning_rate: Range | None = option(
        (2e-5, 2e-3),
        "[low, high] of training.optimizer.critic_learning_rate, on a log scale; "
        "null: not searched",
    )
    critic_steps: Annotated[tuple[CriticSteps, ...], Field(strict=False, min_length=1)] | None = (
        option(None, "list of values of training.critic_steps to choose from; null: not searched")
    )

    @model_validator(mode="after")
    def _searches(self) -> TuningOptions:
        ranges = (
            self.penalty_weight,
            self.generator_learning_rate,
            self.critic_learning_rate,
            self.critic_steps,
        )
        if self.trials and not any(ranges):
            raise ValueError(
                f"tuning.trials: got {self.trials} with nothing to search; allowed: 0, or a range "
                "for tuning.penalty_weight, generator_learning_rate, critic_learning_rate or "
                "critic_steps"
            )
        return self


class TunerResult(NamedTuple):
    """What TFX's Tuner wants: its `TunerFnResult`, by duck type.

    Attributes:
      tuner: a KerasTuner tuner.
      fit_kwargs: more arguments of its `search`.
    """

    tuner: Any
    fit_kwargs: dict[str, Any]


def tuner_fn(fn_args: Any) -> TunerResult:
    """TFX's door into the search.

    Args:
      fn_args: `tfx.components.FnArgs`, read as by `entrypoint.run_fn`; `custom_config` also holds
        `tuning`, JSON of `TuningOptions`, and `source`, which changes when this code does.

    Raises:
      TrainerError: the custom configuration is wrong; one line.
    """
    from trainer import trials

    return TunerResult(trials.search(fn_args), {})
