"""One critic update and one generator update, as every replica runs them.

The one place where losses are reduced: each replica adds up its own examples and divides by the
*global* batch size, the Wasserstein term and the penalty alike; the optimizers then add
gradients up over replicas (`apply_gradients` all-reduces with SUM), and metrics are added up the
same way. So nothing here depends on the number of replicas.
"""

from __future__ import annotations

import dataclasses
import enum

import tensorflow as tf
import tf_keras

from trainer import losses, networks
from trainer.options import ModelOptions, OptimizerOptions, TrainingOptions

#: Order of the numbers in the vectors that the updates return.
CRITIC_METRICS = ("critic_loss", "wasserstein", "gradient_penalty", "gradient_norm")
GENERATOR_METRICS = ("generator_loss",)


class Purpose(enum.IntEnum):
    """What random numbers are for; each purpose has a stream of its own."""

    CRITIC_LATENT = 0
    GENERATOR_LATENT = 1
    ALPHA = 2


@dataclasses.dataclass(frozen=True)
class Noise:
    """Random numbers of the whole global batch, of which every replica takes its slice.

    A function of (seed, step, sub-step, purpose) with an explicit algorithm: the default one
    differs between CPU and TPU.

    Attributes:
      seed: `training.seed`.
      batch_size: of the global batch.
      replicas: that share it.
    """

    seed: int
    batch_size: int
    replicas: int

    def normal(self, purpose: Purpose, step: tf.Tensor, sub_step: tf.Tensor, size: int):
        """This replica's latents, float32 [batch_size / replicas, size]."""
        key = self._key(purpose, step, sub_step)
        return self._own(tf.random.stateless_normal([self.batch_size, size], key, alg="philox"))

    def uniform(self, purpose: Purpose, step: tf.Tensor, sub_step: tf.Tensor) -> tf.Tensor:
        """This replica's numbers from U[0, 1), float32 [batch_size / replicas, 1, 1, 1]."""
        key = self._key(purpose, step, sub_step)
        return self._own(tf.random.stateless_uniform([self.batch_size, 1, 1, 1], key, alg="philox"))

    def _key(self, purpose: Purpose, step: tf.Tensor, sub_step: tf.Tensor) -> tf.Tensor:
        place = tf.cast(step, tf.int64) * 2**16 + tf.cast(sub_step, tf.int64)
        return tf.stack([tf.constant(self.seed * 2**8 + purpose, tf.int64), place])

    def _own(self, whole: tf.Tensor) -> tf.Tensor:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        size = self.batch_size // self.replicas
        own = tf.slice(
            whole, [replica * size] + [0] * (whole.shape.rank - 1), [size, *whole.shape[1:]]
        )
        return tf.ensure_shape(own, [size, *whole.shape[1:]])


class State:
    """Everything that training changes; build it under the strategy's scope.

    Attributes:
      generator: see `networks.build_generator`.
      critic: see `networks.build_critic`.
      ema_generator: moving average of the generator's weights, float32.
      generator_optimizer: Adam.
      critic_optimizer: Adam.
      step: generator updates done, int64 [].
      classes: number of labels; 0: the networks take none.
    """

    def __init__(
        self,
        model: ModelOptions,
        optimizer: OptimizerOptions,
        *,
        image_size: int,
        channels: int,
        classes: int,
        seed: int,
    ):
        shape = {"image_size": image_size, "channels": channels, "classes": classes, "seed": seed}
        self.classes = classes
        self.generator = networks.build_generator(model, **shape)
        self.critic = networks.build_critic(model, **shape)
        self.ema_generator = networks.build_generator(model, **shape)
        self.generator_optimizer = _adam(optimizer, optimizer.generator_learning_rate)
        self.critic_optimizer = _adam(optimizer, optimizer.critic_learning_rate)
        # Slots must be there before the first step is traced and before a checkpoint is read.
        self.generator_optimizer.build(self.generator.trainable_variables)
        self.critic_optimizer.build(self.critic.trainable_variables)
        self.step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )

    @property
    def conditional(self) -> bool:
        """Whether the networks take labels."""
        return self.classes > 0

    @property
    def latent_dim(self) -> int:
        """Length of a latent."""
        return self.generator.inputs[0].shape[-1]

    def parts(self) -> dict[str, object]:
        """What a checkpoint holds, by name."""
        names = (
            "generator",
            "critic",
            "ema_generator",
            "generator_optimizer",
            "critic_optimizer",
            "step",
        )
        return {name: getattr(self, name) for name in names}


def _adam(options: OptimizerOptions, learning_rate: float) -> tf_keras.optimizers.Optimizer:
    return tf_keras.optimizers.Adam(
        learning_rate,
        beta_1=options.beta_1,
        beta_2=options.beta_2,
        epsilon=options.epsilon,
        jit_compile=False,
    )


def critic_gradients(
    state: State,
    options: TrainingOptions,
    noise: Noise,
    images: tf.Tensor,
    labels: tf.Tensor,
    step: tf.Tensor,
    sub_step: tf.Tensor,
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """This replica's part of the critic's gradient. Call it in replica context.

    Args:
      state: the networks.
      options: batch size and penalty.
      noise: where latents and alphas come from.
      images: this replica's real images, uint8 [B, H, W, C].
      labels: theirs, int32 [B]; generated images get the same ones.
      step: generator updates done, int64 [].
      sub_step: critic updates done in this step, int64 [].

    Returns:
      Gradients, by trainable variable, and metrics, float32 in order of `CRITIC_METRICS`; the
      sum of either over replicas is that of the global batch.
    """
    share = 1.0 / options.global_batch_size
    label = labels if state.conditional else None
    both = tf.concat([labels, labels], axis=0) if state.conditional else None
    real = to_float(images)
    latent = noise.normal(Purpose.CRITIC_LATENT, step, sub_step, state.latent_dim)
    fake = networks.call(state.generator, latent, label)
    alpha = noise.uniform(Purpose.ALPHA, step, sub_step)
    between = losses.interpolate(real, fake, alpha)
    with tf.GradientTape() as tape:
        scores = networks.call(state.critic, tf.concat([real, fake], axis=0), both)
        real_scores, fake_scores = tf.split(scores, 2)
        with tf.GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(between)
            between_scores = networks.call(state.critic, between, label)
        norms = losses.gradient_norm(inner.gradient(between_scores, between))
        wasserstein = losses.critic_wasserstein(real_scores, fake_scores)
        penalty = losses.gradient_penalty(norms)
        loss = tf.reduce_sum(wasserstein + options.penalty.weight * penalty) * share
    gradients = tape.gradient(loss, state.critic.trainable_variables)
    others = [tf.reduce_sum(values) * share for values in (-wasserstein, penalty, norms)]
    return gradients, tf.stack([loss, *others])


def generator_gradients(
    state: State, options: TrainingOptions, noise: Noise, labels: tf.Tensor, step: tf.Tensor
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """This replica's part of the generator's gradient. Call it in replica context.

    Args:
      state: the networks.
      options: batch size.
      noise: where latents come from.
      labels: of this replica's part of a real batch, int32 [B]: generated images are asked for
        in the classes' real shares, those the critic has seen.
      step: generator updates done, int64 [].

    Returns:
      As `critic_gradients`, metrics in order of `GENERATOR_METRICS`.
    """
    label = labels if state.conditional else None
    latent = noise.normal(
        Purpose.GENERATOR_LATENT, step, tf.constant(0, tf.int64), state.latent_dim
    )
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(state.generator.trainable_variables)
        fake = networks.call(state.generator, latent, label)
        per_example = losses.generator(networks.call(state.critic, fake, label))
        loss = tf.reduce_sum(per_example) / options.global_batch_size
    return tape.gradient(loss, state.generator.trainable_variables), tf.stack([loss])


def critic_update(state: State, *args, **kwargs) -> tf.Tensor:
    """One Adam step of the critic; arguments of `critic_gradients`, returns its metrics."""
    gradients, metrics = critic_gradients(state, *args, **kwargs)
    _apply(state.critic_optimizer, gradients, state.critic)
    return metrics


def generator_update(state: State, *args, **kwargs) -> tf.Tensor:
    """One Adam step of the generator; as `generator_gradients`, returns its metrics."""
    gradients, metrics = generator_gradients(state, *args, **kwargs)
    _apply(state.generator_optimizer, gradients, state.generator)
    return metrics


def update_average(
    strategy: tf.distribute.Strategy, state: State, decay: float, step: tf.Tensor
) -> None:
    """Moves the average generator towards the generator. Call it in cross-replica context.

    Early on the decay is (1 + step) / (10 + step), so that the initial weights are forgotten.

    Args:
      strategy: that the state lives on.
      state: the networks.
      decay: the decay in the long run.
      step: generator updates done before this one, int64 [].
    """
    step = tf.cast(step, tf.float32)
    rate = 1.0 - tf.minimum(decay, (1.0 + step) / (10.0 + step))
    for average, weight in zip(
        state.ema_generator.variables, state.generator.variables, strict=True
    ):
        strategy.extended.update(average, _move, args=(weight, rate), group=True)


def _move(average: tf.Variable, weight: tf.Tensor, rate: tf.Tensor) -> tf.Operation:
    return average.assign_sub(rate * (average - tf.cast(weight, tf.float32)))


def to_float(images: tf.Tensor) -> tf.Tensor:
    """uint8 pixels to float32 in [-1, 1]."""
    return tf.cast(images, tf.float32) / 127.5 - 1.0


def to_pixels(images: tf.Tensor) -> tf.Tensor:
    """float32 in [-1, 1] to uint8 pixels, rounded to the nearest."""
    return tf.cast(tf.round(tf.clip_by_value(images, -1.0, 1.0) * 127.5 + 127.5), tf.uint8)


def _apply(
    optimizer: tf_keras.optimizers.Optimizer, gradients: list[tf.Tensor], model: tf_keras.Model
) -> None:
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
