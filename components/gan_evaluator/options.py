"""How a model is measured and what it must reach; crosses TFX as JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from trainer.options import ExtractorOptions, Options, Real, option
from trainer.quality import catalogue


class GateRule(Options):
    """What one metric must reach; null: not asked."""

    bound: Real | None = option(
        None, "the worst that is accepted: a maximum where lower is better, else a minimum"
    )
    tolerance: Real | None = option(
        None,
        "worsening against the served model that is tolerated, as a share of its value",
        ge=0.0,
    )
    class_bound: Real | None = option(None, "bound for each class")
    class_tolerance: Real | None = option(None, "tolerance for each class", ge=0.0)


def _rule(name: str, **defaults: float) -> Any:
    metric = catalogue.BY_NAME[name]
    return option(GateRule(**defaults), f"{metric.better} is better: {metric.meaning}")


class GateRules(Options):
    """What a candidate must reach, by metric."""

    # All defaults of the gate stand here; docs/metrics.md says where they are from.
    relative_frechet_distance: GateRule = _rule(
        "relative_frechet_distance", bound=0.5, tolerance=0.05, class_tolerance=0.25
    )
    frechet_distance: GateRule = _rule("frechet_distance")
    kernel_distance: GateRule = _rule("kernel_distance")
    precision: GateRule = _rule("precision")
    recall: GateRule = _rule("recall")
    density: GateRule = _rule("density")
    coverage: GateRule = _rule("coverage", bound=0.1, tolerance=0.1)
    sliced_wasserstein_distance: GateRule = _rule("sliced_wasserstein_distance")
    memorisation: GateRule = _rule("memorisation", bound=0.5)
    diversity: GateRule = _rule("diversity", bound=0.5)

    @model_validator(mode="before")
    @classmethod
    def _keep_other_defaults(cls, given: Any) -> Any:
        """Lets a rule that is given in part keep its other defaults."""
        if not isinstance(given, dict):
            return given
        merged = dict(given)
        for name, field in cls.model_fields.items():
            if isinstance(given.get(name), dict):
                merged[name] = {**field.default.model_dump(), **given[name]}
        return merged

    @model_validator(mode="after")
    def _asks_for_something(self) -> GateRules:
        if not any(value is not None for _, rule in self.items() for _, value in rule):
            raise ValueError(
                "evaluation.gate: every rule is null, so any model would pass; "
                "allowed: at least one number"
            )
        return self

    @model_validator(mode="after")
    def _bounds_can_be_reached(self) -> GateRules:
        for metric, rule in self.items():
            for key in ("bound", "class_bound"):
                bound = getattr(rule, key)
                if bound is None or metric.best is None:
                    continue
                if metric.worsening(bound - metric.best) < 0.0:
                    raise ValueError(
                        f"evaluation.gate.{metric.name}.{key}: got {bound:g}, which no model can "
                        f"reach; allowed: {metric.best:g} or "
                        f"{'more' if metric.better == 'lower' else 'less'}"
                    )
        return self

    def items(self) -> list[tuple[catalogue.Metric, GateRule]]:
        """Every metric with its rule, in the catalogue's order."""
        return [(metric, getattr(self, metric.name)) for metric in catalogue.METRICS]


class EvaluationOptions(Options):
    """When a model is good enough to be served."""

    extractor: ExtractorOptions = ExtractorOptions()
    gate: GateRules = GateRules()
    require: Literal["not_worse", "better"] = option(
        "not_worse",
        "of a candidate against the served model; better: also better by at least one metric "
        "that has a tolerance",
    )
    sampled_images: int = option(
        2_000,
        "held-out images, overall and of each class, for metrics that compare single images",
        "images",
        ge=20,
        le=10_000,  # pairs of them are compared: memory is some 40 bytes for each pair
    )
    training_images: int = option(
        10_000, "training images that samples are searched for copies of", "images", ge=1
    )
    seed: int = option(0, "seed of the latents that samples are drawn from", ge=0, lt=2**31)

    @model_validator(mode="after")
    def _can_be_better(self) -> EvaluationOptions:
        compared = any(rule.tolerance is not None for _, rule in self.gate.items())
        if self.require == "better" and not compared:
            raise ValueError(
                "evaluation.require: got 'better', but no metric of evaluation.gate has a "
                "tolerance, so none is compared; allowed: not_worse, or a tolerance"
            )
        return self


class GateOptions(EvaluationOptions):
    """What the Evaluator needs to know beside TFMA's EvalConfig."""

    image_size: int = option(..., "height and width of an image", "pixels", ge=8)
    channels: int = option(..., "1: grey, 3: colour")
    split: str = option("eval", "split of the examples that holds the real images")
