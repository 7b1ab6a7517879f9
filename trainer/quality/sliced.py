"""Sliced Wasserstein distance between sets of images, in their pixels: needs no extractor.

Bonneel et al. 2015, "Sliced and Radon Wasserstein barycenters of measures"; for generated images
Deshpande et al. 2018, arXiv 1803.11188.
"""

from __future__ import annotations

import functools

import numpy as np

#: How many directions images are projected to.
DIRECTIONS = 128
_SEED = 18031118
_BATCH_BYTES = 64 << 20


def project(images: np.ndarray) -> np.ndarray:
    """Pixels along fixed random directions of equal length.

    The length is such that an all white image lies, in the mean over directions, 1 away from an
    all black one. Bit-identical whatever the batch: directions are whole numbers, and so sums of
    their products with uint8 are exact.

    Args:
      images: uint8 [N, H, W, C].

    Returns:
      float32 [N, 128].

    Raises:
      ValueError: for images of another type or rank.
    """
    images = np.asarray(images)
    if images.dtype != np.uint8 or images.ndim != 4:
        raise ValueError(
            f"images: got {images.dtype} {list(images.shape)}; allowed: uint8 [N, H, W, C]"
        )
    flat = images.reshape(len(images), int(np.prod(images.shape[1:])))
    directions, lengths = _directions(flat.shape[1])
    rows = max(1, _BATCH_BYTES // (8 * flat.shape[1]))
    projections = np.empty((len(flat), DIRECTIONS), np.float32)
    for start in range(0, len(flat), rows):
        part = flat[start : start + rows].astype(np.float64)
        projections[start : start + rows] = part @ directions / lengths
    return projections


def sliced_wasserstein_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Mean over directions of the one-dimensional Wasserstein-1 distance.

    Args:
      first: float32 [N, P], projections.
      second: float32 [M, P].

    Returns:
      The distance, at least 0, 1 being all black to all white images; NaN for an empty set.
    """
    n, m = len(first), len(second)
    if min(n, m) < 1:
        return float("nan")
    # Both quantile functions are steps, with edges at i / n and j / m: in whole n m-ths.
    edges = np.union1d(np.arange(1, n + 1) * m, np.arange(1, m + 1) * n)
    weights = np.diff(edges, prepend=0) / (n * m)
    gaps = _sorted(first)[(edges - 1) // m] - _sorted(second)[(edges - 1) // n]
    return float((weights @ np.abs(gaps)).mean())


def _sorted(projections: np.ndarray) -> np.ndarray:
    return np.sort(np.asarray(projections, np.float64), axis=0)


@functools.lru_cache(maxsize=4)
def _directions(pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers float64 [pixels, 128], nearly normal, and what to divide by, float64 [128].

    Each is the sum of four 16-bit numbers, less its mean: exact, on any machine.
    """
    raw = np.random.Philox(key=_SEED).random_raw(pixels * DIRECTIONS)
    quarters = raw[:, np.newaxis] >> np.arange(0, 64, 16, dtype=np.uint64) & np.uint64(0xFFFF)
    whole = quarters.sum(axis=1).astype(np.int64) - 2 * 0xFFFF
    whole = whole.reshape(pixels, DIRECTIONS)
    lengths = np.sqrt((whole * whole).sum(axis=0).astype(np.float64))
    black_to_white = np.abs(whole.sum(axis=0) / lengths).mean()
    return whole.astype(np.float64), 255.0 * black_to_white * lengths
