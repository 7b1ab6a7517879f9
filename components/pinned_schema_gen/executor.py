"""Glue between TFX and `schema`: gives out the pinned schema, or infers it."""

from __future__ import annotations

import os
from typing import Any

import tensorflow_data_validation as tfdv
from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils

from components.pinned_schema_gen import schema

SCHEMA_FILE = "schema.pbtxt"


def read_statistics(artifact: types.Artifact) -> dict[str, Any]:
    """Split name to TFDV statistics, of an ExampleStatistics artifact."""
    found = {}
    for split in artifact_utils.decode_split_names(artifact.split_names):
        folder = artifact_utils.get_split_uri([artifact], split)
        found[split] = tfdv.load_stats_binary(os.path.join(folder, "FeatureStats.pb"))
    return found


class Executor(base_executor.BaseExecutor):
    """Publishes the schema at `path`, or one inferred from the statistics if there is none."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See the base class."""
        path = exec_properties["path"]
        if exec_properties["given"] or fileio.exists(path):
            found = schema.read(path)
        else:
            statistics = artifact_utils.get_single_instance(input_dict["statistics"])
            found = schema.infer(read_statistics(statistics))
        output = artifact_utils.get_single_uri(output_dict["schema"])
        schema.write(os.path.join(output, SCHEMA_FILE), found)
