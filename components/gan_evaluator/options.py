"""How a model is measured and what it must reach; crosses TFX as JSON."""

from __future__ import annotations

from trainer.options import ExtractorOptions, Options, Real, option


class GateOptions(Options):
    """What the Evaluator needs to know beside TFMA's EvalConfig."""

    image_size: int = option(..., "height and width of an image", "pixels", ge=8)
    channels: int = option(..., "1: grey, 3: colour")
    extractor: ExtractorOptions = ExtractorOptions()
    seed: int = option(0, "seed of the latents that samples are drawn from", ge=0)
    split: str = option("eval", "split of the examples that holds the real images")
    max_relative_frechet_distance: Real = option(
        ..., "absolute bound: Frechet distance over the trace of the real covariance", gt=0.0
    )
    max_frechet_increase: Real = option(
        ..., "tolerated relative increase of the Frechet distance over the served model's", ge=0.0
    )
