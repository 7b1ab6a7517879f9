"""What is measured, on which slices: TFMA's EvalConfig, and the options of our Evaluator.

The bounds are not TFMA's thresholds, which cannot say "not worse than the served model by more
than a share of it": the Evaluator decides once the metrics are in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.config import Config

if TYPE_CHECKING:
    import tensorflow_model_analysis as tfma

    from components.gan_evaluator.options import GateOptions

#: Metrics by class name, and the module that registers them; '' is TFMA's own.
METRICS = {
    "ExampleCount": "",
    "FrechetDistance": "components.gan_evaluator.metrics",
    "RelativeFrechetDistance": "components.gan_evaluator.metrics",
}


def eval_config(config: Config) -> tfma.EvalConfig:
    """TFMA's configuration for candidate and served model.

    Overall, and by class unless the model is told to ignore classes. The Evaluator leaves out
    what a run does not have: a served model, or labels.
    """
    import tensorflow_model_analysis as tfma  # seconds: only when a pipeline is built

    slices = [tfma.SlicingSpec()]
    if config.model.conditional is not False:
        slices.append(tfma.SlicingSpec(feature_keys=["label"]))
    return tfma.EvalConfig(
        model_specs=[
            tfma.ModelSpec(name=tfma.CANDIDATE_KEY),
            tfma.ModelSpec(name=tfma.BASELINE_KEY, is_baseline=True),
        ],
        slicing_specs=slices,
        metrics_specs=[
            tfma.MetricsSpec(
                metrics=[
                    tfma.MetricConfig(class_name=name, module=module)
                    for name, module in METRICS.items()
                ]
            )
        ],
    )


def gate_options(config: Config) -> GateOptions:
    """How to measure, and the bounds."""
    from components.gan_evaluator.options import GateOptions

    return GateOptions(
        **dict(config.evaluation),
        image_size=config.data.image_size,
        channels=config.data.channels,
    )
