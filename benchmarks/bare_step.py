"""The least that trains the same networks: one compiled function over tensors that are there.

No strategy, no input, no averages, no metrics, nothing written, nothing looked at.
"""

from __future__ import annotations

import tensorflow as tf
import work as works
from timing import Hook, Side
from work import Work

from trainer import losses
from trainer.state import State
from trainer.step import to_float


def side(work: Work) -> Side:
    """A loop in Python over the compiled step."""

    def run(hook: Hook) -> None:
        options = works.options(work)
        state = works.state(work, options)
        step = compile_step(state, work, options.penalty.weight)
        images, _ = works.batches(work)
        while True:
            step(images)
            hook(work.images_per_step)

    return run


def compile_step(state: State, work: Work, weight: float) -> tf.types.experimental.GenericFunction:
    """One step: images uint8 [critic_steps, B, H, W, C] to nothing."""
    shape = [work.batch_size, work.latent_dim]

    def update_critic(real: tf.Tensor) -> None:
        fake = state.generator(tf.random.normal(shape), training=True)
        between = losses.interpolate(real, fake, tf.random.uniform([work.batch_size, 1, 1, 1]))
        with tf.GradientTape() as tape:
            scores = state.critic(tf.concat([real, fake], axis=0))
            real_scores, fake_scores = tf.split(scores, 2)
            with tf.GradientTape(watch_accessed_variables=False) as inner:
                inner.watch(between)
                between_scores = state.critic(between)
            norms = losses.gradient_norm(inner.gradient(between_scores, between))
            loss = tf.reduce_mean(
                fake_scores - real_scores + weight * losses.two_sided_penalty(norms)
            )
        weights = state.critic.trainable_variables
        state.critic_optimizer.apply_gradients(
            zip(tape.gradient(loss, weights), weights, strict=True)
        )

    def update_generator() -> None:
        weights = state.generator.trainable_variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            fake = state.generator(tf.random.normal(shape), training=True)
            loss = -tf.reduce_mean(state.critic(fake))
        state.generator_optimizer.apply_gradients(
            zip(tape.gradient(loss, weights), weights, strict=True)
        )

    @tf.function(autograph=False)
    def step(images: tf.Tensor) -> None:
        for sub_step in range(work.critic_steps):
            update_critic(to_float(images[sub_step]))
        update_generator()

    return step
