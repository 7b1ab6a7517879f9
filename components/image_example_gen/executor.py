"""The work of ImageExampleGen under Beam.

Beam's cost is by the element, so that an element is a chunk of some hundred images: it is read,
checked and written inside.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
from tfx import types
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor
from tfx.dsl.io import fileio
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import proto_utils

from components.image_example_gen import driver, sources, writing
from components.image_example_gen.chunks import Chunk

QUARANTINE_FILE = "quarantine.jsonl"
_COUNTS_FILE = "counts.json"


class Executor(base_beam_executor.BaseBeamExecutor):
    """Writes examples and the list of what could not become one."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Reads the source and fills both outputs.

        Raises:
          SourceError: where the source cannot be read, or not one image of it.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        quarantine = artifact_utils.get_single_instance(output_dict["quarantine"])
        given = _given(exec_properties)
        source = sources.open_source(given, exec_properties["input_format"])
        temporary = os.path.join(examples.uri, "temporary")
        for folder in (temporary, *(_split_folder(examples.uri, s) for s in writing.SPLITS)):
            fileio.makedirs(folder)

        work = _plan(source.chunks, examples.uri, temporary, exec_properties["eval_fraction"])
        with self._make_beam_pipeline() as pipeline:
            _ = (
                pipeline
                | "Chunks" >> beam.Create(work)
                | "Spread" >> beam.Reshuffle()
                | "WriteExamples" >> beam.MapTuple(writing.write_chunk)
                | "Merge" >> beam.CombineGlobally(writing.Outcome.merged)
                | "WriteQuarantine" >> beam.Map(_write_outcome, quarantine.uri)
            )

        fileio.rmtree(temporary)
        accepted, quarantined = _counts(quarantine.uri, given)
        quarantine.set_int_custom_property("accepted", accepted)
        quarantine.set_int_custom_property("quarantined", quarantined)
        quarantine.set_int_custom_property("ignored", source.ignored)
        examples.split_names = artifact_utils.encode_split_names(list(writing.SPLITS))
        examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
        examples_utils.set_file_format(examples, "tfrecords_gzip")


def _given(exec_properties: dict[str, Any]) -> str:
    """The input; the driver has filled its placeholders in."""
    input_config = example_gen_pb2.Input()
    proto_utils.json_to_proto(
        exec_properties[standard_component_specs.INPUT_CONFIG_KEY], input_config
    )
    base = exec_properties[standard_component_specs.INPUT_BASE_KEY]
    return driver.join(base, input_config.splits[0].pattern)


def _split_folder(uri: str, split: str) -> str:
    return os.path.join(uri, f"Split-{split}")


def _plan(
    chunks: Sequence[Chunk], uri: str, temporary: str, eval_fraction: float
) -> list[tuple[Chunk, writing.Shards]]:
    """Gives each chunk its place among the shards of each split it writes to."""
    members = {
        split: [i for i, chunk in enumerate(chunks) if chunk.split in (split, None)]
        for split in writing.SPLITS
    }
    files: list[dict[str, str]] = [{} for _ in chunks]
    for split, indices in members.items():
        for shard, index in enumerate(indices):
            name = f"data_tfrecord-{shard:05}-of-{len(indices):05}.gz"
            files[index][split] = os.path.join(_split_folder(uri, split), name)
    return [
        (chunk, writing.Shards(paths, temporary, eval_fraction))
        for chunk, paths in zip(chunks, files, strict=True)
    ]


def _write_outcome(outcome: writing.Outcome, uri: str) -> None:
    """Writes the list of rejected images, and the counts for the process that started Beam."""
    with fileio.open(os.path.join(uri, QUARANTINE_FILE), "w") as file:
        file.write("".join(json.dumps(item) + "\n" for item in outcome.quarantined))
    with fileio.open(os.path.join(uri, _COUNTS_FILE), "w") as file:
        file.write(json.dumps(outcome.accepted))


def _counts(uri: str, given: str) -> tuple[int, int]:
    """Numbers of accepted and of rejected images; the latter are in a file of their own."""
    path = os.path.join(uri, _COUNTS_FILE)
    with fileio.open(path, "r") as file:
        accepted = sum(json.loads(file.read()).values())
    fileio.remove(path)
    with fileio.open(os.path.join(uri, QUARANTINE_FILE), "r") as file:
        rejected = file.read().splitlines()
    if not accepted:
        first = json.loads(rejected[0]) if rejected else {"path": "", "reason": "no records"}
        raise sources.SourceError(
            f"data.input {given}: not one of {len(rejected)} images can be read; the first, "
            f"{first['path']}: {first['reason']}"
        )
    return accepted, len(rejected)
