"""Keeps TFX's cache from standing in for a push."""

from __future__ import annotations

import uuid

from tfx.dsl.components.base import base_driver
from tfx.orchestration import data_types_utils, metadata
from tfx.orchestration.portable import base_driver as portable_base_driver
from tfx.orchestration.portable import data_types
from tfx.proto.orchestration import driver_output_pb2
from tfx.types import artifact_utils
from tfx.utils import path_utils

from components.served_model.fingerprint import model_fingerprint, served_version


class Driver(base_driver.BaseDriver, portable_base_driver.BaseDriver):
    """Lets the cache be used only while the candidate is what is served.

    To push is an effect, not a value: that it was done before says nothing about what is served
    now. Otherwise the parameter is one that no execution had.
    """

    def __init__(self, metadata_handle: metadata.Metadata):
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_base_driver.BaseDriver.__init__(self, metadata_handle)

    def run(self, execution_info: data_types.ExecutionInfo) -> driver_output_pb2.DriverOutput:
        """Returns the parameter `served`: version and fingerprint, or something unique."""
        candidate = artifact_utils.get_single_instance(execution_info.input_dict["model"])
        served = served_version(execution_info.exec_properties["push_destination"])
        state = f"not yet: {uuid.uuid4()}"
        if served:
            fingerprint = model_fingerprint(served.path)
            if fingerprint == model_fingerprint(path_utils.serving_model_path(candidate.uri)):
                state = f"{served.version}: {fingerprint}"
        output = driver_output_pb2.DriverOutput()
        data_types_utils.set_metadata_value(output.exec_properties["served"], state)
        return output
