"""The random extractor: pinned, whatever the batch, and able to tell bad images from good."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from sklearn import datasets

from trainer.options import ExtractorOptions
from trainer.quality import extractors
from trainer.quality.extractors import random
from trainer.quality.frechet import relative_frechet_distance
from trainer.quality.moments import Moments


@pytest.fixture(scope="module")
def extract():
    return extractors.create(ExtractorOptions())


@pytest.fixture(scope="module")
def digits():
    """uint8 [1797, 8, 8, 1]."""
    images = datasets.load_digits().images * (255 / 16)
    return images.astype(np.uint8)[..., np.newaxis]


def test_random_weights_are_these_for_ever():
    blocks, projection = random._random_weights()
    kernels = [kernel for block in blocks for kernel in block]
    shapes = [kernel.shape for kernel in kernels]
    assert shapes == [
        (3, 3, 3, 32),
        (3, 3, 32, 32),
        (3, 3, 32, 64),
        (3, 3, 64, 64),
        (3, 3, 64, 128),
        (3, 3, 128, 128),
    ]
    digest = hashlib.sha256(b"".join(w.astype("<f4").tobytes() for w in (*kernels, projection)))
    assert digest.hexdigest()[:16] == "8794737e24ed6614"
    for weights in (*kernels, projection):
        fan_in = np.prod(weights.shape[:-1])
        assert weights.std() == pytest.approx(np.sqrt(2.0 / fan_in), rel=0.05)


@pytest.mark.parametrize("size", [8, 28, 33, 128])
@pytest.mark.parametrize("channels", [1, 3])
def test_random_extractor_any_size_gives_64_finite_float32(extract, size, channels):
    images = np.random.default_rng(0).integers(0, 256, (3, size, size, channels), np.uint8)
    features = extract(images)
    assert features.dtype == np.float32
    assert features.shape == (3, extract.dimension) == (3, 64)
    assert np.isfinite(features).all()


def test_random_extractor_batch_size_and_neighbours_do_not_matter(digits):
    small, large = random.RandomExtractor(batch_size=3), random.RandomExtractor(64)
    together = large(digits[:70])
    np.testing.assert_allclose(small(digits[:70]), together, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(large(digits[69:70]), together[69:])
    np.testing.assert_array_equal(large(digits[:70][::-1])[::-1], together)


def test_random_extractor_no_images_gives_no_features(extract):
    assert extract(np.zeros((0, 8, 8, 1), np.uint8)).shape == (0, 64)


def test_random_extractor_grey_equals_the_same_in_colour(extract, digits):
    colour = np.repeat(digits[:9], 3, axis=-1)
    np.testing.assert_allclose(extract(digits[:9]), extract(colour), rtol=1e-4, atol=1e-5)


def test_random_extractor_traces_each_size_once(digits):
    extract = random.RandomExtractor(batch_size=4)
    for count in (1, 3, 4, 9):
        extract(digits[:count])
    assert len(extract._compiled) == 1


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 8, 8, 1), np.float32), r"got float32 \[2, 8, 8, 1\]; allowed: uint8"),
        (np.zeros((2, 8, 8), np.uint8), r"got uint8 \[2, 8, 8\]"),
        (np.zeros((2, 8, 8, 2), np.uint8), r"got uint8 \[2, 8, 8, 2\]"),
        (np.zeros((2, 7, 8, 1), np.uint8), r"got 7x8 pixels; allowed: 8x8 or more"),
    ],
)
def test_random_extractor_other_images_raise(extract, images, message):
    with pytest.raises(ValueError, match=message):
        extract(images)


def test_random_features_distance_grows_with_degradation(extract, digits):
    random = np.random.default_rng(0)
    real, other = Moments.of(extract(digits[::2])), digits[1::2]

    def distance(images):
        return relative_frechet_distance(real, Moments.of(extract(images.astype(np.uint8))))

    def noisy(share):
        noise = random.uniform(0, 255, other.shape)
        return other * (1 - share) + noise * share

    distances = [distance(images) for images in (other, noisy(0.1), noisy(0.3), noisy(1.0))]
    assert distances == sorted(distances)
    assert distances[0] < 0.05
    assert distances[-1] > 20 * distances[0]
    few_kinds = np.tile(other[:4], (200, 1, 1, 1))
    assert distance(few_kinds) > 5 * distances[0]


def test_random_features_end_with_brightness_and_contrast(extract):
    images = np.zeros((3, 8, 8, 1), np.uint8)
    images[1] = 255
    images[2, :4] = 255
    # Twice mean and deviation of the pixels in [-1, 1], to the grid.
    np.testing.assert_array_equal(extract(images)[:, -2:], [[-2, 0], [2, 0], [0, 2]])


@pytest.mark.parametrize("change", [lambda x: x * 0.5 + 100, lambda x: x * 0.25, lambda x: 255 - x])
def test_random_features_other_than_those_do_not_see_background_and_contrast(
    extract, digits, change
):
    plain, changed = digits[:50], change(digits[:50].astype(np.float64)).astype(np.uint8)
    seen = [extract(images)[:, :-2] for images in (plain, changed, digits[50:100])]
    error, difference = (np.abs(seen[0] - other).mean() for other in seen[1:])
    if change(0.0) < 200:
        assert error < 0.2 * difference
    else:  # a negative is another picture
        assert error > difference


def test_random_features_rank_shifted_background_above_noise(extract, digits):
    noise = np.random.default_rng(0).integers(0, 256, digits[1::2].shape, np.uint8)
    shifted = (digits[1::2] * 0.5 + 100).astype(np.uint8)
    real = Moments.of(extract(digits[::2]))
    distances = [
        relative_frechet_distance(real, Moments.of(extract(images)))
        for images in (digits[1::2], shifted, noise)
    ]
    assert distances[0] < 0.1 * distances[1]
    assert distances[1] < 0.5 * distances[2]
