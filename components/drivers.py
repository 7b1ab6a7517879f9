"""Drivers: what runs before TFX looks for a cached execution."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any

from tfx import types
from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types_utils, metadata
from tfx.orchestration.portable import base_driver as portable_base_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2


class ParameterDriver(base_driver.BaseDriver, portable_base_driver.BaseDriver, abc.ABC):
    """Fills in parameters that say what is outside of TFX's sight: they are in the cache key.

    Two base classes, because components ask for the one and the launcher for the other.
    """

    def __init__(self, metadata_handle: metadata.Metadata):
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_base_driver.BaseDriver.__init__(self, metadata_handle)

    @abc.abstractmethod
    def parameters(
        self, inputs: Mapping[str, list[types.Artifact]], given: Mapping[str, Any]
    ) -> dict[str, str | int]:
        """Looks at the world.

        Args:
          inputs: the node's input artifacts.
          given: the node's parameters as the pipeline has them.

        Returns:
          The parameters that change.
        """

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """What the launcher calls; it keeps the parameters that are not mentioned."""
        output = driver_output_pb2.DriverOutput()
        found = self.parameters(execution_info.input_dict, execution_info.exec_properties)
        for name, value in found.items():
            data_types_utils.set_metadata_value(output.exec_properties[name], value)
        return output
