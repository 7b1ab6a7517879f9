"""Features of any SavedModel whose signature takes one image and gives one vector."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from trainer.quality.extractors import images as image_arrays
from trainer.quality.extractors.errors import ExtractorError
from trainer.quality.extractors.grid import on_grid, step_for
from trainer.settings import flat

_SIGNATURE = "serving_default"
_BATCH = 64
#: Height and width of the images that the scale of a network of any image size is read from.
_ANY_SIZE = 64


class SavedModelExtractor:
    """A SavedModel, of whatever origin.

    Its signature `serving_default` takes one image tensor [N, H, W, C], uint8 or float32, and
    gives one float tensor [N, D]. Float images are in [0, 1], as TensorFlow Hub's are. Images of
    another size or number of channels are converted first.
    """

    def __init__(self, path: str, sha256: str, *, name: str | None = None, side: int | None = None):
        """Loads the model and reads the scale of its features.

        Args:
          path: folder of the SavedModel.
          sha256: of its files.
          name: what the user calls it; None: its path.
          side: height and width, pixels, for a model that takes any; None: the images' own.

        Raises:
          ExtractorError: it cannot be loaded, or is not such a model.
        """
        self.name = path if name is None else name
        self.sha256 = sha256
        self._path = path
        try:
            self._model = tf.saved_model.load(path)  # kept: it holds the variables
        except Exception as error:  # TensorFlow raises whatever its reader met
            raise ExtractorError(
                f"extractor {path}: cannot be loaded: {flat(error)[:200]}"
            ) from error
        self._network = self._signature()
        self._input, self._output = self._ends()
        self._batch_size, *sizes, self._channels = self._input.shape.as_list()
        self._batch_size = self._batch_size or _BATCH
        self._sizes = [size or side for size in sizes]
        height, width = (size or _ANY_SIZE for size in self._sizes)
        sample = image_arrays.calibration(self._batch_size, height, width, self._channels or 3)
        features = self._features(sample)
        self.dimension = features.shape[1]
        if not np.isfinite(features).all() or not features.any():
            raise ExtractorError(
                f"extractor {path}: its features of noise are all zero or not finite; "
                "give a model that tells images apart"
            )
        self._step = step_for(features)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Features of images.

        Args:
          images: uint8 [N, H, W, C], C being 1 (grey) or 3.

        Returns:
          float32 [N, D], on a grid.

        Raises:
          ExtractorError: for images of another type or shape, or that the model does not take.
        """
        images = image_arrays.checked(images)
        if not len(images):
            return np.zeros((0, self.dimension), np.float32)
        return on_grid(self._features(images), self._step)

    def _features(self, images: np.ndarray) -> np.ndarray:
        return image_arrays.in_batches(images, self._batch_size, self._batch_features)

    def _batch_features(self, images: np.ndarray) -> np.ndarray:
        if self._channels is not None:
            images = image_arrays.with_channels(images, self._channels)
        height, width = (
            fixed or given for fixed, given in zip(self._sizes, images.shape[1:3], strict=True)
        )
        if self._input.dtype == tf.float32:
            images = image_arrays.resized(images, height, width) / np.float32(255.0)
        elif images.shape[1:3] != (height, width):
            images = np.rint(image_arrays.resized(images, height, width)).astype(np.uint8)
        try:
            found = self._network(**{self._input.name: tf.constant(images)})[self._output]
        except tf.errors.OpError as error:
            shape = list(images.shape[1:])
            raise ExtractorError(
                f"extractor {self._path}: fails on images {shape}: {flat(error)[:200]}"
            ) from error
        return found.numpy().astype(np.float32)

    def _signature(self) -> tf.types.experimental.ConcreteFunction:
        signatures = self._model.signatures
        if _SIGNATURE not in signatures:
            raise ExtractorError(
                f"extractor {self._path}: got the signatures {', '.join(signatures) or '(none)'}; "
                f"allowed: a SavedModel with {_SIGNATURE}"
            )
        return signatures[_SIGNATURE]

    def _ends(self) -> tuple[tf.TensorSpec, str]:
        """The one input, and the name of the one output."""
        inputs = self._network.structured_input_signature[1]
        outputs = self._network.structured_outputs
        taken = [
            tf.TensorSpec(spec.shape, spec.dtype, name)
            for name, spec in inputs.items()
            if spec.dtype in (tf.uint8, tf.float32)
            and spec.shape.rank == 4
            and spec.shape[-1] in (None, 1, 3)
        ]
        given = [
            name
            for name, spec in outputs.items()
            if spec.dtype.is_floating and spec.shape.rank == 2
        ]
        if len(inputs) != 1 or len(taken) != 1:
            raise ExtractorError(
                f"extractor {self._path}: {_SIGNATURE} takes {_described(inputs)}; allowed: one "
                "image, uint8 or float32 [N, H, W, C] with 1 or 3 channels"
            )
        if len(outputs) != 1 or len(given) != 1:
            raise ExtractorError(
                f"extractor {self._path}: {_SIGNATURE} gives {_described(outputs)}; allowed: one "
                "float tensor [N, D]"
            )
        return taken[0], given[0]


def _described(specs: dict[str, tf.TensorSpec]) -> str:
    return ", ".join(
        f"{name} {spec.dtype.name} {spec.shape}" for name, spec in sorted(specs.items())
    )
