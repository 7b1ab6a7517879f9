"""The node that hands out one schema for the life of a pipeline root."""

from __future__ import annotations

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import component_spec, standard_artifacts

from components.pinned_schema_gen import driver, executor
from components.provenance import source_hash


class PinnedSchemaGenSpec(component_spec.ComponentSpec):
    """What goes into and out of PinnedSchemaGen."""

    PARAMETERS = {
        "path": component_spec.ExecutionParameter(type=str),
        "given": component_spec.ExecutionParameter(type=int),
        "edited": component_spec.ExecutionParameter(type=str, optional=True),
        "source": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics)
    }
    OUTPUTS = {"schema": component_spec.ChannelParameter(type=standard_artifacts.Schema)}


class PinnedSchemaGen(base_component.BaseComponent):
    """SchemaGen, once: later data is held to the schema of the first data that was accepted.

    TFX's SchemaGen infers anew from whatever data comes, which makes ExampleValidator agree with
    everything. Here the schema is inferred only while none is pinned; DataGate pins it when it
    accepts the data. A pinned schema is an ordinary text file, meant to be edited.
    """

    SPEC_CLASS = PinnedSchemaGenSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)
    DRIVER_CLASS = driver.Driver

    def __init__(self, statistics: types.BaseChannel, path: str, given: bool = False):
        """Builds the node.

        Args:
          statistics: channel of ExampleStatistics.
          path: the pinned schema, in protobuf text format; it may not exist yet.
          given: the schema is the user's own: it must exist and is never written.
        """
        spec = PinnedSchemaGenSpec(
            statistics=statistics,
            path=path,
            given=int(given),
            source=source_hash("components.pinned_schema_gen"),
            schema=types.Channel(type=standard_artifacts.Schema),
        )
        super().__init__(spec=spec)
