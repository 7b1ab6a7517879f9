"""`random`: features of an untrained network, the same function for ever."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf

from trainer.quality.extractors.grid import on_grid

#: Widths of the convolutions of the random network, block by block.
_RANDOM_BLOCKS = ((32, 32), (64, 64), (128, 128))
_RANDOM_DIMENSION = 64
_RANDOM_SEED = 20170401


class RandomExtractor:
    """An untrained network: no weights to fetch, no labels, the same function for ever.

    VGG's layout (3x3 convolutions, ReLU, max pooling), the mean over all positions and a
    projection. That untrained features can tell sets of images apart, far from ImageNet too,
    is shown by Naeem et al. 2020, arXiv 2002.09797. They weigh background and contrast heavily.
    """

    name = "random"
    sha256 = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    dimension = _RANDOM_DIMENSION

    def __init__(self, batch_size: int = 64):
        """Builds the network.

        Args:
          batch_size: images that are handed to TensorFlow at a time. Smaller sets are padded, so
            that each image size is traced once.
        """
        self._batch_size = batch_size
        self._kernels, self._projection = _random_weights()
        self._compiled: dict[tuple[int, ...], tf.types.experimental.ConcreteFunction] = {}

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Features of images.

        Args:
          images: uint8 [N, H, W, C], H and W at least 8, C being 1 (grey) or 3.

        Returns:
          float32 [N, 64].

        Raises:
          ValueError: for images of another type or shape.
        """
        images = np.asarray(images)
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] not in (1, 3):
            raise ValueError(
                f"images: got {images.dtype} {list(images.shape)}; "
                "allowed: uint8 [N, H, W, 1] or [N, H, W, 3]"
            )
        if min(images.shape[1:3]) < 8:
            raise ValueError(
                f"images: got {images.shape[1]}x{images.shape[2]} pixels; allowed: 8x8 or more"
            )
        network = self._network_for(images.shape[1:])
        parts = [
            network(tf.constant(batch)).numpy()[:count]
            for batch, count in _padded_batches(images, self._batch_size)
        ]
        vectors = np.concatenate(parts) if parts else np.zeros((0, self.dimension), np.float32)
        return on_grid(vectors)

    def _network_for(self, shape: tuple[int, ...]) -> tf.types.experimental.ConcreteFunction:
        if shape not in self._compiled:
            spec = tf.TensorSpec([self._batch_size, *shape], tf.uint8)
            self._compiled[shape] = tf.function(self._network).get_concrete_function(spec)
        return self._compiled[shape]

    def _network(self, images: tf.Tensor) -> tf.Tensor:
        x = tf.cast(images, tf.float32) / 127.5 - 1.0
        if x.shape[-1] == 1:
            x = tf.repeat(x, 3, axis=-1)  # a grey image is the colour image that looks the same
        for kernels in self._kernels:
            for kernel in kernels:
                x = tf.nn.relu(tf.nn.conv2d(x, kernel, strides=1, padding="SAME"))
            x = tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME")
        return tf.reduce_mean(x, axis=[1, 2]) @ self._projection


def _padded_batches(images: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, int]]:
    """Batches of exactly `size` images, each with the number of images that are not padding."""
    for start in range(0, len(images), size):
        batch = images[start : start + size]
        if len(batch) < size:
            padding = np.zeros((size - len(batch), *images.shape[1:]), np.uint8)
            yield np.concatenate([batch, padding]), len(batch)
        else:
            yield batch, size


@functools.cache
def _random_weights() -> tuple[tuple[tuple[np.ndarray, ...], ...], np.ndarray]:
    """Kernels [3, 3, in, out] by block, and the projection [in, 64]; float32."""
    bits = np.random.Philox(key=_RANDOM_SEED)
    depth = 3
    blocks = []
    for widths in _RANDOM_BLOCKS:
        kernels = []
        for width in widths:
            kernels.append(_he_uniform(bits, (3, 3, depth, width)))
            depth = width
        blocks.append(tuple(kernels))
    return tuple(blocks), _he_uniform(bits, (depth, _RANDOM_DIMENSION))


def _he_uniform(bits: np.random.Philox, shape: tuple[int, ...]) -> np.ndarray:
    """Weights of variance 2 / fan_in (He et al. 2015, arXiv 1502.01852).

    Uniform and from raw bits by exact arithmetic: NumPy promises the bits of a generator for
    ever, but not the stream of its normal distribution, and libraries differ in the last digit
    of a logarithm.
    """
    fan_in = int(np.prod(shape[:-1]))
    count = int(np.prod(shape))
    unit = (bits.random_raw(count) >> np.uint64(11)).astype(np.float64) / 2.0**53
    return ((2.0 * unit - 1.0) * np.sqrt(6.0 / fan_in)).astype(np.float32).reshape(shape)
