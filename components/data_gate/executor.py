"""Glue between TFX and `rules`: reads what upstream nodes found, refuses or approves."""

from __future__ import annotations

import json
import os
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils

from components.data_gate import rules
from components.pinned_schema_gen import schema as schema_file
from components.pinned_schema_gen.executor import SCHEMA_FILE, read_statistics

APPROVAL_FILE = "approval.json"


def _read_anomalies(artifact: types.Artifact) -> dict[str, anomalies_pb2.Anomalies]:
    found = {}
    for split in artifact_utils.decode_split_names(artifact.split_names):
        folder = artifact_utils.get_split_uri([artifact], split)
        with fileio.open(os.path.join(folder, "SchemaDiff.pb"), "rb") as file:
            found[split] = anomalies_pb2.Anomalies.FromString(file.read())
    return found


class Executor(base_executor.BaseExecutor):
    """Approves the data and pins its schema, or raises `rules.DataRefused`."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See the base class."""
        one = {key: artifact_utils.get_single_instance(value) for key, value in input_dict.items()}
        examples = {
            split: int(sum(dataset.num_examples for dataset in statistics.datasets))
            for split, statistics in read_statistics(one["statistics"]).items()
        }
        quarantined = one["quarantine"].get_int_custom_property("quarantined")
        schema = schema_file.read(os.path.join(one["schema"].uri, SCHEMA_FILE))
        labelled = any(feature.name == schema_file.LABEL for feature in schema.feature)
        rules.refuse(
            rules.problems(
                examples=examples,
                anomalies=_read_anomalies(one["anomalies"]),
                quarantined=quarantined,
                max_quarantined_fraction=exec_properties["max_quarantined_fraction"],
                lacks_labels=bool(exec_properties["needs_labels"]) and not labelled,
            )
        )
        pin_path = exec_properties.get("pin_path")
        if pin_path and not fileio.exists(pin_path):
            schema_file.pin(pin_path, schema)
        output = artifact_utils.get_single_uri(output_dict["approval"])
        with fileio.open(os.path.join(output, APPROVAL_FILE), "w") as file:
            file.write(json.dumps({"examples": examples, "quarantined": quarantined}))
