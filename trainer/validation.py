"""What training is worth on images that it does not see: distance, overfitting, collapse."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from trainer import losses, networks, noise
from trainer.data import Dataset
from trainer.noise import Purpose
from trainer.options import ExtractorOptions, TrainingOptions
from trainer.quality import extractors
from trainer.quality.frechet import relative_frechet_distance
from trainer.quality.moments import Moments
from trainer.state import State
from trainer.step import to_float, to_pixels

#: Images that are computed at a time.
_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One look at the held-out images.

    Attributes:
      distance: relative Frechet distance between them and the average generator's images, which
        are what would be exported.
      deviation: standard deviation of the generated pixels, each over the images, over that of
        the real ones; 0: all images are the same.
      wasserstein: the critic's estimate between held-out images and the generator's; where it
        falls behind the estimate on training images, the critic knows those by heart. (With
        batch normalisation the generator uses its moving statistics here.)
      gradient_norms: of the critic, at points between them, float32 [N].
    """

    distance: float
    deviation: float
    wasserstein: float
    gradient_norms: np.ndarray

    def metrics(self) -> dict[str, float]:
        """The numbers by their names in `metrics.jsonl`."""
        return {
            "validation_distance": self.distance,
            "validation_wasserstein": self.wasserstein,
            "sample_deviation": self.deviation,
        }


class Validator:
    """Measures a generator and a critic against held-out images, always the same.

    Everything runs outside the replicas, on the device that holds the first copy of the weights.

    Args:
      state: what is trained.
      options: `seed` and `validation_images` are read.
      heldout: held-out images, of which some `usable` ones are drawn, always the same.
      extractor: of the features, as the Evaluator's.

    Raises:
      ValueError: the extractor cannot be used.
    """

    def __init__(
        self, state: State, options: TrainingOptions, heldout: Dataset, extractor: ExtractorOptions
    ):
        # Drawn, because plain arrays come in any order: sorted by class, say.
        places = np.random.Generator(np.random.Philox(0)).permutation(
            usable(heldout, state.classes)
        )[: options.validation_images]
        count = len(places)
        self._state = state
        self._images, self._labels = heldout.gather(places)
        self._latents = noise.fixed_normal(
            options.seed, Purpose.VALIDATION_LATENT, [count, state.latent_dim]
        ).numpy()
        self._alphas = noise.fixed_uniform(
            options.seed, Purpose.VALIDATION_ALPHA, [count, 1, 1, 1]
        ).numpy()
        self._extract = extractors.create(extractor)
        self._real = Moments.of(self._extract(self._images))
        self._real_deviation = _deviation(self._images)
        dtype = state.dtype

        @tf.function(autograph=False, reduce_retracing=True)
        def generate(latent: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
            label = label if state.conditional else None
            return to_pixels(networks.call(state.ema_generator, tf.cast(latent, dtype), label))

        @tf.function(autograph=False, reduce_retracing=True)
        def judge(
            image: tf.Tensor, label: tf.Tensor, latent: tf.Tensor, alpha: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor]:
            label = label if state.conditional else None
            real = to_float(image, dtype)
            fake = networks.call(state.generator, tf.cast(latent, dtype), label)
            between = losses.interpolate(real, fake, tf.cast(alpha, dtype))
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(between)
                scores = networks.call(state.critic, between, label)
            wasserstein = -losses.critic_wasserstein(
                networks.call(state.critic, real, label), networks.call(state.critic, fake, label)
            )
            return wasserstein, losses.gradient_norm(tape.gradient(scores, between))

        self._generate = generate
        self._judge = judge

    @property
    def can_measure(self) -> bool:
        """Whether the images differ: a distance needs their spread."""
        return self._real_deviation > 0.0

    def __len__(self) -> int:
        """Number of held-out images that are measured against."""
        return len(self._images)

    def measure(self) -> Measurement:
        """Measures the state as it is now."""
        made, estimates, norms = [], [], []
        for rows in self._batches():
            latent, label = self._latents[rows], self._labels[rows]
            made.append(self._generate(latent, label).numpy())
            wasserstein, norm = self._judge(self._images[rows], label, latent, self._alphas[rows])
            estimates.append(wasserstein.numpy())
            norms.append(norm.numpy())
        images = np.concatenate(made)
        return Measurement(
            distance=relative_frechet_distance(self._real, Moments.of(self._extract(images))),
            deviation=_deviation(images) / max(self._real_deviation, 1e-12),
            wasserstein=float(np.mean(np.concatenate(estimates), dtype=np.float64)),
            gradient_norms=np.concatenate(norms).astype(np.float32),
        )

    def _batches(self) -> Iterator[slice]:
        for start in range(0, len(self), _BATCH):
            yield slice(start, start + _BATCH)


def usable(heldout: Dataset, classes: int) -> np.ndarray:
    """Places of the examples that can be measured against.

    Args:
      heldout: held-out images.
      classes: that the networks know; images of other ones are left out. 0: labels do not count.
    """
    if not classes:
        return np.arange(len(heldout))
    return np.flatnonzero((heldout.labels >= 0) & (heldout.labels < classes))


def _deviation(images: np.ndarray) -> float:
    """Root of the mean, over pixels, of the variance over images uint8 [N, H, W, C]."""
    return float(np.sqrt(np.var(images.astype(np.float32), axis=0).mean(dtype=np.float64)))
