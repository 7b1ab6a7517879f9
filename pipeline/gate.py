"""What is measured, on which slices: TFMA's EvalConfig, and the options of our Evaluator.

The rules are not TFMA's thresholds, which know nothing of errors and cannot say "not worse than
the served model by more than a share of it": the Evaluator decides once the metrics are in.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pipeline.config import Config
from pipeline.pinning import pinned

if TYPE_CHECKING:
    import tensorflow_model_analysis as tfma

    from components.gan_evaluator.options import GateOptions

#: The module that registers the metrics.
_MODULE = "components.gan_evaluator.metrics"

#: Metrics by class name; some give several of the catalogue's.
METRICS = (
    "ImageCount",
    "RelativeFrechetDistance",
    "FrechetDistance",
    "KernelDistance",
    "PrecisionRecall",
    "DensityCoverage",
    "SlicedWassersteinDistance",
    "Memorisation",
    "Diversity",
)


def eval_config(config: Config) -> tfma.EvalConfig:
    """TFMA's configuration for candidate and served model.

    Overall, and by class unless the model is told to ignore classes. The Evaluator leaves out
    what a run does not have: a served model, or labels.
    """
    import tensorflow_model_analysis as tfma  # seconds: only when a pipeline is built

    slices = [tfma.SlicingSpec()]
    if config.model.conditional is not False:
        slices.append(tfma.SlicingSpec(feature_keys=["label"]))
    sizes = json.dumps({"sampled_images": config.evaluation.sampled_images})
    return tfma.EvalConfig(
        model_specs=[
            tfma.ModelSpec(name=tfma.CANDIDATE_KEY),
            tfma.ModelSpec(name=tfma.BASELINE_KEY, is_baseline=True),
        ],
        slicing_specs=slices,
        metrics_specs=[
            tfma.MetricsSpec(
                metrics=[
                    tfma.MetricConfig(class_name=name, module=_MODULE, config=sizes)
                    for name in METRICS
                ]
            )
        ],
    )


def gate_options(config: Config) -> GateOptions:
    """How to measure, and the rules."""
    from components.gan_evaluator.options import GateOptions

    return GateOptions(
        **dict(config.evaluation) | {"extractor": pinned(config.evaluation.extractor)},
        image_size=config.data.image_size,
        channels=config.data.channels,
    )
