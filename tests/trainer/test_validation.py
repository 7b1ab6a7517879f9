"""Measurements against held-out images, with real networks and the real extractor."""

import numpy as np
import pytest
import tensorflow as tf

from trainer import data, networks, validation
from trainer.data import Dataset
from trainer.errors import TrainerError
from trainer.options import ExtractorOptions, ModelOptions, TrainingOptions
from trainer.quality import extractors
from trainer.quality.frechet import relative_frechet_distance
from trainer.quality.moments import Moments
from trainer.state import State
from trainer.step import to_float
from trainer.validation import Validator

MODEL = ModelOptions(latent_dim=8, generator_channels=4, critic_channels=4)
OPTIONS = TrainingOptions(seed=3, validation_images=100)
IMAGES = np.random.default_rng(0).integers(0, 256, [90, 16, 16, 1], np.uint8)
LABELS = np.arange(90, dtype=np.int32) % 3


def _state(classes=3):
    return State(MODEL, OPTIONS, image_size=16, channels=1, classes=classes)


def _validator(state, options=OPTIONS):
    return Validator(state, options, Dataset.of_arrays(IMAGES, LABELS), ExtractorOptions())


@pytest.fixture(scope="module")
def measured():
    state = _state()
    # The three generators of a state must not be mistaken for each other.
    for variable in state.ema_generator.trainable_variables:
        variable.assign(variable * 0.7)
    return state, _validator(state)


def test_measure_again_is_the_same_bit_for_bit(measured):
    _, validator = measured
    first, second = validator.measure(), validator.measure()
    assert first.metrics() == second.metrics()
    np.testing.assert_array_equal(first.gradient_norms, second.gradient_norms)


def test_measure_distance_is_that_of_the_average_generators_pixels(measured):
    state, validator = measured
    latents = tf.constant(validator._latents)
    images = networks.call(state.ema_generator, latents, tf.constant(validator._labels))
    pixels = np.round(np.clip(images, -1, 1) * 127.5 + 127.5).astype(np.uint8)
    extract = extractors.create(ExtractorOptions())
    expected = relative_frechet_distance(Moments.of(extract(IMAGES)), Moments.of(extract(pixels)))
    assert validator.measure().distance == pytest.approx(expected, rel=1e-4)
    deviation = np.sqrt(pixels.var(axis=0).mean() / IMAGES.var(axis=0).mean())
    assert validator.measure().deviation == pytest.approx(deviation, rel=1e-3)


def test_measure_wasserstein_is_the_critics_mean_difference(measured):
    state, validator = measured
    label = tf.constant(validator._labels)
    fake = networks.call(state.generator, tf.constant(validator._latents), label)
    real_scores = networks.call(state.critic, to_float(tf.constant(validator._images)), label)
    expected = np.mean(real_scores - networks.call(state.critic, fake, label))
    found = validator.measure()
    assert found.wasserstein == pytest.approx(expected, rel=1e-4)
    assert found.gradient_norms.shape == (90,)
    assert (found.gradient_norms > 0).all()


def test_measure_generator_of_one_image_has_no_deviation():
    state = _state(classes=0)
    for network in (state.generator, state.ema_generator):
        network.set_weights([np.zeros_like(weight) for weight in network.get_weights()])
    found = _validator(state).measure()
    assert found.deviation == 0.0
    assert found.distance > 0.1


def test_validator_takes_no_more_images_than_asked_for():
    by_class = Dataset.of_arrays(IMAGES, np.sort(LABELS))
    options = TrainingOptions(validation_images=70)
    validator = Validator(_state(), options, by_class, ExtractorOptions())
    assert len(validator) == 70
    assert set(validator._labels) == {0, 1, 2}  # though they are sorted by class
    assert validator.measure().gradient_norms.shape == (70,)


def test_validator_unknown_extractor_is_refused():
    with pytest.raises(ValueError, match=r"extractor\.name: got 'vgg'"):
        Validator(
            _state(), OPTIONS, Dataset.of_arrays(IMAGES, LABELS), ExtractorOptions(name="vgg")
        )


def test_usable_leaves_out_classes_that_the_networks_do_not_know(write_examples, tmp_path):
    labels = np.int64([0, -1, 1, 2, 1])
    path = tmp_path / "eval.gz"
    write_examples(path, IMAGES[:5], labels)
    options = {"image_size": 16, "channels": 1, "labelled": True, "memory_bytes": 2**20}
    heldout = data.load([str(path)], cache_dir=str(tmp_path), unknown_labels=True, **options)
    assert sorted(heldout.labels) == sorted(labels)
    assert sorted(heldout.labels[validation.usable(heldout, 2)]) == [0, 1, 1]
    assert len(validation.usable(heldout, 0)) == 5
    with pytest.raises(TrainerError, match="got label -1"):
        data.load([str(path)], cache_dir=str(tmp_path), **options)


def test_validator_of_images_that_are_all_alike_cannot_measure():
    alike = Dataset.of_arrays(IMAGES[:1].repeat(5, axis=0), LABELS[:5])
    assert not Validator(_state(), OPTIONS, alike, ExtractorOptions()).can_measure
    assert _validator(_state()).can_measure
