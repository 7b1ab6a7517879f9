"""The pipeline as a picture: every node, and what flows where."""

from __future__ import annotations

from typing import Any

from tfx import v1 as tfx

from components.data_gate.component import DataGate
from components.gan_evaluator.component import GanEvaluator
from components.image_example_gen.component import ImageExampleGen
from components.image_example_gen.statistics import statistics_options
from components.pinned_schema_gen.component import PinnedSchemaGen
from components.provenance import source_hash
from components.pusher.component import Pusher
from components.served_model.component import ServedModel
from components.serving_validator.component import ServingValidator
from pipeline import gate
from pipeline.config import Config
from pipeline.pinning import pinned
from trainer.options import SERVED, TrainingJob

#: Beam runs in this process: at laptop sizes its workers cost more to start than they save.
_LOCAL_BEAM_ARGS = ["--runner=DirectRunner", "--direct_running_mode=in_memory"]


def create_pipeline(config: Config) -> tfx.dsl.Pipeline:
    """Builds the pipeline: a pure function of the configuration and of the code.

    Args:
      config: validated options; `config.root` holds artifacts and metadata.

    Returns:
      A pipeline that `LocalDagRunner` runs.
    """
    root = config.root

    # Images, whatever they come as, to examples; what cannot be decoded is set aside and named.
    example_gen = ImageExampleGen(
        input=config.data.input,
        format=config.data.format,
        eval_fraction=config.data.eval_fraction,
    )
    examples = example_gen.outputs["examples"]

    # What is in the data, and whether it is what the first accepted data (or the user) said.
    statistics_gen = tfx.components.StatisticsGen(
        examples=examples, stats_options=statistics_options()
    )
    schema_gen = PinnedSchemaGen(
        statistics=statistics_gen.outputs["statistics"],
        path=config.schema_path,
        given=config.data.schema_file is not None,
    )
    example_validator = tfx.components.ExampleValidator(
        statistics=statistics_gen.outputs["statistics"], schema=schema_gen.outputs["schema"]
    )
    data_gate = DataGate(
        statistics=statistics_gen.outputs["statistics"],
        schema=schema_gen.outputs["schema"],
        anomalies=example_validator.outputs["anomalies"],
        quarantine=example_gen.outputs["quarantine"],
        max_quarantined_fraction=config.data.max_quarantined_fraction,
        needs_labels=config.model.conditional is True,
        pin_path=None if config.data.schema_file else config.schema_path,
    )

    # Encoded images to uint8 pixels of one size, label names to class ids.
    transform = tfx.components.Transform(
        examples=examples,
        schema=schema_gen.outputs["schema"],
        preprocessing_fn="components.transform.preprocessing.preprocessing_fn",
        disable_statistics=True,
        custom_config={
            "image_size": config.data.image_size,
            "channels": config.data.channels,
            "source": source_hash("components.transform"),
        },
    )
    transform.add_upstream_node(data_gate)

    # What training begins with, and with which options, where that is not simply configured.
    warm_start = _warm_start(config, transform)
    base_model = warm_start.outputs["model"] if warm_start else None
    tuner = _tuner(config, transform, base_model)

    # WGAN-GP under tf.distribute, in a process of its own.
    trainer = tfx.components.Trainer(
        run_fn="trainer.run_fn",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        base_model=base_model,
        hyperparameters=tuner.outputs["best_hyperparameters"] if tuner else None,
        train_args=tfx.proto.TrainArgs(splits=["train"], num_steps=config.training.steps),
        eval_args=tfx.proto.EvalArgs(splits=["eval"]),
        custom_config={
            "job": _training_job(config),
            # What its two processes run; how models are sampled or judged later is not of it.
            "source": source_hash("trainer.entrypoint", "trainer.process"),
        },
    )

    # The candidate against absolute bounds and against what is served now.
    served_model = ServedModel(push_destination=config.push_destination)
    served_model.add_upstream_node(trainer)  # read after a long training, not before it
    evaluator = GanEvaluator(
        examples=transform.outputs["transformed_examples"],
        model=trainer.outputs["model"],
        baseline_model=served_model.outputs["model"],
        eval_config=gate.eval_config(config),
        options=gate.gate_options(config),
    ).with_id("Evaluator")

    # The export must load and answer in a process that has none of this code.
    serving_validator = ServingValidator(
        model=trainer.outputs["model"],
        image_size=config.data.image_size,
        channels=config.data.channels,
    )

    # Served only with both blessings.
    pusher = Pusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        infra_blessing=serving_validator.outputs["blessing"],
        push_destination=config.push_destination,
    )

    return tfx.dsl.Pipeline(
        pipeline_name=config.runtime.pipeline_name,
        pipeline_root=str(root / "pipeline"),
        components=[
            example_gen,
            statistics_gen,
            schema_gen,
            example_validator,
            data_gate,
            transform,
            *filter(None, [warm_start, tuner]),
            trainer,
            served_model,
            evaluator,
            serving_validator,
            pusher,
        ],
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
            str(root / "metadata.sqlite")
        ),
        beam_pipeline_args=_LOCAL_BEAM_ARGS,
    )


def _warm_start(config: Config, transform: tfx.components.Transform) -> ServedModel | None:
    """What is served before training, if training is to begin with it."""
    if config.training.warm_start != SERVED:
        return None
    served = ServedModel(push_destination=config.push_destination).with_id("WarmStartModel")
    served.add_upstream_node(transform)  # read when training begins
    return served


def _tuner(
    config: Config, transform: tfx.components.Transform, base_model: Any
) -> tfx.components.Tuner | None:
    """The search for training options, if there is to be one."""
    if not config.tuning.trials:
        return None
    return tfx.components.Tuner(
        tuner_fn="trainer.tuning.tuner_fn",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        base_model=base_model,
        train_args=tfx.proto.TrainArgs(splits=["train"], num_steps=config.tuning.steps),
        eval_args=tfx.proto.EvalArgs(splits=["eval"]),
        custom_config={
            "job": _training_job(config),
            "tuning": config.tuning.model_dump_json(),
            "source": source_hash("trainer.tuning", "trainer.process"),
        },
    )


def _training_job(config: Config) -> str:
    """The part of a TrainingJob that is known before there is data, as JSON."""
    fields: dict[str, Any] = {
        "model": config.model,
        "training": config.training,
        "extractor": pinned(config.evaluation.extractor),
        "image_size": config.data.image_size,
        "channels": config.data.channels,
        "warm_start_dir": config.warm_start_path,
        "work_dir": str(config.root / "training"),
    }
    return TrainingJob.model_construct(**fields).model_dump_json(include=set(fields))
