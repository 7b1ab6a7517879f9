"""Tells TFX's cache what is served now."""

from __future__ import annotations

from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types_utils, metadata
from tfx.orchestration.portable import base_driver as portable_base_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2

from components.served_model.fingerprint import NOTHING, model_fingerprint, served_version


class Driver(base_driver.BaseDriver, portable_base_driver.BaseDriver):
    """Puts version and fingerprint of what is served into the node's parameters.

    A driver runs before TFX looks for a cached execution, and the parameters are in the key.
    """

    def __init__(self, metadata_handle: metadata.Metadata):
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_base_driver.BaseDriver.__init__(self, metadata_handle)

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Returns the parameters that have changed."""
        served = served_version(execution_info.exec_properties["push_destination"])
        found = {
            "fingerprint": model_fingerprint(served.path) if served else NOTHING,
            "version": served.version if served else 0,
        }
        output = driver_output_pb2.DriverOutput()
        # The launcher keeps what is not mentioned, and the cache key is made of the result.
        for name, value in found.items():
            data_types_utils.set_metadata_value(output.exec_properties[name], value)
        return output
