"""WGAN-GP in the usual way of a Keras tutorial: a model with a `train_step`, trained by `fit`."""

from __future__ import annotations

import tensorflow as tf
import tf_keras
import work as works
from timing import Hook, Side
from work import Work


class WGAN(tf_keras.Model):
    """A critic and a generator; the same real batch is used for all critic steps."""

    def __init__(self, critic: tf_keras.Model, generator: tf_keras.Model, work: Work):
        super().__init__()
        self.critic = critic
        self.generator = generator
        self.work = work

    def compile(
        self,
        critic_optimizer: tf_keras.optimizers.Optimizer,
        generator_optimizer: tf_keras.optimizers.Optimizer,
        **kwargs,
    ) -> None:
        """Takes an optimizer for each network."""
        super().compile(**kwargs)
        self.critic_optimizer = critic_optimizer
        self.generator_optimizer = generator_optimizer

    def gradient_penalty(self, real: tf.Tensor, fake: tf.Tensor) -> tf.Tensor:
        """Mean squared distance of gradient norms from 1."""
        alpha = tf.random.uniform([self.work.batch_size, 1, 1, 1])
        between = real + alpha * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(between)
            scores = self.critic(between, training=True)
        gradients = tape.gradient(scores, between)
        norms = tf.sqrt(tf.reduce_sum(tf.square(gradients), axis=[1, 2, 3]) + 1e-12)
        return tf.reduce_mean((norms - 1.0) ** 2)

    def train_step(self, real: tf.Tensor) -> dict[str, tf.Tensor]:
        """Critic steps, then a generator step."""
        shape = [self.work.batch_size, self.work.latent_dim]
        for _ in range(self.work.critic_steps):
            latent = tf.random.normal(shape)
            with tf.GradientTape() as tape:
                fake = self.generator(latent, training=True)
                fake_scores = self.critic(fake, training=True)
                real_scores = self.critic(real, training=True)
                loss = tf.reduce_mean(fake_scores) - tf.reduce_mean(real_scores)
                critic_loss = loss + 10.0 * self.gradient_penalty(real, fake)
            weights = self.critic.trainable_variables
            gradients = tape.gradient(critic_loss, weights)
            self.critic_optimizer.apply_gradients(zip(gradients, weights, strict=True))
        latent = tf.random.normal(shape)
        with tf.GradientTape() as tape:
            fake = self.generator(latent, training=True)
            generator_loss = -tf.reduce_mean(self.critic(fake, training=True))
        weights = self.generator.trainable_variables
        gradients = tape.gradient(generator_loss, weights)
        self.generator_optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"critic_loss": critic_loss, "generator_loss": generator_loss}


class _Between(tf_keras.callbacks.Callback):
    """Calls the hook after every so many batches, inside `fit`: its start and end do not count."""

    def __init__(self, hook: Hook, images: int):
        super().__init__()
        self._hook = hook
        self._images = images

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._hook(self._images)


def side(work: Work, *, steps_per_execution: int) -> Side:
    """The tutorial under `fit`, with the trainer's own networks, XLA off.

    Args:
      work: what is trained.
      steps_per_execution: Keras's own way to save time between steps.
    """

    def run(hook: Hook) -> None:
        options = works.options(work)
        state = works.state(work, options)
        model = WGAN(state.critic, state.generator, work)
        model.compile(
            state.critic_optimizer,
            state.generator_optimizer,
            jit_compile=False,
            steps_per_execution=steps_per_execution,
        )
        pixels, _ = works.images(work.image_size)
        scaled = pixels.astype("float32") / 127.5 - 1.0
        data = tf.data.Dataset.from_tensor_slices(scaled).shuffle(len(scaled)).repeat()
        data = data.batch(work.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
        between = _Between(hook, work.images_per_step * steps_per_execution)
        model.fit(data, steps_per_epoch=10**6, verbose=0, callbacks=[between])

    return run
