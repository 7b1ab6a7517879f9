"""The node `ServedModel`: its specification."""

from __future__ import annotations

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration import data_types
from tfx.types import component_spec, standard_artifacts

from components.provenance import source_hash
from components.served_model import driver, executor
from components.served_model.fingerprint import NOTHING


class ServedModelSpec(component_spec.ComponentSpec):
    """What goes into the node and what comes out."""

    PARAMETERS = {
        "push_destination": component_spec.ExecutionParameter(type=str),
        "fingerprint": component_spec.ExecutionParameter(type=str),
        "version": component_spec.ExecutionParameter(type=int),
        "source": component_spec.ExecutionParameter(type=str),
    }
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS = {
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
    }


class ServedModel(base_component.BaseComponent):
    """Copies the model that the push destination serves now into an artifact.

    What was blessed or pushed last need not be served: somebody may have rolled back. So the
    destination itself is read, and the node runs anew exactly when what it finds has changed.

    Outputs:
      model: a Model with the custom properties `served` (1, or 0 for an artifact without files,
        when nothing is served), `version` and `fingerprint`.
    """

    SPEC_CLASS = ServedModelSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)
    DRIVER_CLASS = driver.Driver

    def __init__(self, push_destination: str | data_types.RuntimeParameter):
        """Builds the node.

        Args:
          push_destination: folder of versioned SavedModels, as TensorFlow Serving reads it.
        """
        super().__init__(
            ServedModelSpec(
                push_destination=push_destination,
                # The driver fills these two in before the cache is asked.
                fingerprint=NOTHING,
                version=0,
                source=source_hash("components.served_model"),
                model=types.Channel(type=standard_artifacts.Model),
            )
        )
