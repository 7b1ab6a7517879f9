"""Images as a network wants them: its channels, its size, its number at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

from trainer.quality.extractors.errors import ExtractorError

#: Shares of red, green and blue in a grey value (ITU-R BT.601, as Pillow has it).
_LUMA = np.array([0.299, 0.587, 0.114])
_CALIBRATION_SEED = 20221104


def checked(images: np.ndarray) -> np.ndarray:
    """The images, if they are such as extractors take.

    Raises:
      ExtractorError: they are not uint8 [N, H, W, C], C being 1 or 3.
    """
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] not in (1, 3):
        raise ExtractorError(
            f"images: got {images.dtype} {list(images.shape)}; "
            "allowed: uint8 [N, H, W, 1] or [N, H, W, 3]"
        )
    return images


def with_channels(images: np.ndarray, channels: int) -> np.ndarray:
    """Grey images in colour, or coloured ones in grey.

    Args:
      images: uint8 [N, H, W, 1] or [N, H, W, 3].
      channels: 1 or 3.

    Returns:
      uint8 [N, H, W, channels]; grey is luma, rounded.
    """
    if images.shape[-1] == channels:
        return images
    if channels == 3:
        return np.repeat(images, 3, axis=-1)
    return np.rint(images @ _LUMA).astype(np.uint8)[..., np.newaxis]


def resized(images: np.ndarray, height: int, width: int) -> np.ndarray:
    """Images of another size, as clean-fid has them (Parmar et al. 2022, arXiv 2104.11222).

    Pillow's bicubic filter, widened where images shrink so that nothing aliases; each channel as
    float32, so that nothing is rounded; then clipped, because the filter overshoots at edges.

    Args:
      images: uint8 [N, H, W, C].
      height: of the result, pixels.
      width: of the result, pixels.

    Returns:
      float32 [N, height, width, C], in [0, 255].
    """
    if images.shape[1:3] == (height, width):
        return images.astype(np.float32)
    result = np.empty((len(images), height, width, images.shape[-1]), np.float32)
    for image, place in zip(images.astype(np.float32), result, strict=True):
        for channel in range(image.shape[-1]):
            plane = Image.fromarray(np.ascontiguousarray(image[..., channel]), mode="F")
            place[..., channel] = plane.resize((width, height), Image.Resampling.BICUBIC)
    return np.clip(result, 0.0, 255.0)


def in_batches(
    images: np.ndarray, size: int, network: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """What a network makes of images, always so many of them at a time.

    The last batch is padded: the network sees one shape only, and what it makes of an image does
    not depend on how many others there are.

    Args:
      images: uint8 [N, H, W, C].
      size: images in a batch.
      network: from uint8 [size, H, W, C] to float32 [size, D].

    Returns:
      float32 [N, D]; [0, 0] for no images.
    """
    parts = [network(batch)[:count] for batch, count in _padded(images, size)]
    return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)


def _padded(images: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, int]]:
    """Batches of `size` images, each with the number of images that are not padding."""
    for start in range(0, len(images), size):
        batch = images[start : start + size]
        padding = np.zeros((size - len(batch), *images.shape[1:]), np.uint8)
        yield np.concatenate([batch, padding]), len(batch)


def calibration(count: int, height: int, width: int, channels: int) -> np.ndarray:
    """Images that features' scale is read from: noise, fine and in patches, the same for ever.

    Returns:
      uint8 [count, height, width, channels].
    """
    bits = np.random.Philox(key=_CALIBRATION_SEED).random_raw(count * height * width * channels)
    images = (bits >> np.uint64(56)).astype(np.uint8).reshape(count, height, width, channels)
    rows, columns = np.arange(height) // 8, np.arange(width) // 8
    images[::2] = images[::2][:, rows][:, :, columns]
    return images
