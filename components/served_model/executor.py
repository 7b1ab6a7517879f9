"""Copies what is served into an artifact."""

from __future__ import annotations

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils

from components.served_model.fingerprint import NOTHING, model_fingerprint, served_version


class Executor(base_executor.BaseExecutor):
    """Reads the destination itself, so that it is right where no driver ran before it."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Copies the served version, if there is one, and describes it."""
        model = artifact_utils.get_single_instance(output_dict["model"])
        served = served_version(exec_properties["push_destination"])
        fingerprint = NOTHING
        if served:
            copy = path_utils.serving_model_path(model.uri)
            io_utils.copy_dir(served.path, copy)
            fingerprint = model_fingerprint(copy)
        model.set_int_custom_property("served", int(bool(served)))
        model.set_int_custom_property("version", served.version if served else 0)
        model.set_string_custom_property("fingerprint", fingerprint)
