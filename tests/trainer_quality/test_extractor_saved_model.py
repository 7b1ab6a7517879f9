"""Features of SavedModels of all kinds, and what is none."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf

from trainer.options import ExtractorOptions
from trainer.quality.extractors import ExtractorError, create, images

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, [70, 8, 8, 3], np.uint8)


def _save(folder, function, *specs, signature="serving_default"):
    module = tf.Module()
    module.call = tf.function(function, input_signature=specs)
    signatures = {signature: module.call} if signature else {}
    tf.saved_model.save(module, str(folder), signatures)
    return ExtractorOptions(name=str(folder))


def _spec(*shape, dtype=tf.uint8, name="image"):
    return tf.TensorSpec(shape, dtype, name)


def _means(scale=1.0):
    """Mean and largest value of each channel."""

    def network(image):
        image = tf.cast(image, tf.float32)
        values = [tf.reduce_mean(image, [1, 2]), tf.reduce_max(image, [1, 2])]
        return {"features": scale * tf.concat(values, 1)}

    return network


def _expected(pixels):
    pixels = pixels.astype(np.float64)
    return np.concatenate([pixels.mean(axis=(1, 2)), pixels.max(axis=(1, 2))], axis=1)


def test_saved_model_uint8_of_any_size_sees_the_pixels(tmp_path):
    extract = create(_save(tmp_path, _means(), _spec(None, None, None, 3)))
    assert extract.name == str(tmp_path)
    assert extract.dimension == 6
    assert extract(PIXELS).dtype == np.float32
    np.testing.assert_allclose(extract(PIXELS), _expected(PIXELS), atol=0.02)
    wide = RNG.integers(0, 256, [2, 5, 9, 3], np.uint8)
    np.testing.assert_allclose(extract(wide), _expected(wide), atol=0.02)


def test_saved_model_float32_sees_0_to_1(tmp_path):
    extract = create(_save(tmp_path, _means(), _spec(None, None, None, 3, dtype=tf.float32)))
    np.testing.assert_allclose(extract(PIXELS), _expected(PIXELS) / 255, atol=1e-4)


@pytest.mark.parametrize("dtype", [tf.uint8, tf.float32])
def test_saved_model_of_one_size_sees_resized_images(tmp_path, dtype):
    extract = create(_save(tmp_path, _means(), _spec(None, 5, 6, 3, dtype=dtype)))
    seen = images.resized(PIXELS, 5, 6)
    seen = np.rint(seen) if dtype == tf.uint8 else seen / 255
    np.testing.assert_allclose(extract(PIXELS), _expected(seen), atol=0.02)


def test_saved_model_of_another_number_of_channels_sees_converted_images(tmp_path):
    grey = create(_save(tmp_path / "grey", _means(), _spec(None, None, None, 1)))
    np.testing.assert_allclose(grey(PIXELS), _expected(images.with_channels(PIXELS, 1)), atol=0.02)
    colour = create(_save(tmp_path / "colour", _means(), _spec(None, None, None, 3)))
    np.testing.assert_array_equal(
        colour(PIXELS[..., :1]), colour(np.repeat(PIXELS[..., :1], 3, -1))
    )


def test_saved_model_features_do_not_depend_on_the_other_images(tmp_path):
    kernel = tf.Variable(RNG.normal(size=[3, 3, 3, 32]), dtype=tf.float32)

    def network(image):
        x = tf.nn.relu(tf.nn.conv2d(tf.cast(image, tf.float32) / 255, kernel, 1, "SAME"))
        return {"features": tf.reduce_mean(x, [1, 2])}

    module = tf.Module()
    module.kernel = kernel
    module.call = tf.function(network, input_signature=[_spec(None, None, None, 3)])
    tf.saved_model.save(module, str(tmp_path), {"serving_default": module.call})
    extract = create(ExtractorOptions(name=str(tmp_path)))
    together = extract(PIXELS)
    alone = np.concatenate([extract(PIXELS[n : n + 1]) for n in range(len(PIXELS))])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(extract(PIXELS[::-1]), together[::-1])
    assert extract(PIXELS[:0]).shape == (0, 32)


def test_saved_model_of_one_batch_size_gets_batches_of_it(tmp_path):
    extract = create(_save(tmp_path, _means(), _spec(4, 8, 8, 3)))
    np.testing.assert_allclose(extract(PIXELS), _expected(PIXELS), atol=0.02)


@pytest.mark.parametrize("scale", [2.0**-30, 1.0, 2.0**30])
def test_saved_model_features_lie_on_a_grid_of_their_own_scale(tmp_path, scale):
    options = _save(tmp_path, _means(scale), _spec(None, None, None, 3))
    found = create(options)(PIXELS).astype(np.float64)
    # The largest feature of the calibration images is near 255, or 2^8, times the scale.
    np.testing.assert_array_equal(found % (scale * 2.0 ** (8 - 14)), 0.0)
    assert (found % (scale * 2.0 ** (9 - 14))).any()
    np.testing.assert_allclose(found / scale, _expected(PIXELS), atol=2.0**-7)


def test_saved_model_pin_is_checked_and_changes_with_the_files(tmp_path):
    options = _save(tmp_path, _means(), _spec(None, None, None, 3))
    pinned = options.model_copy(update={"sha256": create(options).sha256})
    assert create(pinned).sha256 == pinned.sha256
    (tmp_path / "note.txt").write_text("changed")
    with pytest.raises(ExtractorError, match=f"but {pinned.sha256} is asked for"):
        create(pinned)


def _two_images(image, other):
    return {"features": tf.reduce_mean(tf.cast(image + other, tf.float32), [1, 2])}


def _two_outputs(image):
    features = tf.reduce_mean(tf.cast(image, tf.float32), [1, 2])
    return {"features": features, "more": features}


def _maps(image):
    return {"maps": tf.cast(image, tf.float32)}


def _zeros(image):
    return {"features": tf.reduce_mean(tf.cast(image, tf.float32), [1, 2]) * 0.0}


def _infinite(image):
    return {"features": tf.reduce_mean(tf.cast(image, tf.float32), [1, 2]) / 0.0}


IMAGE = _spec(None, None, None, 3)


@pytest.mark.parametrize(
    ("function", "specs", "line"),
    [
        (_two_images, [IMAGE, _spec(None, None, None, 3, name="other")], "takes image uint8"),
        (_means(), [_spec(None, None, None, 3, dtype=tf.float64)], "takes image float64"),
        (_means(), [_spec(None, None, None, 2)], "with 1 or 3 channels"),
        (_two_outputs, [IMAGE], "gives .*; allowed: one float tensor"),
        (_maps, [IMAGE], "gives maps float32 .*; allowed: one float tensor"),
        (_zeros, [IMAGE], "all zero or not finite"),
        (_infinite, [IMAGE], "all zero or not finite"),
    ],
)
def test_saved_model_of_another_kind_is_refused_in_one_line(tmp_path, function, specs, line):
    options = _save(tmp_path, function, *specs)
    with pytest.raises(ExtractorError, match=line) as caught:
        create(options)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_saved_model_without_the_signature_names_those_it_has(tmp_path):
    options = _save(tmp_path, _means(), IMAGE, signature="classify")
    with pytest.raises(ExtractorError, match="got the signatures classify; allowed: a SavedModel"):
        create(options)


def test_saved_model_that_is_broken_is_refused_in_one_line(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(hashlib.sha256(b"").digest())
    with pytest.raises(ExtractorError, match="cannot be loaded") as caught:
        create(ExtractorOptions(name=str(tmp_path)))
    assert "\n" not in str(caught.value)


def test_saved_model_that_fails_on_an_image_says_on_which(tmp_path):
    def picky(image):
        with tf.control_dependencies([tf.debugging.assert_greater(tf.shape(image)[1], 20)]):
            return {"features": tf.reduce_mean(tf.cast(image, tf.float32), [1, 2])}

    extract = create(_save(tmp_path, picky, IMAGE))
    with pytest.raises(ExtractorError, match=r"fails on images \[8, 8, 3\]"):
        extract(PIXELS)
