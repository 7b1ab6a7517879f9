"""ImageExampleGen: images, whatever they come as, to examples."""

from __future__ import annotations

from tfx import types
from tfx.components.example_gen.component import FileBasedExampleGen
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.proto import example_gen_pb2
from tfx.types import artifact, component_spec, standard_component_specs

from components.image_example_gen import driver, executor, sources, spans
from components.provenance import source_hash


class Quarantine(artifact.Artifact):
    """Images that could not become examples.

    `quarantine.jsonl` has a line `{"path", "reason"}` for each. Custom properties, all integers:
    `quarantined` and `accepted` (images), `ignored` (files that are no images by their name).
    """

    TYPE_NAME = "Quarantine"


class ImageExampleGenSpec(component_spec.ComponentSpec):
    """That of TFX's FileBasedExampleGen, and ours."""

    PARAMETERS = {
        **standard_component_specs.FileBasedExampleGenSpec.PARAMETERS,
        "input_format": component_spec.ExecutionParameter(type=str),
        "eval_fraction": component_spec.ExecutionParameter(type=float),
        "source": component_spec.ExecutionParameter(type=str),
    }
    INPUTS: dict[str, component_spec.ChannelParameter] = {}
    OUTPUTS = {
        **standard_component_specs.FileBasedExampleGenSpec.OUTPUTS,
        "quarantine": component_spec.ChannelParameter(type=Quarantine),
    }


class ImageExampleGen(FileBasedExampleGen):
    """Reads images from folders, IDX files, TFRecords or scikit-learn.

    Outputs:
      examples: Examples with the splits `train` and `eval`, gzipped TFRecords of tf.Example:
        `image` (PNG or JPEG, 8 bits, grey or RGB), `height`, `width`, `channels`, `format`,
        `path`, `example_id`, and `label` where the source has one.
      quarantine: Quarantine, naming each image that could not be read, and why.
    """

    SPEC_CLASS = ImageExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)
    DRIVER_CLASS = driver.Driver

    def __init__(self, input: str, format: str = "auto", eval_fraction: float = 0.2):
        """Builds the node; the input is looked at when it runs.

        Args:
          input: `data.input`: a folder, a TFRecord file, either with `{SPAN}`, or `digits`.
          format: `data.format`: `auto`, `images`, `idx`, `tfrecord` or `digits`.
          eval_fraction: share of the images held out where the input has no splits, 0 to 1.
        """
        base, pattern = spans.split_pattern(sources.absolute(input))
        spec = ImageExampleGenSpec(
            input_base=base,
            input_config=example_gen_pb2.Input(
                splits=[example_gen_pb2.Input.Split(name="all", pattern=pattern)]
            ),
            output_config=example_gen_pb2.Output(),
            output_data_format=example_gen_pb2.FORMAT_TF_EXAMPLE,
            output_file_format=example_gen_pb2.FORMAT_TFRECORDS_GZIP,
            input_format=format,
            eval_fraction=eval_fraction,
            source=source_hash("components.image_example_gen"),
            examples=types.Channel(type=types.standard_artifacts.Examples),
            quarantine=types.Channel(type=Quarantine),
        )
        # The constructor of FileBasedExampleGen would build a specification without ours.
        base_beam_component.BaseBeamComponent.__init__(self, spec=spec)
