"""Many images as one picture."""

from __future__ import annotations

import os

import numpy as np
from PIL import Image

#: Width of the line between the images of a grid, in pixels.
_GAP = 1


def tile(images: np.ndarray, columns: int) -> np.ndarray:
    """Lays images out in rows.

    Args:
      images: uint8 [N, H, W, C].
      columns: images in a row; the last row is filled up with white.

    Returns:
      uint8 [rows * (H + 1) - 1, columns * (W + 1) - 1, C].
    """
    count, height, width, channels = images.shape
    rows = -(-count // columns)
    shape = (rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP, channels)
    canvas = np.full(shape, 255, np.uint8)
    for index, image in enumerate(images):
        top = index // columns * (height + _GAP)
        left = index % columns * (width + _GAP)
        canvas[top : top + height, left : left + width] = image
    return canvas


def write(images: np.ndarray, columns: int, path: str, min_width: int = 480) -> None:
    """Writes images as one PNG, enlarged by a whole factor to at least `min_width` pixels."""
    canvas = tile(images, columns)
    factor = max(1, -(-min_width // canvas.shape[1]))
    canvas = canvas.repeat(factor, axis=0).repeat(factor, axis=1)
    picture = Image.fromarray(canvas[:, :, 0] if canvas.shape[2] == 1 else canvas)
    temporary = f"{path}.tmp"
    picture.save(temporary, format="PNG")
    os.replace(temporary, path)
