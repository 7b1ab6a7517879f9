"""GanEvaluator: real images, real TFMA and Beam, models of known quality."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.view import util as view_util
from tfx.components.util import model_utils
from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact_utils, standard_artifacts
from tfx.utils import proto_utils

from components.gan_evaluator import executor
from components.gan_evaluator.examples import example_hashes
from components.gan_evaluator.generator import Generator, ModelError, latents
from components.gan_evaluator.options import GateOptions, GateRule, GateRules
from pipeline import gate
from pipeline.config import Config
from trainer.options import ExtractorOptions
from trainer.quality import extractors, sliced
from trainer.quality.frechet import frechet_distance, relative_frechet_distance
from trainer.quality.moments import Moments

BOUND = 0.5
TOLERANCE = 0.05
EXAMPLES = 449
#: Relative distance from any class to any other is at least 0.69; within a class at most 0.48.
OTHER_CLASS = 0.6


def example_id(index: int) -> bytes:
    return f"{index:08x}".encode()


def write_examples(
    folder: Path,
    images: np.ndarray,
    labels: np.ndarray | None,
    first: int = 0,
    shards: int = 2,
    order: Sequence[int] | None = None,
) -> None:
    """Transformed examples, dealt out to shards in turn, with ids from `first` on."""
    folder.mkdir(parents=True)
    paths = [str(folder / f"transformed_examples-{i:05d}.gz") for i in range(shards)]
    writers = [tf.io.TFRecordWriter(path, "GZIP") for path in paths]
    for place, index in enumerate(range(len(images)) if order is None else order):
        image = images[index]
        feature = {"image": image.tobytes(), "example_id": example_id(first + index)}
        example = tf.train.Example()
        for name, value in feature.items():
            example.features.feature[name].bytes_list.value.append(value)
        if labels is not None:
            example.features.feature["label"].int64_list.value.append(int(labels[index]))
        writers[place % shards].write(example.SerializeToString())
    for writer in writers:
        writer.close()


def artifact(kind: type, uri: Path, number: int):
    made = kind()
    made.uri = str(uri)
    made.id = number
    return made


class Evaluated:
    """What an evaluation left behind."""

    def __init__(self, evaluation: Path, blessing):
        self.folder = evaluation
        self.blessing = blessing
        self.verdict = json.loads((evaluation / "verdict.json").read_text())

    @property
    def blessed(self) -> bool:
        """The verdict; all the places that state it must agree."""
        names = {path.name for path in Path(self.blessing.uri).iterdir()}
        stated = {
            self.verdict["blessed"],
            model_utils.is_model_blessed(self.blessing),
            tfma.load_validation_result(str(self.folder)).validation_ok,
            {"BLESSED": True, "NOT_BLESSED": False}[names.pop()],
        }
        assert len(stated) == 1
        assert not names
        return stated.pop()


#: Enough for a verdict; and the others.
FEW = ("ImageCount", "FrechetDistance", "RelativeFrechetDistance")
OTHERS = (
    "KernelDistance",
    "PrecisionRecall",
    "DensityCoverage",
    "SlicedWassersteinDistance",
    "Memorisation",
    "Diversity",
)


def eval_config(names: Sequence[str], sampled_images: int | None = None) -> tfma.EvalConfig:
    """The pipeline's, with these metrics."""
    settings = json.dumps({"sampled_images": sampled_images} if sampled_images else {})
    module = "components.gan_evaluator.metrics"
    config = gate.eval_config(Config())
    del config.metrics_specs[:]
    config.metrics_specs.append(
        tfma.MetricsSpec(
            metrics=[
                tfma.MetricConfig(class_name=name, module=module, config=settings) for name in names
            ]
        )
    )
    return config


@pytest.fixture(scope="session")
def examples_dirs(tmp_path_factory, digits) -> dict[str, Path]:
    """Transformed examples of digits that no model knows, by what is odd about them."""
    root = tmp_path_factory.mktemp("examples")
    held_out, training = digits.part(1).part(0), digits.part(0)
    write_examples(root / "labelled" / "Split-eval", held_out.images, held_out.labels)
    write_examples(root / "labelled" / "Split-train", training.images, training.labels, first=5000)
    write_examples(root / "unlabelled" / "Split-eval", held_out.images, None)
    write_examples(root / "unlabelled" / "Split-train", training.images, None, first=5000)
    write_examples(root / "no_training" / "Split-eval", held_out.images, held_out.labels)
    write_examples(root / "empty" / "Split-eval", held_out.images[:0], None)
    write_examples(root / "empty" / "Split-train", training.images[:0], None)
    (root / "no_files" / "Split-eval").mkdir(parents=True)
    for split, part, first in (("eval", held_out, 0), ("train", training, 5000)):
        order = np.random.default_rng(0).permutation(len(part.images))
        folder = root / "shuffled" / f"Split-{split}"
        write_examples(folder, part.images, part.labels, first, shards=5, order=order)
    write_examples(root / "one" / "Split-eval", held_out.images[:1], held_out.labels[:1])
    return {path.name: path for path in root.iterdir()}


_NOTHING_ASKED = {name: GateRule() for name in GateRules.model_fields}


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory, examples_dirs):
    """Runs the executor: (candidate, served or None, name of examples) -> Evaluated."""

    def run(
        candidate: Path,
        served: Path | None,
        examples: str = "labelled",
        *,
        bound: float = BOUND,
        tolerance: float = TOLERANCE,
        class_tolerance: float | None = None,
        metrics: Sequence[str] = FEW,
        metric_sample: int | None = None,
        beam_args: Sequence[str] = (),
        **options,
    ):
        folder = tmp_path_factory.mktemp("evaluate")
        eval_examples = artifact(standard_artifacts.Examples, examples_dirs[examples], 1)
        splits = [path.name.removeprefix("Split-") for path in Path(eval_examples.uri).iterdir()]
        eval_examples.split_names = artifact_utils.encode_split_names(splits)
        blessing = artifact(standard_artifacts.ModelBlessing, folder / "blessing", 4)
        evaluation = artifact(standard_artifacts.ModelEvaluation, folder / "evaluation", 5)
        for made in (blessing, evaluation):
            Path(made.uri).mkdir()
        rule = GateRule(bound=bound, tolerance=tolerance, class_tolerance=class_tolerance)
        options = GateOptions(
            image_size=16,
            channels=1,
            gate=GateRules(**(_NOTHING_ASKED | {"relative_frechet_distance": rule})),
            **options,
        )
        nothing = folder / "nothing"
        context = base_beam_executor.BaseBeamExecutor.Context(
            beam_pipeline_args=list(beam_args), tmp_dir=str(folder), unique_id="1"
        )
        executor.Executor(context).Do(
            {
                "examples": [eval_examples],
                "model": [artifact(standard_artifacts.Model, candidate.parent, 2)],
                "baseline_model": [
                    artifact(standard_artifacts.Model, served.parent if served else nothing, 3)
                ],
            },
            {"evaluation": [evaluation], "blessing": [blessing]},
            {
                "eval_config": proto_utils.proto_to_json(eval_config(metrics, metric_sample)),
                "options": options.model_dump_json(),
            },
        )
        return Evaluated(folder / "evaluation", blessing)

    return run


@pytest.fixture(scope="module")
def worse_against_good(evaluate, models) -> Evaluated:
    return evaluate(models["worse"], models["good"], bound=5.0, metrics=FEW + OTHERS)


def test_evaluator_good_model_nothing_served_is_blessed(evaluate, models):
    found = evaluate(models["good"], None)
    assert found.blessed
    assert found.verdict["baseline_metrics"] is None
    assert found.verdict["metrics"]["relative_frechet_distance"] < 0.1
    assert found.verdict["metrics"]["extractor"] == "random"
    assert found.blessing.get_string_custom_property("current_model") == str(models["good"].parent)
    assert found.blessing.get_int_custom_property("current_model_id") == 2


def test_evaluator_numbers_equal_a_direct_computation(worse_against_good, models, digits):
    found = worse_against_good
    real = digits.part(1).part(0)
    extract = extractors.create(ExtractorOptions())
    real_features = extract(real.images)
    ids = [example_id(index) for index in range(len(real.images))]
    for key, name in (("metrics", "worse"), ("baseline_metrics", "good")):
        images = Generator(str(models[name]))(latents(ids, 0, 8), real.labels)
        features = extract(images)
        slices = {"overall": slice(None)}
        slices.update({f"digit {label}": real.labels == label for label in range(10)})
        stated = {"overall": found.verdict[key], **found.verdict[key]["per_class"]}
        assert list(stated) == list(slices)
        for slice_name, rows in slices.items():
            moments = Moments.of(real_features[rows]), Moments.of(features[rows])
            numbers = stated[slice_name]
            assert numbers["examples"] == moments[0].count
            assert numbers["frechet_distance"] == pytest.approx(
                frechet_distance(*moments), rel=1e-4
            )
            assert numbers["relative_frechet_distance"] == pytest.approx(
                relative_frechet_distance(*moments), rel=1e-4
            )


def test_evaluator_output_is_read_by_tfma(worse_against_good, models):
    found = worse_against_good
    for name, key in ((tfma.CANDIDATE_KEY, "metrics"), (tfma.BASELINE_KEY, "baseline_metrics")):
        result = tfma.load_eval_result(str(found.folder), model_name=name)
        sliced = dict(result.slicing_metrics)
        assert set(sliced) == {(), *((("label", label),) for label in range(10))}
        value = sliced[()][""][""]["frechet_distance"]["doubleValue"]
        assert value == found.verdict[key]["frechet_distance"]
    assert result.model_location == str(models["good"])


def test_evaluator_output_is_what_tfmas_slicing_view_shows(worse_against_good):
    result = tfma.load_eval_result(str(worse_against_good.folder), model_name=tfma.CANDIDATE_KEY)
    # What the widget is given; to draw it takes a notebook.
    column = view_util.get_slicing_config(result.config)["weightedExamplesColumn"]
    shown = view_util.get_slicing_metrics(result.slicing_metrics, slicing_column="label")
    assert sorted(row["slice"] for row in shown) == [f"label:{label}" for label in range(10)]
    counts = [row["metrics"][""][""][column]["doubleValue"] for row in shown]
    assert sum(counts) == EXAMPLES


def test_evaluator_floors_and_copies_come_from_the_training_split(
    worse_against_good, evaluate, models, digits
):
    found = worse_against_good.verdict["metrics"]
    assert (found["examples"], found["sampled"]) == (EXAMPLES, EXAMPLES)
    # About as many as are held out, chosen by hash out of 899: within six standard deviations.
    assert abs(found["training"] - EXAMPLES) < 6 * math.sqrt(EXAMPLES / 2)
    assert 0 < found["floors"]["frechet_distance"] < found["frechet_distance"] / 2
    assert 0.9 < found["floors"]["recall"] <= 1.0
    # The bank that this model draws from is the training split; its images are spoilt a little.
    assert found["memorisation"] > 0.5
    without = evaluate(models["good"], None, "no_training", metrics=FEW + OTHERS)
    assert without.blessed
    numbers = without.verdict["metrics"]
    assert numbers["training"] == 0
    assert set(numbers["floors"].values()) == {None}
    assert numbers["memorisation"] is None
    assert numbers["coverage"] > 0.5


def test_evaluator_sample_of_few_images_is_measured_in_every_slice(evaluate, models, digits):
    limit = 20
    names = ("ImageCount", "FrechetDistance", "RelativeFrechetDistance", *OTHERS)
    found = evaluate(models["worse"], None, bound=5.0, metrics=names, metric_sample=limit)
    stated = found.verdict["metrics"]
    for numbers in (stated, *stated["per_class"].values()):
        assert numbers["sampled"] == limit
        for name in ("memorisation", "sliced_wasserstein_distance", "coverage"):
            assert numbers[name] is not None
            assert numbers["floors"][name] is not None
    held_out = digits.part(1).part(0)
    ids = [example_id(index) for index in range(EXAMPLES)]
    rows = np.argsort(example_hashes(ids, "sample"))[:limit]
    made = Generator(str(models["worse"]))(latents(ids, 0, 8), held_out.labels)
    expected = sliced.sliced_wasserstein_distance(
        sliced.project(held_out.images[rows]), sliced.project(made[rows])
    )
    assert stated["sliced_wasserstein_distance"] == pytest.approx(expected, rel=1e-9)


def test_evaluator_pictures_are_of_the_same_examples_and_the_nearest_copies(
    worse_against_good, models, digits
):
    pictures = np.load(worse_against_good.folder / "pictures.npz")
    held_out, training = digits.part(1).part(0), digits.part(0)
    ids = [example_id(index) for index in range(EXAMPLES)]
    shown = np.argsort(example_hashes(ids, "pictures"))[:64]
    made = Generator(str(models["worse"]))(latents(ids, 0, 8), held_out.labels)
    np.testing.assert_array_equal(pictures["real"], held_out.images[shown])
    np.testing.assert_array_equal(pictures["real_label"], held_out.labels[shown])
    np.testing.assert_array_equal(pictures["generated"], made[shown])
    np.testing.assert_array_equal(pictures["generated_label"], held_out.labels[shown])
    extract = extractors.create(ExtractorOptions())
    gaps = extract(made)[:, np.newaxis] - extract(training.images)
    distances = np.sqrt((gaps.astype(np.float64) ** 2).sum(axis=2))
    closest = np.argsort(distances.min(axis=1))[:16]
    nearest = distances.argmin(axis=1)[closest]
    np.testing.assert_array_equal(pictures["closest"], made[closest])
    np.testing.assert_array_equal(pictures["closest_training"], training.images[nearest])
    np.testing.assert_allclose(
        pictures["closest_distance"], distances.min(axis=1)[closest], rtol=1e-6
    )
    real = extract(held_out.images)[:, np.newaxis] - extract(training.images)
    real_distances = np.sort(np.sqrt((real.astype(np.float64) ** 2).sum(axis=2)).min(axis=1))
    # 5% of 449 are 22.45: the 23rd.
    np.testing.assert_allclose(pictures["heldout_nearest_quantile"], real_distances[22], rtol=1e-6)


def test_evaluator_other_workers_shards_and_order_give_the_same_bits(
    worse_against_good, evaluate, models
):
    again = evaluate(
        models["worse"],
        models["good"],
        "shuffled",
        bound=5.0,
        metrics=FEW + OTHERS,
        beam_args=["--direct_running_mode=multi_processing", "--direct_num_workers=4"],
    )
    assert again.verdict == worse_against_good.verdict
    pictures, others = (
        np.load(found.folder / "pictures.npz") for found in (again, worse_against_good)
    )
    for name in others:
        np.testing.assert_array_equal(pictures[name], others[name])


def test_evaluator_much_worse_than_served_is_refused(worse_against_good):
    found = worse_against_good
    assert not found.blessed
    assert "against the served model's" in found.verdict["reason"]
    failure = (
        tfma.load_validation_result(str(found.folder)).metric_validations_per_slice[0].failures[0]
    )
    assert failure.message in found.verdict["reason"]


@pytest.mark.parametrize(
    ("candidate", "tolerance", "reason"),
    [("slightly_worse", 0.0, "within 2 standard errors"), ("worse", 50.0, "within the tolerance")],
)
def test_evaluator_worse_by_chance_or_within_the_tolerance_is_blessed(
    evaluate, models, candidate, tolerance, reason
):
    found = evaluate(models[candidate], models["good"], bound=5.0, tolerance=tolerance)
    ours, theirs = found.verdict["metrics"], found.verdict["baseline_metrics"]
    assert ours["frechet_distance"] > theirs["frechet_distance"]
    assert reason in found.verdict["reason"]
    assert found.blessed


def test_evaluator_class_that_got_worse_is_refused_though_the_whole_got_better(
    evaluate, models, digits, export_model, tmp_path
):
    bank = digits.part(0)
    images = bank.images.copy()
    sevens, fours = bank.labels == 7, bank.images[bank.labels == 4]
    images[sevens] = fours[np.arange(sevens.sum()) % len(fours)]
    forgot = dataclasses.replace(bank, images=images)
    candidate = export_model(tmp_path / "candidate" / "Format-Serving", forgot)
    found = evaluate(candidate, models["worse"], bound=5.0, class_tolerance=0.25)
    ours, theirs = found.verdict["metrics"], found.verdict["baseline_metrics"]
    assert ours["frechet_distance"] < theirs["frechet_distance"]
    assert not found.blessed
    assert [failure["class"] for failure in found.verdict["failures"]] == ["digit 7"]
    assert "Relative Frechet distance of class 'digit 7'" in found.verdict["reason"]
    # Nobody asked about classes.
    assert evaluate(candidate, models["worse"], bound=5.0).blessed


def test_evaluator_noise_is_refused_by_the_absolute_bound(evaluate, models):
    found = evaluate(models["noise"], None)
    assert not found.blessed
    assert "above the bound 0.5" in found.verdict["reason"]


def test_evaluator_served_model_itself_keeps_its_verdict(evaluate, models, tmp_path):
    copy = tmp_path / "copy" / "Format-Serving"
    shutil.copytree(models["noise"], copy)
    found = evaluate(copy, models["noise"])
    assert found.blessed
    assert "served already" in found.verdict["reason"]
    # The same latents for both: otherwise these would differ, and so would the replicates.
    ours, theirs = found.verdict["metrics"], found.verdict["baseline_metrics"]
    assert ours["frechet_distance"] == theirs["frechet_distance"] > 0
    assert ours["errors"] == theirs["errors"]
    assert ours["change_errors"]["frechet_distance"] == 0.0


@pytest.mark.parametrize(("examples", "count"), [("empty", 0), ("no_files", 0), ("one", 1)])
def test_evaluator_too_few_examples_is_refused(evaluate, models, examples, count):
    found = evaluate(models["good"], None, examples)
    assert not found.blessed
    assert found.verdict["metrics"]["frechet_distance"] is None
    assert f"could not be measured ({count} examples)" in found.verdict["reason"]


@pytest.mark.parametrize("examples", ["labelled", "unlabelled"])
def test_evaluator_unconditional_model_has_no_classes(evaluate, models, examples):
    found = evaluate(models["unconditional"], None, examples)
    assert found.blessed
    assert found.verdict["metrics"]["per_class"] == {}
    assert found.verdict["metrics"]["examples"] == EXAMPLES
    assert len(tfma.load_eval_result(str(found.folder)).slicing_metrics) == 1


def test_evaluator_served_model_without_labels_has_no_classes(evaluate, models):
    found = evaluate(models["good"], models["unconditional"])
    assert len(found.verdict["metrics"]["per_class"]) == 10
    assert found.verdict["baseline_metrics"]["per_class"] == {}
    assert math.isfinite(found.verdict["baseline_metrics"]["frechet_distance"])


def test_evaluator_conditional_model_is_asked_for_the_example_s_class(evaluate, models):
    per_class = evaluate(models["good"], None).verdict["metrics"]["per_class"]
    assert max(found["relative_frechet_distance"] for found in per_class.values()) < OTHER_CLASS


def test_evaluator_served_model_of_other_images_is_refused(
    evaluate, models, digits, export_model, tmp_path
):
    small = dataclasses.replace(digits, images=digits.images[:, ::2, ::2])
    served = export_model(tmp_path / "served" / "Format-Serving", small)
    found = evaluate(models["good"], served)
    assert not found.blessed
    assert "makes images of [8, 8, 1], this one of [16, 16, 1]" in found.verdict["reason"]
    assert found.verdict["baseline_metrics"] is None
    assert found.verdict["metrics"]["examples"] == EXAMPLES


def test_evaluator_candidate_of_other_images_than_held_out_raises(
    evaluate, digits, export_model, tmp_path
):
    small = dataclasses.replace(digits, images=digits.images[:, ::2, ::2])
    candidate = export_model(tmp_path / "candidate" / "Format-Serving", small)
    with pytest.raises(ModelError, match=r"\[8, 8, 1\], but the held-out ones are \[16, 16, 1\]"):
        evaluate(candidate, None)


def test_evaluator_served_model_that_cannot_be_loaded_is_named_and_refused(
    evaluate, models, tmp_path
):
    corrupt = tmp_path / "corrupt" / "Format-Serving"
    shutil.copytree(models["good"], corrupt)
    (corrupt / "saved_model.pb").write_text("no model")
    evaluated = evaluate(models["good"], corrupt)
    assert not evaluated.blessed
    assert "cannot be loaded" in evaluated.verdict["reason"]
    assert "remove that version from the push destination" in evaluated.verdict["reason"]
    assert evaluated.verdict["metrics"]["frechet_distance"] > 0


def test_evaluator_served_model_with_other_class_ids_is_asked_by_name(
    evaluate, models, digits, export_model, tmp_path
):
    bank = digits.part(0)
    backwards = dataclasses.replace(bank, images=bank.images[::-1], labels=9 - bank.labels[::-1])
    names = tuple(f"digit {9 - label}" for label in range(10))
    served = export_model(tmp_path / "served" / "Format-Serving", backwards, class_names=names)
    verdict = evaluate(models["good"], served).verdict
    per_class = verdict["baseline_metrics"]["per_class"]
    assert list(per_class) == list(verdict["metrics"]["per_class"])
    assert max(found["relative_frechet_distance"] for found in per_class.values()) < OTHER_CLASS


def test_evaluator_extractor_that_cannot_be_used_raises_one_line(evaluate, models, tmp_path):
    options = ExtractorOptions(name=str(tmp_path / "nowhere"))
    with pytest.raises(extractors.ExtractorError, match="nowhere") as raised:
        evaluate(models["good"], None, extractor=options)
    assert "\n" not in str(raised.value)
