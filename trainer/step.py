"""One critic update and one generator update, as every replica runs them.

The one place where losses are reduced: each replica adds up its own examples and divides by the
*global* batch size, the Wasserstein term and the penalty alike; the optimizers then add
gradients up over replicas (`apply_gradients` all-reduces with SUM), and metrics are added up the
same way. A loss that is not a sum over examples (weight decay) is divided by the number of
replicas instead, so that it counts once. So nothing here depends on the number of replicas, nor
on the number of pieces that a replica's batch is computed in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
import tf_keras

from trainer import losses, networks
from trainer.noise import Noise, Purpose
from trainer.options import TrainingOptions
from trainer.state import State

#: Order of the numbers in the vectors that the updates return.
CRITIC_METRICS = ("critic_loss", "wasserstein", "gradient_penalty", "gradient_norm")
GENERATOR_METRICS = ("generator_loss",)

_PENALTIES = {"two_sided": losses.two_sided_penalty, "one_sided": losses.one_sided_penalty}

#: Gradients by trainable variable, and metrics.
Parts = tuple[list[tf.Tensor], tf.Tensor]


def critic_gradients(
    state: State,
    options: TrainingOptions,
    noise: Noise,
    images: tf.Tensor,
    labels: tf.Tensor,
    step: tf.Tensor,
    sub_step: tf.Tensor,
) -> Parts:
    """This replica's part of the critic's gradient. Call it in replica context.

    Args:
      state: the networks.
      options: of the training.
      noise: where latents, penalty points and mirrorings come from.
      images: this replica's real images, uint8 [B, H, W, C].
      labels: theirs, int32 [B]; generated images get the same ones.
      step: generator updates done, int64 [].
      sub_step: critic updates done in this step, int64 [].

    Returns:
      Gradients, by trainable variable, and metrics, float32 in order of `CRITIC_METRICS`; the
      sum of either over replicas is that of the global batch.
    """
    latent = noise.normal(Purpose.CRITIC_LATENT, step, sub_step, state.latent_dim)
    alpha = noise.uniform(Purpose.ALPHA, step, sub_step)
    if options.horizontal_flip:
        mirrored = noise.uniform(Purpose.FLIP, step, sub_step) < 0.5
        images = tf.where(mirrored, tf.reverse(images, axis=[2]), images)

    def of_piece(images: tf.Tensor, labels: tf.Tensor, latent: tf.Tensor, alpha: tf.Tensor):
        return _critic_piece(state, options, noise.replicas, images, labels, latent, alpha)

    batch = (images, labels, tf.cast(latent, state.dtype), tf.cast(alpha, state.dtype))
    weights = state.critic.trainable_variables
    return _added_up(of_piece, batch, options.accumulation_steps, weights, len(CRITIC_METRICS))


def generator_gradients(
    state: State, options: TrainingOptions, noise: Noise, labels: tf.Tensor, step: tf.Tensor
) -> Parts:
    """This replica's part of the generator's gradient. Call it in replica context.

    Args:
      state: the networks.
      options: of the training.
      noise: where latents come from.
      labels: of this replica's part of a real batch, int32 [B]: generated images are asked for
        in the classes' real shares, those the critic has seen.
      step: generator updates done, int64 [].

    Returns:
      As `critic_gradients`, metrics in order of `GENERATOR_METRICS`.
    """
    latent = noise.normal(
        Purpose.GENERATOR_LATENT, step, tf.constant(0, tf.int64), state.latent_dim
    )
    weights = state.generator.trainable_variables

    def of_piece(latent: tf.Tensor, labels: tf.Tensor) -> Parts:
        label = labels if state.conditional else None
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            fake = networks.call(state.generator, latent, label, training=True)
            scores = networks.call(state.critic, fake, label)
            loss = _share(losses.generator(scores), options)
            loss += _share_of_decay(state.generator, options, noise.replicas)
        return tape.gradient(loss, weights), tf.cast(tf.stack([loss]), tf.float32)

    batch = (tf.cast(latent, state.dtype), labels)
    return _added_up(of_piece, batch, options.accumulation_steps, weights, len(GENERATOR_METRICS))


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


def clip_critic(strategy: tf.distribute.Strategy, state: State, bound: float) -> None:
    """Clips every weight of the critic. Call it in cross-replica context, after each update.

    Args:
      strategy: that the state lives on.
      state: the networks.
      bound: see `losses.clipped`.
    """
    for weight in state.critic.trainable_variables:
        strategy.extended.update(
            weight, lambda own: own.assign(losses.clipped(own, bound)), group=True
        )


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
    step = tf.cast(step, state.dtype)
    rate = 1.0 - tf.minimum(tf.cast(decay, state.dtype), (1.0 + step) / (10.0 + step))
    for average, weight in zip(
        state.ema_generator.variables, state.generator.variables, strict=True
    ):
        strategy.extended.update(average, _move, args=(weight, rate), group=True)


def to_float(images: tf.Tensor, dtype: tf.DType = tf.float32) -> tf.Tensor:
    """uint8 pixels to floating point in [-1, 1]."""
    return tf.cast(images, dtype) / 127.5 - 1.0


def to_pixels(images: tf.Tensor) -> tf.Tensor:
    """Floating point in [-1, 1] to uint8 pixels, rounded to the nearest."""
    return tf.cast(tf.round(tf.clip_by_value(images, -1.0, 1.0) * 127.5 + 127.5), tf.uint8)


def _critic_piece(
    state: State,
    options: TrainingOptions,
    replicas: int,
    images: tf.Tensor,
    labels: tf.Tensor,
    latent: tf.Tensor,
    alpha: tf.Tensor,
) -> Parts:
    label = labels if state.conditional else None
    both = tf.concat([labels, labels], axis=0) if state.conditional else None
    real = to_float(images, state.dtype)
    # Outside the tape: the critic's gradient does not reach into the generator.
    fake = networks.call(state.generator, latent, label, training=True)
    between = losses.interpolate(real, fake, alpha)
    penalty_of = _PENALTIES.get(options.penalty.kind)

    def norms_between() -> tf.Tensor:
        with tf.GradientTape(watch_accessed_variables=False) as inner:
            inner.watch(between)
            scores = networks.call(state.critic, between, label)
        return losses.gradient_norm(inner.gradient(scores, between))

    weights = state.critic.trainable_variables
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(weights)
        # One call for both: larger operations, and nothing in the critic mixes examples.
        scores = networks.call(state.critic, tf.concat([real, fake], axis=0), both)
        real_scores, fake_scores = tf.split(scores, 2)
        wasserstein = losses.critic_wasserstein(real_scores, fake_scores)
        per_example = wasserstein
        if penalty_of is not None:
            norms = norms_between()
            penalty = penalty_of(norms)
            per_example = wasserstein + options.penalty.weight * penalty
        loss = _share(per_example, options)
        loss += _share_of_decay(state.critic, options, replicas)
    gradients = tape.gradient(loss, weights)
    if penalty_of is None:
        norms = norms_between()
        penalty = tf.zeros_like(norms)
    others = [_share(values, options) for values in (-wasserstein, penalty, norms)]
    return gradients, tf.cast(tf.stack([loss, *others]), tf.float32)


def _share(per_example: tf.Tensor, options: TrainingOptions) -> tf.Tensor:
    """What some examples [B] contribute to the mean over the global batch, []."""
    return tf.reduce_sum(per_example) / options.global_batch_size


def _share_of_decay(
    network: tf_keras.Model, options: TrainingOptions, replicas: int
) -> tf.Tensor | float:
    """This replica's and piece's share of a network's weight decay, which all of them compute."""
    if not network.losses:
        return 0.0
    return tf.add_n(network.losses) / (replicas * options.accumulation_steps)


def _added_up(
    function: Callable[..., Parts],
    batch: Sequence[tf.Tensor],
    pieces: int,
    weights: Sequence[tf.Variable],
    metrics: int,
) -> Parts:
    """Sums over pieces of a batch, one at a time, so that only one is in memory."""
    if pieces == 1:
        return function(*batch)
    split = [tf.reshape(x, [pieces, x.shape[0] // pieces, *x.shape[1:]]) for x in batch]

    def add(index: tf.Tensor, gradients: list[tf.Tensor], total: tf.Tensor):
        more, values = function(*(x[index] for x in split))
        added = [a + b for a, b in zip(gradients, more, strict=True)]
        return index + 1, added, total + values

    zeros = [tf.zeros(weight.shape, weight.dtype) for weight in weights]
    _, gradients, total = tf.while_loop(
        lambda index, *_: index < pieces,
        add,
        (tf.constant(0), zeros, tf.zeros([metrics])),
        parallel_iterations=1,
        maximum_iterations=pieces,
    )
    return gradients, total


def _move(average: tf.Variable, weight: tf.Tensor, rate: tf.Tensor) -> tf.Operation:
    return average.assign_sub(rate * (average - weight))


def _apply(
    optimizer: tf_keras.optimizers.Optimizer, gradients: list[tf.Tensor], model: tf_keras.Model
) -> None:
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
