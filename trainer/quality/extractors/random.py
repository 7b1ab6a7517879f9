"""`random`: features of an untrained network, the same function for ever."""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf

from trainer.quality.extractors import files
from trainer.quality.extractors.errors import ExtractorError
from trainer.quality.extractors.grid import on_grid
from trainer.quality.extractors.images import checked, in_batches

#: Widths of the convolutions of the random network, block by block.
_BLOCKS = ((32, 32), (64, 64), (128, 128))
_DIMENSION = 64
_SEED = 20170401
#: Weight of an image's brightness and contrast among the features of what is seen in it.
_LIGHT = 2.0
#: Added to the variance of the pixels, in [-1, 1]: what varies by less than 4 of 255 is no picture.
_FLAT = 1e-3


class RandomExtractor:
    """An untrained network: no weights to fetch, no labels, the same function for ever.

    The image, brought to mean 0 and variance 1, goes through VGG's layout (3x3 convolutions,
    ReLU, max pooling), the mean over all positions and a projection; its own mean and deviation
    are the last two features. That untrained features can tell sets of images apart, far from
    ImageNet too, is shown by Naeem et al. 2020, arXiv 2002.09797. On the pixels as they are
    they would see little else than background and contrast, see docs/metrics.md.
    """

    name = "random"
    sha256 = files.random_sha256()
    dimension = _DIMENSION

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
          float32 [N, 64], on a grid; the last two are brightness and contrast.

        Raises:
          ExtractorError: for images of another type or shape.
        """
        images = checked(images)
        if min(images.shape[1:3]) < 8:
            raise ExtractorError(
                f"images: got {images.shape[1]}x{images.shape[2]} pixels; allowed: 8x8 or more"
            )
        if not len(images):
            return np.zeros((0, self.dimension), np.float32)
        network = self._network_for(images.shape[1:])
        vectors = in_batches(
            images, self._batch_size, lambda batch: network(tf.constant(batch)).numpy()
        )
        return on_grid(vectors)

    def _network_for(self, shape: tuple[int, ...]) -> tf.types.experimental.ConcreteFunction:
        if shape not in self._compiled:
            spec = tf.TensorSpec([self._batch_size, *shape], tf.uint8)
            self._compiled[shape] = tf.function(self._network).get_concrete_function(spec)
        return self._compiled[shape]

    def _network(self, images: tf.Tensor) -> tf.Tensor:
        mean, variance = _moments(images)
        x = tf.cast(images, tf.float32) / 127.5 - 1.0
        x = (x - mean) / tf.sqrt(variance + _FLAT)
        if x.shape[-1] == 1:
            x = tf.repeat(x, 3, axis=-1)  # a grey image is the colour image that looks the same
        for kernels in self._kernels:
            for kernel in kernels:
                x = tf.nn.relu(tf.nn.conv2d(x, kernel, strides=1, padding="SAME"))
            x = tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME")
        seen = tf.reduce_mean(x, axis=[1, 2]) @ self._projection
        light = _LIGHT * tf.concat([mean, tf.sqrt(variance)], axis=-1)[:, 0, 0]
        return tf.concat([seen, light], axis=1)


def _moments(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Mean and variance of each image's values in [-1, 1], float32 [N, 1, 1, 1]."""
    # Sums of whole numbers are exact in float64, and so the same in any batch.
    values = tf.cast(images, tf.float64)
    mean = tf.reduce_mean(values, axis=[1, 2, 3], keepdims=True)
    square = tf.reduce_mean(values * values, axis=[1, 2, 3], keepdims=True)
    variance = tf.maximum(square - mean * mean, 0.0)
    return tf.cast(mean / 127.5 - 1.0, tf.float32), tf.cast(variance / 127.5**2, tf.float32)


@functools.cache
def _random_weights() -> tuple[tuple[tuple[np.ndarray, ...], ...], np.ndarray]:
    """Kernels [3, 3, in, out] by block, and the projection [in, 62]; float32."""
    bits = np.random.Philox(key=_SEED)
    depth = 3
    blocks = []
    for widths in _BLOCKS:
        kernels = []
        for width in widths:
            kernels.append(_he_uniform(bits, (3, 3, depth, width)))
            depth = width
        blocks.append(tuple(kernels))
    return tuple(blocks), _he_uniform(bits, (depth, _DIMENSION - 2))


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
