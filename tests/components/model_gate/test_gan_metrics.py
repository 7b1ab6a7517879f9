"""The metrics as TFMA computes them: combiners, estimates, and extracts of every form."""

from __future__ import annotations

import math
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.metrics import metric_types

from components.gan_evaluator import estimates, features
from components.gan_evaluator.features import Group
from components.gan_evaluator.sample import MomentsFn, Sample, SampleFn
from trainer.quality import jackknife
from trainer.quality.extractors.grid import on_grid
from trainer.quality.frechet import frechet_distance
from trainer.quality.image_set import ImageSet
from trainer.quality.measures import MEASURES
from trainer.quality.moments import Moments

KEY = metric_types.MetricKey(name="_key")
MODULE = "components.gan_evaluator.metrics"
CLASSES = (
    "ImageCount",
    "FrechetDistance",
    "RelativeFrechetDistance",
    "KernelDistance",
    "PrecisionRecall",
    "DensityCoverage",
    "SlicedWassersteinDistance",
    "Memorisation",
    "Diversity",
)


def image_set(rng: np.random.Generator, count: int, shift: float = 0.0) -> ImageSet:
    return ImageSet(
        on_grid(rng.standard_normal((count, 5)) + shift),
        (rng.standard_normal((count, 3)) + shift).astype(np.float32),
        np.abs(rng.standard_normal(count) + 3 + shift).astype(np.float32),
    )


def group_of(sets: dict[str, ImageSet], hashes: np.ndarray) -> Group:
    return Group(hashes.astype(np.uint64), sets)


@pytest.fixture
def held_out() -> Group:
    """Examples in no order, with what two models made of them."""
    rng = np.random.default_rng(0)
    sets = {name: image_set(rng, 1000, shift) for name, shift in (("real", 0), ("a", 0.5))}
    sets["b"] = image_set(rng, 1000, 0.1)
    return group_of(sets, rng.permutation(1000) * 2**50)


@pytest.fixture
def training() -> Group:
    rng = np.random.default_rng(1)
    return group_of({"training": image_set(rng, 300)}, rng.permutation(300))


def combined(combiner: beam.CombineFn, parts: list[list[Group]]):
    """What a combiner gives for parts that were added up elsewhere each."""
    accumulators = []
    for part in parts:
        accumulator = combiner.create_accumulator()
        for group in part:
            accumulator = combiner.add_input(accumulator, [group])
        accumulators.append(combiner.compact(accumulator))
    return combiner.extract_output(combiner.merge_accumulators(accumulators))[KEY]


def cut(group: Group, at: list[int]) -> list[Group]:
    return [group.take(rows) for rows in np.split(np.arange(len(group)), at)]


SPLITS = ([], [1], [0, 300, 300], [255, 256, 257, 900])


@pytest.mark.parametrize("splits", SPLITS)
def test_moments_combiner_split_anyhow_equals_all_at_once_bit_by_bit(held_out, splits):
    parts = [cut(part, [2, 50]) for part in cut(held_out, splits)][::-1]
    found = combined(MomentsFn(KEY), parts)
    assert set(found) == {"real", "a", "b"}
    for name, images in held_out.sets.items():
        whole = Moments.of(images.features)
        assert found[name].count == whole.count
        np.testing.assert_array_equal(found[name].total, whole.total)
        np.testing.assert_array_equal(found[name].outer, whole.outer)


def test_moments_combiner_of_nothing_has_no_sets():
    assert combined(MomentsFn(KEY), [[]]) == {}


@pytest.mark.parametrize("splits", SPLITS)
@pytest.mark.parametrize("limit", [40, 5000])
def test_sample_combiner_split_anyhow_keeps_the_lowest_hashes_in_order(
    held_out, training, splits, limit
):
    parts = [cut(part, [2, 50]) for part in cut(held_out, splits)][::-1]
    found = combined(SampleFn(KEY, limit), [*parts, [training]])
    for sampled, everything in ((found.examples, held_out), (found.training, training)):
        expected = everything.take(np.argsort(everything.hashes)[:limit])
        np.testing.assert_array_equal(sampled.hashes, expected.hashes)
        for name, images in expected.sets.items():
            np.testing.assert_array_equal(sampled.sets[name].features, images.features)
            np.testing.assert_array_equal(sampled.sets[name].projections, images.projections)
            np.testing.assert_array_equal(sampled.sets[name].nearest, images.nearest)


def test_sample_combiner_holds_no_more_than_twice_the_limit(held_out):
    combiner = SampleFn(KEY, 40)
    accumulator = combiner.create_accumulator()
    for row in range(1000):
        accumulator = combiner.add_input(accumulator, [held_out.take(np.array([row]))])
        assert sum(map(len, accumulator["real"]._groups)) <= 80


def test_sample_combiner_of_nothing_is_empty():
    assert combined(SampleFn(KEY, 40), [[]]) == Sample(None, None)


@pytest.mark.parametrize(
    ("measure", "name"), [("kernel", "kernel_distance"), ("neighbours", "recall")]
)
def test_sampled_estimates_are_the_measure_its_jackknife_and_its_floor(
    held_out, training, measure, name, monkeypatch
):
    # Errors of neighbours are from a part of the sample; of the kernel from all of it.
    monkeypatch.setitem(estimates._REPLICATED, "neighbours", 500)
    used = {"kernel": 1000, "neighbours": 500}[measure]
    sample = Sample(*(group.take(np.argsort(group.hashes)) for group in (held_out, training)))
    real, first, second = (sample.examples.sets[name] for name in ("real", "a", "b"))
    found = estimates.sampled(measure, sample, ["a", "b"], "b")
    rows = np.arange(used)
    ours, theirs = (
        jackknife.replicates(MEASURES[measure], real.take(rows), made.take(rows))[name]
        * math.sqrt(used / 1000)
        for made in (first, second)
    )
    floor = MEASURES[measure](real.take(np.arange(300)), sample.training.sets["training"])
    expected = {
        name: MEASURES[measure](real, first)[name],
        f"{name}_error": jackknife.standard_error(ours),
        f"{name}_floor": floor[name],
        f"{name}_change_error": jackknife.standard_error(ours - theirs),
    }
    assert {key: found["a"][key] for key in expected} == pytest.approx(expected, rel=1e-9)
    assert f"{name}_change_error" not in found["b"]


def test_memorisation_floor_is_of_the_held_out_images_themselves(held_out, training):
    sample = Sample(held_out, training)
    found = estimates.sampled("memorisation", sample, ["a"], None)["a"]
    nearest = held_out.sets["real"].nearest
    threshold = np.sort(nearest[::2])[24]  # 25 of 500 held-out images are as near as that
    expected = np.mean(nearest[1::2] < threshold)
    assert found["memorisation_floor"] == pytest.approx(expected)
    assert 0.02 < expected < 0.08


def test_frechet_estimates_are_of_all_images_with_the_error_of_fewer_scaled(held_out, training):
    moments = {name: Moments.of(images.features) for name, images in held_out.sets.items()}
    moments["training"] = Moments.of(training.sets["training"].features)
    sample = Sample(held_out.take(np.arange(250)), training)
    found = estimates.frechet(moments, sample, ["a", "b"], "b")["a"]
    assert found["frechet_distance"] == frechet_distance(moments["real"], moments["a"])
    assert found["frechet_distance_floor"] == frechet_distance(moments["real"], moments["training"])
    replicates = jackknife.replicates(
        MEASURES["frechet"], sample.examples.sets["real"], sample.examples.sets["a"]
    )
    # A quarter of the images: twice the error.
    for name in ("frechet_distance", "relative_frechet_distance"):
        assert found[f"{name}_error"] == pytest.approx(
            jackknife.standard_error(replicates[name]) / 2
        )
    assert found["frechet_distance_change_error"] > 0


def evaluated(folder: Path, config: tfma.EvalConfig, extracts: list) -> dict:
    """Numbers by model, slice and key, as TFMA writes and reads them."""
    writer = tfma.writers.MetricsPlotsAndValidationsWriter(
        output_paths={"metrics": str(folder / "metrics")},
        eval_config=config,
        output_file_format="tfrecord",
    )
    models = {spec.name: "" for spec in config.model_specs}
    config_writer = tfma.writers.EvalConfigWriter(
        str(folder), eval_config=config, model_locations=models
    )
    with beam.Pipeline() as pipeline:
        _ = (
            pipeline
            | beam.Create(extracts, reshuffle=False)
            | tfma.extractors.SliceKeyExtractor(eval_config=config).ptransform
            | tfma.evaluators.MetricsPlotsAndValidationsEvaluator(eval_config=config).ptransform
            | tfma.WriteResults(writers=[config_writer, writer])
        )
    return {
        model: {
            slice_key: {key: float(value["doubleValue"]) for key, value in found[""][""].items()}
            for slice_key, found in tfma.load_eval_result(
                str(folder), model_name=model
            ).slicing_metrics
        }
        for model in models
    }


def config_of(*model_names: str, sampled_images: int = 2000) -> tfma.EvalConfig:
    config = tfma.EvalConfig(
        model_specs=[
            tfma.ModelSpec(name=name, is_baseline=name == tfma.BASELINE_KEY) for name in model_names
        ],
        slicing_specs=[tfma.SlicingSpec(), tfma.SlicingSpec(feature_keys=["label"])],
        metrics_specs=[
            tfma.MetricsSpec(
                metrics=[
                    tfma.MetricConfig(
                        class_name=name,
                        module=MODULE,
                        config=f'{{"sampled_images": {sampled_images}}}',
                    )
                    for name in CLASSES
                ]
            )
        ],
    )
    return tfma.utils.update_eval_config_with_defaults(
        config, has_baseline=tfma.BASELINE_KEY in model_names
    )


def extracts_of(held_out: Group, training: Group | None, labels: np.ndarray) -> list:
    """Two groups of held-out examples for each label, all training images in one."""
    found = []
    for label in np.unique(labels):
        for rows in np.array_split(np.flatnonzero(labels == label), 2):
            found.append(features.to_extracts(held_out.take(rows), int(label)))
    if training is not None:
        found.append(features.to_extracts(training, int(labels[0])))
    return found


def test_metrics_of_two_models_and_training_images_in_one_pass(tmp_path, held_out, training):
    names = {"real": "real", "a": tfma.CANDIDATE_KEY, "b": tfma.BASELINE_KEY}
    held_out = Group(held_out.hashes, {names[key]: held_out.sets[key] for key in names})
    labels = np.arange(1000) % 10 // 7  # 700 of class 0, 300 of class 1
    config = config_of(tfma.CANDIDATE_KEY, tfma.BASELINE_KEY, sampled_images=200)
    found = evaluated(tmp_path, config, extracts_of(held_out, training, labels))
    slices = {
        (): (np.arange(1000), training),
        (("label", 0),): (np.flatnonzero(labels == 0), training),
        (("label", 1),): (np.flatnonzero(labels == 1), None),
    }
    for model in (tfma.CANDIDATE_KEY, tfma.BASELINE_KEY):
        assert set(found[model]) == set(slices)
        for key, (rows, floor) in slices.items():
            numbers = found[model][key]
            part = held_out.take(rows)
            lowest = part.take(np.argsort(part.hashes)[:200])
            assert numbers["example_count"] == len(rows)
            assert numbers["sampled_count"] == 200
            assert numbers["training_count"] == (300 if floor else 0)
            real, made = lowest.sets["real"], lowest.sets[model]
            for name, measure in MEASURES.items():
                if name != "frechet":
                    for metric, value in measure(real, made).items():
                        assert numbers[metric] == value
            moments = [Moments.of(part.sets[name].features) for name in ("real", model)]
            assert numbers["frechet_distance"] == frechet_distance(*moments)
            is_candidate = model == tfma.CANDIDATE_KEY
            assert ("recall_change_error" in numbers) == is_candidate
            assert math.isfinite(numbers["coverage_error"])
            assert math.isfinite(numbers["frechet_distance_floor"]) == bool(floor)
            assert math.isfinite(numbers["diversity_floor"]) == bool(floor)


def test_metrics_of_single_images_with_nothing_but_features(tmp_path, held_out):
    real, made = (held_out.sets[name].features for name in ("real", "a"))
    extracts = [
        {"features": {"real": real[row], "label": np.array([row % 2])}, "predictions": made[row]}
        for row in range(60)
    ]
    found = evaluated(tmp_path, config_of(""), extracts)[""]
    assert set(found) == {(), (("label", 0),), (("label", 1),)}
    overall = found[()]
    assert overall["example_count"] == 60
    assert overall["frechet_distance"] == frechet_distance(
        Moments.of(real[:60]), Moments.of(made[:60])
    )
    measured = {name for name, value in overall.items() if math.isfinite(value)}
    assert {"kernel_distance", "precision", "density_error", "diversity"} <= measured
    assert not {"memorisation", "sliced_wasserstein_distance", "recall_floor"} & measured


@pytest.mark.parametrize("name", ["features", "projections", "nearest"])
def test_extract_whose_parts_are_not_of_equally_many_images_raises(held_out, name):
    extract = features.to_extracts(held_out.take(np.arange(9)), 0)
    assert [len(group) for group in features.from_extracts(extract, ["a", "b"])] == [9]
    extract["predictions"]["b"][name] = extract["predictions"]["b"][name][1:]
    with pytest.raises(ValueError, match=f"'b {name}': 8"):
        features.from_extracts(extract, ["a", "b"])


def test_metrics_of_training_images_alone_are_not_measured(tmp_path, training):
    found = evaluated(tmp_path, config_of(""), [features.to_extracts(training, 3)])[""][()]
    assert (found["example_count"], found["training_count"]) == (0, 300)
    assert math.isnan(found["relative_frechet_distance"])
    assert math.isnan(found["precision"])
