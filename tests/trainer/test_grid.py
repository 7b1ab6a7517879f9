"""Many images as one picture."""

import numpy as np
import pytest
from PIL import Image

from trainer import grid


def test_tile_puts_images_in_rows_with_a_line_between():
    images = np.stack([np.full([2, 3, 1], value, np.uint8) for value in (10, 20, 30)])
    canvas = grid.tile(images, columns=2)
    assert canvas.shape == (5, 7, 1)
    expected = np.full([5, 7], 255)
    expected[:2, :3], expected[:2, 4:], expected[3:, :3] = 10, 20, 30
    np.testing.assert_array_equal(canvas[..., 0], expected)


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB")])
def test_write_enlarges_by_a_whole_factor(tmp_path, channels, mode):
    images = np.arange(4 * 8 * 8 * channels, dtype=np.uint8).reshape(4, 8, 8, channels)
    path = tmp_path / "grid.png"
    grid.write(images, columns=2, path=str(path), min_width=40)
    picture = Image.open(path)
    assert (picture.mode, picture.size) == (mode, (51, 51))
    small = np.asarray(picture.resize((17, 17), Image.Resampling.NEAREST)).reshape(17, 17, channels)
    np.testing.assert_array_equal(small, grid.tile(images, 2))
    assert list(tmp_path.iterdir()) == [path]
