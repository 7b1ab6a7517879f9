"""The node `Pusher`: its specification."""

from __future__ import annotations

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration import data_types
from tfx.types import component_spec, standard_artifacts

from components.provenance import source_hash
from components.pusher import driver, executor


class PusherSpec(component_spec.ComponentSpec):
    """What goes into the node and what comes out. Both blessings are required."""

    PARAMETERS = {
        "push_destination": component_spec.ExecutionParameter(type=str),
        "served": component_spec.ExecutionParameter(type=str),
        "source": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "model_blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing),
        "infra_blessing": component_spec.ChannelParameter(type=standard_artifacts.InfraBlessing),
    }
    OUTPUTS = {
        "pushed_model": component_spec.ChannelParameter(type=standard_artifacts.PushedModel),
    }


class Pusher(base_component.BaseComponent):
    """Copies a model with both blessings into a new version folder, in one step.

    Outputs:
      pushed_model: a PushedModel with the custom properties `pushed` (1: the model is served at
        `pushed_destination` as `pushed_version`; 0: it is not) and `copied` (0 when it was
        served there before, or is not pushed).
    """

    SPEC_CLASS = PusherSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)
    DRIVER_CLASS = driver.Driver

    def __init__(
        self,
        model: types.BaseChannel,
        model_blessing: types.BaseChannel,
        infra_blessing: types.BaseChannel,
        push_destination: str | data_types.RuntimeParameter,
    ):
        """Builds the node.

        Args:
          model: the candidate.
          model_blessing: the Evaluator's.
          infra_blessing: the ServingValidator's.
          push_destination: folder of versioned SavedModels, as TensorFlow Serving reads it.
        """
        super().__init__(
            PusherSpec(
                model=model,
                model_blessing=model_blessing,
                infra_blessing=infra_blessing,
                push_destination=push_destination,
                served="",  # the driver fills this in before the cache is asked
                source=source_hash("components.pusher"),
                pushed_model=types.Channel(type=standard_artifacts.PushedModel),
            )
        )
