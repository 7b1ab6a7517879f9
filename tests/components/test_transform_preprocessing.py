"""Pixels: decoding, colours, squares and sizes, against Pillow and by hand."""

import io
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
import tensorflow as tf
from PIL import Image

from components.transform import preprocessing

_PHOTO = Image.open(Path(sklearn.datasets.__file__).parent / "images" / "flower.jpg").resize(
    (60, 48)
)
_PHOTO.info.clear()


def _encoded(image: Image.Image, format: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format, **({"quality": 100, "subsampling": 0} if format == "JPEG" else {}))
    return buffer.getvalue()


def _decoded(images: list[bytes], size: int, channels: int) -> np.ndarray:
    # As a graph, as Transform runs it.
    function = tf.function(preprocessing.decode_images, reduce_retracing=True)
    raw = function(tf.constant(images), size, channels).numpy()
    assert [len(one) for one in raw] == [size * size * channels] * len(images)
    return np.stack([np.frombuffer(one, np.uint8).reshape(size, size, channels) for one in raw])


@pytest.mark.parametrize("channels", [1, 3])
def test_decode_images_of_the_wanted_shape_are_untouched(channels):
    random = np.random.default_rng(0)
    shape = (5, 16, 16, channels)
    pixels = random.integers(0, 256, shape, np.uint8)
    images = [_encoded(Image.fromarray(one[..., 0] if channels == 1 else one)) for one in pixels]
    np.testing.assert_array_equal(_decoded(images, 16, channels), pixels)


def test_decode_images_in_one_batch_may_differ_in_all():
    square = _PHOTO.crop((6, 0, 54, 48))
    images = [
        _encoded(square),
        _encoded(square, "JPEG"),
        _encoded(square.convert("L")),
        _encoded(square.resize((96, 96))),
    ]
    found = _decoded(images, 48, 3).astype(int)
    expected = np.asarray(square).astype(int)
    np.testing.assert_array_equal(found[0], expected)
    by_pillow = np.asarray(Image.open(io.BytesIO(images[1]))).astype(int)
    assert np.abs(found[1] - by_pillow).max() <= 1
    np.testing.assert_array_equal(found[2], np.asarray(square.convert("L"))[..., None].repeat(3, 2))
    assert np.abs(found[3] - expected).mean() < 4


def test_decode_images_colour_to_grey_is_pillows_luma():
    square = _PHOTO.crop((6, 0, 54, 48))
    found = _decoded([_encoded(square)], 48, 1)[0, ..., 0].astype(int)
    # Pillow rounds in fixed point.
    assert np.abs(found - np.asarray(square.convert("L"))).max() <= 1
    colours = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 255, 255]]], np.uint8)
    grey = _decoded([_encoded(Image.fromarray(colours))], 2, 1)[0, ..., 0]
    assert grey.tolist() == [[76, 150], [29, 255]]


def test_decode_images_grey_to_colour_repeats_it():
    grey = np.array([[0, 9], [200, 255]], np.uint8)
    found = _decoded([_encoded(Image.fromarray(grey))], 2, 3)[0]
    np.testing.assert_array_equal(found, grey[..., None].repeat(3, 2))


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
@pytest.mark.parametrize("channels", [1, 3])
def test_decode_images_alpha_is_ignored(mode, channels):
    square = _PHOTO.crop((6, 0, 54, 48)).convert(mode[:-1])
    with_alpha = square.copy()
    with_alpha.putalpha(Image.effect_noise((48, 48), 60))
    found = _decoded([_encoded(with_alpha), _encoded(square)], 48, channels)
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("size", [16, 28, 32, 64])
def test_decode_images_resize_is_pillows_antialiased_bilinear(size):
    square = _PHOTO.crop((6, 0, 54, 48))
    expected = np.asarray(square.resize((size, size), Image.Resampling.BILINEAR)).astype(int)
    found = _decoded([_encoded(square)], size, 3)[0].astype(int)
    assert np.abs(found - expected).max() <= 1


def test_decode_images_resize_averages_all_pixels():
    # A fine pattern: without antialiasing it would come out black, white or striped.
    pixels = np.indices((64, 64)).sum(0) % 2 * np.uint8(255)
    found = _decoded([_encoded(Image.fromarray(pixels.astype(np.uint8)))], 16, 1)
    assert np.abs(found.astype(int)[:, 1:-1, 1:-1] - 127.5).max() <= 1


def test_decode_images_resize_rounds_to_the_nearest_level():
    pixels = np.array([[255, 255], [255, 254]], np.uint8)  # 254.75 on average
    assert _decoded([_encoded(Image.fromarray(pixels))], 1, 1).tolist() == [[[[255]]]]


@pytest.mark.parametrize(("width", "height", "box"), [
    (9, 4, (2, 0, 6, 4)),
    (4, 9, (0, 2, 4, 6)),
    (5, 4, (0, 0, 4, 4)),
])  # fmt: skip
def test_decode_images_not_square_keeps_the_middle(width, height, box):
    pixels = np.arange(width * height, dtype=np.uint8).reshape(height, width)
    image = Image.fromarray(pixels)
    found = _decoded([_encoded(image)], 4, 1)[0, ..., 0]
    np.testing.assert_array_equal(found, np.asarray(image.crop(box)))


def test_decode_images_empty_batch_is_empty():
    encoded = tf.constant([], tf.string)
    assert preprocessing.decode_images(encoded, 8, 1).shape == (0,)
