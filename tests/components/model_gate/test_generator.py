"""Generators to be judged: their latents, their labels, their form."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tensorflow as tf

from components.gan_evaluator.generator import (
    Generator,
    ModelError,
    ModelTraits,
    labels_for,
    latents,
)

IDS = [f"{number:032x}".encode() for number in range(2000)]


def test_latents_depend_on_seed_and_example_only():
    forward = latents(IDS[:50], 3, 16)
    backward = latents(IDS[:50][::-1], 3, 16)
    np.testing.assert_array_equal(forward, backward[::-1])
    assert not np.any(forward == latents(IDS[:50], 4, 16))
    assert len(np.unique(forward)) == forward.size


def test_latents_longer_begin_with_the_shorter():
    np.testing.assert_array_equal(latents(IDS[:9], 0, 8), latents(IDS[:9], 0, 100)[:, :8])


def test_latents_are_standard_normal_float32():
    drawn = latents(IDS, 0, 64)
    assert drawn.dtype == np.float32
    assert drawn.shape == (2000, 64)
    # Means of 128,000 numbers: six standard errors.
    assert abs(drawn.mean()) < 6 / np.sqrt(drawn.size)
    assert abs(drawn.var() - 1.0) < 6 * np.sqrt(2 / drawn.size)
    assert abs(np.mean(drawn[1:] * drawn[:-1])) < 6 / np.sqrt(drawn.size)


def test_latents_of_nothing_have_their_shape():
    assert latents([], 0, 8).shape == (0, 8)


def test_labels_for_follow_the_name():
    labels = np.array([0, 1, 2, 2])
    names = ("ant", "bee", "cat")
    same = ModelTraits(8, True, names, (16, 16, 1))
    np.testing.assert_array_equal(labels_for(same, labels, names, IDS[:4]), labels)
    other = ModelTraits(8, True, ("aardvark", "ant", "bat", "bee", "cat"), (16, 16, 1))
    np.testing.assert_array_equal(labels_for(other, labels, names, IDS[:4]), [1, 3, 4, 4])


@pytest.mark.parametrize("unknown", [-1, 2, 3])
def test_labels_for_class_unknown_to_the_model_are_spread_by_example(unknown):
    model = ModelTraits(8, True, ("ant", "bee"), (16, 16, 1))
    labels = np.full(1000, unknown)
    found = labels_for(model, labels, ("ant", "bee", "cat"), IDS[:1000])
    assert 400 < np.count_nonzero(found) < 600
    assert set(found) == {0, 1}
    backwards = labels_for(model, labels, ("ant", "bee", "cat"), IDS[:1000][::-1])
    np.testing.assert_array_equal(found, backwards[::-1])


def test_generator_traits_are_read_from_the_model(models):
    names = tuple(f"digit {label}" for label in range(10))
    assert Generator(str(models["good"])).traits == ModelTraits(8, True, names, (16, 16, 1))
    assert not Generator(str(models["unconditional"])).traits.conditional


def test_generator_makes_the_class_it_is_told(models, digits):
    labels = np.repeat(np.arange(10), 20)
    images = Generator(str(models["good"]))(latents(IDS[:200], 0, 8), labels)
    assert images.dtype == np.uint8
    assert images.shape == (200, 16, 16, 1)
    bank = {
        image.tobytes(): label for image, label in zip(digits.images, digits.labels, strict=True)
    }
    assert [bank[image.tobytes()] for image in images] == labels.tolist()


def test_generator_conditional_without_labels_raises(models):
    with pytest.raises(ModelError, match="takes a label, but the examples have none"):
        Generator(str(models["good"]))(latents(IDS[:2], 0, 8), None)


def test_generator_conditional_without_class_names_raises(models, tmp_path):
    shutil.copytree(models["good"], tmp_path / "model")
    (tmp_path / "model" / "assets.extra" / "class_names.txt").unlink()
    with pytest.raises(ModelError, match="takes a label, but has no assets"):
        Generator(str(tmp_path / "model"))


def test_generator_model_of_another_kind_raises(tmp_path):
    class Doubles(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def __call__(self, x):
            return {"y": 2 * x}

    module = Doubles()
    tf.saved_model.save(module, str(tmp_path / "a"), {"double": module.__call__})
    with pytest.raises(ModelError, match="has no signature serving_default; export it anew"):
        Generator(str(tmp_path / "a"))
    tf.saved_model.save(module, str(tmp_path / "b"), {"serving_default": module.__call__})
    with pytest.raises(ModelError, match=r"takes \['x'\] and gives \['y'\]; needed: latent"):
        Generator(str(tmp_path / "b"))


@pytest.mark.parametrize(
    ("latent", "image", "what"),
    [
        ([None, 8], np.zeros([2, 16, 16, 1], np.float32), r"makes float32 \(2, 16, 16, 1\) of"),
        ([None, 8], np.zeros([2, 256], np.uint8), r"makes uint8 \(2, 256\)"),
        ([None], np.zeros([2, 16, 16, 1], np.uint8), r"of \(None,\); needed"),
        ([None, None], np.zeros([2, 16, 16, 1], np.uint8), "of no fixed size"),
        (None, np.zeros([2, 16, 16, 1], np.uint8), "of <unknown>; needed"),
    ],
)
def test_generator_model_of_other_shapes_or_types_raises_one_line(tmp_path, latent, image, what):
    class Makes(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec(latent, tf.float32, name="latent")])
        def __call__(self, latent):
            return {"image": tf.constant(image)}

    module = Makes()
    tf.saved_model.save(module, str(tmp_path), {"serving_default": module.__call__})
    with pytest.raises(ModelError, match=what) as raised:
        Generator(str(tmp_path))
    assert "\n" not in str(raised.value)


def test_generator_calls_the_model_with_batches_of_one_size(tmp_path):
    class TellsItsBatch(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32, name="latent")])
        def __call__(self, latent):
            count = tf.shape(latent)[0]
            return {"image": tf.fill([count, 16, 16, 1], tf.cast(count, tf.uint8))}

    module = TellsItsBatch()
    tf.saved_model.save(module, str(tmp_path), {"serving_default": module.__call__})
    generator = Generator(str(tmp_path))
    alone, many = (generator(latents(IDS[:count], 0, 8), None) for count in (1, 70))
    assert (len(alone), len(many)) == (1, 70)
    assert len(np.unique(np.concatenate([alone, many]))) == 1
