"""The node `GanEvaluator`: its specification."""

from __future__ import annotations

import tensorflow_model_analysis as tfma
from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import component_spec, standard_artifacts

from components.gan_evaluator import executor
from components.gan_evaluator.options import GateOptions
from components.provenance import source_hash


class GanEvaluatorSpec(component_spec.ComponentSpec):
    """What goes into the node and what comes out."""

    PARAMETERS = {
        "eval_config": component_spec.ExecutionParameter(type=tfma.EvalConfig),
        "options": component_spec.ExecutionParameter(type=str),
        "source": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "baseline_model": component_spec.ChannelParameter(type=standard_artifacts.Model),
    }
    OUTPUTS = {
        "evaluation": component_spec.ChannelParameter(type=standard_artifacts.ModelEvaluation),
        "blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
    }


class GanEvaluator(base_beam_component.BaseBeamComponent):
    """Measures a generator against real images and against the one that is served.

    Outputs:
      evaluation: a ModelEvaluation as TFMA writes it, with `verdict.json` in its folder.
      blessing: a ModelBlessing.
    """

    SPEC_CLASS = GanEvaluatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        examples: types.BaseChannel,
        model: types.BaseChannel,
        baseline_model: types.BaseChannel,
        eval_config: tfma.EvalConfig,
        options: GateOptions,
    ):
        """Builds the node.

        Args:
          examples: transformed examples.
          model: the candidate.
          baseline_model: what is served, as ServedModel gives it; may hold no model.
          eval_config: TFMA's configuration: metrics and slices, for candidate and baseline.
          options: how to measure, and the bounds.
        """
        super().__init__(
            GanEvaluatorSpec(
                examples=examples,
                model=model,
                baseline_model=baseline_model,
                eval_config=eval_config,
                options=options.model_dump_json(),
                source=source_hash("components.gan_evaluator"),
                evaluation=types.Channel(type=standard_artifacts.ModelEvaluation),
                blessing=types.Channel(type=standard_artifacts.ModelBlessing),
            )
        )
