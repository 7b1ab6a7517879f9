"""Measures a candidate and the served model in one Beam pipeline, then decides."""

from __future__ import annotations

import os
from typing import Any

import tensorflow_model_analysis as tfma
from absl import logging
from tfx import types
from tfx.components.evaluator import constants
from tfx.dsl.components.base import base_beam_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils, proto_utils

from components.gan_evaluator import dataflow, results, training
from components.gan_evaluator.examples import split_files
from components.gan_evaluator.generator import Generator, ModelError, ModelTraits
from components.gan_evaluator.options import GateOptions
from components.gan_evaluator.verdict import ExtractorIdentity, Verdict, decide
from components.served_model.fingerprint import SAVED_MODEL_FILE, model_fingerprint
from trainer.quality import extractors


class Executor(base_beam_executor.BaseBeamExecutor):
    """Decode, measure, decide, write: each in a module of its own."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Evaluates the candidate and publishes metrics, verdict and blessing."""
        options = GateOptions.model_validate_json(exec_properties["options"])
        eval_config = tfma.EvalConfig()
        proto_utils.json_to_proto(exec_properties["eval_config"], eval_config)
        model = artifact_utils.get_single_instance(input_dict["model"])
        baseline = artifact_utils.get_single_instance(input_dict["baseline_model"])
        evaluation = artifact_utils.get_single_instance(output_dict["evaluation"])
        blessing = artifact_utils.get_single_instance(output_dict["blessing"])

        comparison = _Comparison(_model_dir(model), _model_dir(baseline), options)
        eval_config = comparison.applicable(eval_config)
        with self._make_beam_pipeline() as pipeline:
            dataflow.measure(
                pipeline,
                held_out_files=split_files(input_dict["examples"], options.split),
                training_files=split_files(input_dict["examples"], training.SPLIT),
                model_dirs=comparison.model_dirs,
                options=options,
                eval_config=eval_config,
                writers=results.writers_for(evaluation.uri, eval_config, comparison.model_dirs),
                output_dir=evaluation.uri,
            )
        verdict = comparison.verdict(evaluation.uri)
        results.write_verdict(evaluation.uri, verdict, comparison.class_names)
        results.describe_artifact(evaluation, verdict)
        _write_blessing(blessing, verdict.blessed, model, baseline)
        logging.info("%s", verdict.reason)


class _Comparison:
    """A candidate, what is served beside it, and what may be said of the two."""

    def __init__(self, candidate_dir: str, served_dir: str, options: GateOptions):
        self._options = options
        extractor = extractors.create(options.extractor)
        self._extractor = ExtractorIdentity(extractor.name, extractor.sha256, extractor.dimension)
        self._candidate = Generator(candidate_dir).traits
        wanted = (options.image_size, options.image_size, options.channels)
        if self._candidate.image_shape != wanted:
            raise ModelError(
                f"model {candidate_dir}: makes images of {list(self._candidate.image_shape)}, but "
                f"the held-out ones are {list(wanted)}; train it on images of that size"
            )
        self._served: ModelTraits | None = None
        self._is_served = False
        self._incomparable: str | None = None
        self.model_dirs = {"": candidate_dir}
        if not fileio.exists(os.path.join(served_dir, SAVED_MODEL_FILE)):
            return
        self._is_served = model_fingerprint(served_dir) == model_fingerprint(candidate_dir)
        try:
            served = Generator(served_dir).traits
        except ModelError as error:
            self._incomparable = (
                f"the served model cannot be compared with: {error}; "
                "remove that version from the push destination"
            )
            return
        if served.image_shape != self._candidate.image_shape:
            self._incomparable = (
                f"the served model makes images of {list(served.image_shape)}, this one of "
                f"{list(self._candidate.image_shape)}: not comparable, push to another destination"
            )
            return
        self._served = served
        self.model_dirs = {tfma.CANDIDATE_KEY: candidate_dir, tfma.BASELINE_KEY: served_dir}

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names by class id, as the candidate and the data have them."""
        return self._candidate.class_names

    def applicable(self, eval_config: tfma.EvalConfig) -> tfma.EvalConfig:
        """TFMA's configuration without what is not there: a baseline, or classes."""
        config = tfma.utils.update_eval_config_with_defaults(
            eval_config, has_baseline=self._served is not None
        )
        if not self._candidate.conditional:
            # Which images a model makes for a class says nothing if it is not told the class.
            kept = [spec for spec in config.slicing_specs if not spec.feature_keys]
            del config.slicing_specs[:]
            config.slicing_specs.extend(kept)
        return config

    def verdict(self, output_dir: str) -> Verdict:
        """Reads what TFMA wrote and decides."""
        candidate_name = "" if self._served is None else tfma.CANDIDATE_KEY
        metrics = {}
        for name, traits in ((candidate_name, self._candidate), (tfma.BASELINE_KEY, self._served)):
            if traits is not None:
                classes = self.class_names if traits.conditional else ()
                metrics[name] = results.read_metrics(
                    output_dir, name, classes, self._extractor, self._options.split
                )
        return decide(
            metrics[candidate_name],
            metrics.get(tfma.BASELINE_KEY),
            self._options.gate,
            self._options.require,
            is_served_already=self._is_served,
            incomparable=self._incomparable,
        )


def _model_dir(model: types.Artifact) -> str:
    return path_utils.serving_model_path(model.uri)


def _write_blessing(
    blessing: types.Artifact, blessed: bool, model: types.Artifact, baseline: types.Artifact
) -> None:
    """As TFX's Evaluator does it, for all who look for its blessing."""
    name = constants.BLESSED_FILE_NAME if blessed else constants.NOT_BLESSED_FILE_NAME
    io_utils.write_string_file(os.path.join(blessing.uri, name), "")
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BLESSED_KEY, int(blessed))
    blessing.set_string_custom_property(
        constants.ARTIFACT_PROPERTY_CURRENT_MODEL_URI_KEY, model.uri
    )
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_CURRENT_MODEL_ID_KEY, model.id)
    blessing.set_string_custom_property(
        constants.ARTIFACT_PROPERTY_BASELINE_MODEL_URI_KEY, baseline.uri
    )
    blessing.set_int_custom_property(constants.ARTIFACT_PROPERTY_BASELINE_MODEL_ID_KEY, baseline.id)
