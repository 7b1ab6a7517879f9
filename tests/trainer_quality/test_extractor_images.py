"""Images on their way into a network: channels, size, batches."""

import numpy as np
import pytest
from PIL import Image

from trainer.quality.extractors import images
from trainer.quality.extractors.errors import ExtractorError

RNG = np.random.default_rng(0)


def _bicubic(row, size):
    """Bicubic resampling of one row by the formula (a = -0.5), support widened to shrink."""
    scale = len(row) / size
    widen = max(scale, 1.0)
    result = []
    for place in range(size):
        centre = (place + 0.5) * scale
        distance = np.abs((np.arange(len(row)) + 0.5 - centre) / widen)
        near = 1.5 * distance**3 - 2.5 * distance**2 + 1.0
        far = -0.5 * distance**3 + 2.5 * distance**2 - 4.0 * distance + 2.0
        weight = np.where(distance < 1, near, np.where(distance < 2, far, 0.0))
        result.append(np.sum(weight * row) / np.sum(weight))
    return np.array(result)


@pytest.mark.parametrize(("before", "after"), [((12, 20), (5, 7)), ((9, 8), (30, 21))])
def test_resized_is_bicubic_with_antialiasing_in_both_directions(before, after):
    image = RNG.integers(0, 256, [1, *before, 3], np.uint8)
    expected = np.apply_along_axis(_bicubic, 1, image.astype(np.float64), after[0])
    expected = np.apply_along_axis(_bicubic, 2, expected, after[1]).clip(0, 255)
    found = images.resized(image, *after)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert np.abs(found - np.rint(found)).max() > 0.4  # nothing is rounded


def test_resized_is_pillows_for_each_channel():
    image = RNG.integers(0, 256, [2, 32, 32, 3], np.uint8)
    found = images.resized(image, 299, 299)
    for n in range(2):
        for c in range(3):
            plane = Image.fromarray(image[n, ..., c].astype(np.float32), mode="F")
            expected = np.asarray(plane.resize((299, 299), resample=Image.BICUBIC)).clip(0, 255)
            np.testing.assert_array_equal(found[n, ..., c], expected)


def test_resized_overshoot_is_clipped():
    image = np.zeros([1, 8, 8, 1], np.uint8)
    image[:, :, 4:] = 255
    found = images.resized(image, 64, 64)
    assert found.min() == 0.0
    assert found.max() == 255.0


def test_resized_same_size_is_the_same():
    image = RNG.integers(0, 256, [2, 8, 9, 3], np.uint8)
    np.testing.assert_array_equal(images.resized(image, 8, 9), image.astype(np.float32))


def test_with_channels_grey_is_luma_and_colour_is_grey_three_times():
    colours = np.array([[[[255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 10, 10]]]], np.uint8)
    grey = images.with_channels(colours, 1)
    np.testing.assert_array_equal(grey[0, 0, :, 0], [76, 150, 29, 10])
    again = images.with_channels(grey, 3)
    np.testing.assert_array_equal(again, np.repeat(grey, 3, axis=-1))
    assert images.with_channels(colours, 3) is colours


@pytest.mark.parametrize(
    ("shape", "dtype"), [([2, 8, 8], "uint8"), ([2, 8, 8, 2], "uint8"), ([2, 8, 8, 1], "float32")]
)
def test_checked_other_arrays_are_refused(shape, dtype):
    with pytest.raises(ExtractorError, match=r"images: got .*; allowed: uint8 \[N, H, W, 1\]"):
        images.checked(np.zeros(shape, dtype))


def test_in_batches_network_sees_one_shape_and_padding_is_cut_off():
    seen = []

    def network(batch):
        seen.append(batch.shape)
        return batch.reshape(len(batch), -1).mean(axis=1, keepdims=True)

    given = RNG.integers(0, 256, [7, 4, 4, 1], np.uint8)
    found = images.in_batches(given, 3, network)
    assert seen == [(3, 4, 4, 1)] * 3
    np.testing.assert_allclose(found, given.reshape(7, -1).mean(axis=1, keepdims=True))


def test_calibration_is_the_same_for_ever():
    found = images.calibration(4, 16, 16, 3)
    assert found.dtype == np.uint8
    assert found.shape == (4, 16, 16, 3)
    assert (found[0, :8, :8] == found[0, 0, 0]).all()  # a patch
    assert len(np.unique(found[1])) > 200  # noise
    np.testing.assert_array_equal(found[1, 0, :2].ravel(), [127, 108, 230, 57, 78, 57])
