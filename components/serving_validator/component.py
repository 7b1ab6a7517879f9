"""The node `ServingValidator`: its specification."""

from __future__ import annotations

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import component_spec, standard_artifacts

from components.provenance import source_hash
from components.serving_validator import executor

#: Loading TensorFlow and a model takes seconds; a first call on a busy machine may take minutes.
DEFAULT_TIMEOUT_SECONDS = 600


class ServingValidatorSpec(component_spec.ComponentSpec):
    """What goes into the node and what comes out."""

    PARAMETERS = {
        "image_size": component_spec.ExecutionParameter(type=int),
        "channels": component_spec.ExecutionParameter(type=int),
        "timeout_seconds": component_spec.ExecutionParameter(type=int),
        "source": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
    }
    OUTPUTS = {
        "blessing": component_spec.ChannelParameter(type=standard_artifacts.InfraBlessing),
    }


class ServingValidator(base_component.BaseComponent):
    """Loads the exported model in a clean process and exercises every signature.

    Outputs:
      blessing: an InfraBlessing, with `report.json` in its folder: each check and what it found.
    """

    SPEC_CLASS = ServingValidatorSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        model: types.BaseChannel,
        image_size: int,
        channels: int,
        timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS,
    ):
        """Builds the node.

        Args:
          model: the candidate.
          image_size: height and width that its images must have, in pixels.
          channels: 1 (grey) or 3.
          timeout_seconds: after which a model that does not answer is refused.
        """
        super().__init__(
            ServingValidatorSpec(
                model=model,
                image_size=image_size,
                channels=channels,
                timeout_seconds=timeout_seconds,
                source=source_hash("components.serving_validator"),
                blessing=types.Channel(type=standard_artifacts.InfraBlessing),
            )
        )
