"""`inception`: the 2048 pooled features of Inception v3 (arXiv 1512.00567), those of FID."""

from __future__ import annotations

import hashlib
import os
import urllib.parse
from pathlib import Path

import numpy as np
import tensorflow as tf
import tf_keras

from trainer.options import ExtractorOptions
from trainer.quality.extractors import files
from trainer.quality.extractors import images as image_arrays
from trainer.quality.extractors.errors import ExtractorError
from trainer.quality.extractors.grid import on_grid
from trainer.quality.extractors.saved_model import SavedModelExtractor
from trainer.settings import flat

#: Height and width that the network was trained on, pixels.
SIDE = 299
_DIMENSION = 2048
_BATCH = 16
#: Keras' own weights, and the hash by which Keras itself knows them.
_KERAS_URL = (
    "https://storage.googleapis.com/tensorflow/keras-applications/inception_v3/"
    "inception_v3_weights_tf_dim_ordering_tf_kernels_notop.h5"
)
_KERAS_MD5 = "bcbd6486424b2319ff4ef7d526e38f63"


def fetch(options: ExtractorOptions) -> str:
    """Where the weights are: what has to be downloaded is kept in Keras' cache, ~/.keras/models.

    Args:
      options: `weights` and, to check a download by, `sha256` are read.

    Returns:
      Path of a file or of a SavedModel's folder.

    Raises:
      ExtractorError: they are not there.
    """
    weights = options.weights
    if weights is not None and not weights.startswith(("http://", "https://")):
        files.check_weights(weights)
        return weights
    url, expected = weights or _KERAS_URL, options.sha256
    if weights is None:
        expected = expected or _KERAS_MD5
    cache = Path.home() / ".keras"
    try:
        cache.mkdir(exist_ok=True)  # where it is not there, Keras takes /tmp, which is everybody's
        path: str = tf_keras.utils.get_file(
            _cached_name(url), url, cache_dir=str(cache), cache_subdir="models", file_hash=expected
        )
    except Exception as error:  # Keras raises a bare one, and whatever a socket raises
        raise ExtractorError(
            f"evaluation.extractor.weights: {url} cannot be downloaded ({flat(error)[:200]}); "
            "download it elsewhere and give its path"
        ) from error
    return path


def _cached_name(url: str) -> str:
    """Of the file in Keras' cache: its own for its own weights, else one for each URL."""
    name = os.path.basename(urllib.parse.urlparse(url).path) or "weights.h5"
    return name if url == _KERAS_URL else f"{hashlib.sha256(url.encode()).hexdigest()[:16]}-{name}"


def load(path: str, sha256: str) -> InceptionExtractor | SavedModelExtractor:
    """The extractor of some weights.

    Args:
      path: Keras' weights without the top layer, or a SavedModel of the same network.
      sha256: of the file or folder.

    Raises:
      ExtractorError: they are of another network.
    """
    if tf.io.gfile.isdir(path):
        return SavedModelExtractor(path, sha256, name=files.INCEPTION, side=SIDE)
    return InceptionExtractor(path, sha256)


class InceptionExtractor:
    """Inception v3 with Keras' weights, up to the average over all positions.

    Images are resized as clean-fid does it (Parmar et al. 2022, arXiv 2104.11222).
    """

    name = files.INCEPTION
    dimension = _DIMENSION

    def __init__(self, path: str, sha256: str):
        """Builds the network.

        Args:
          path: of the weights, as Keras' `.h5` without the top layer.
          sha256: of that file.

        Raises:
          ExtractorError: they are of another network.
        """
        self.sha256 = sha256
        try:
            model = tf_keras.applications.InceptionV3(
                include_top=False, weights=path, input_shape=(SIDE, SIDE, 3), pooling="avg"
            )
        except Exception as error:  # of h5py, of Keras or of TensorFlow
            raise ExtractorError(
                f"evaluation.extractor.weights: {path} cannot be read into Inception v3 "
                f"({flat(error)[:200]}); allowed: Keras' .h5 file without top layer"
            ) from error
        spec = tf.TensorSpec([_BATCH, SIDE, SIDE, 3], tf.float32)
        self._model = model  # kept: it holds the variables
        self._network = tf.function(
            lambda image: model(image / 127.5 - 1.0, training=False), autograph=False
        ).get_concrete_function(spec)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Features of images.

        Args:
          images: uint8 [N, H, W, C], C being 1 (grey) or 3.

        Returns:
          float32 [N, 2048], on a grid.

        Raises:
          ExtractorError: for images of another type or shape.
        """
        images = image_arrays.checked(images)
        if not len(images):
            return np.zeros((0, self.dimension), np.float32)
        return on_grid(image_arrays.in_batches(images, _BATCH, self._batch_features))

    def _batch_features(self, images: np.ndarray) -> np.ndarray:
        images = image_arrays.resized(image_arrays.with_channels(images, 3), SIDE, SIDE)
        return self._network(tf.constant(images)).numpy()
