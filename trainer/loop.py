"""Many steps per call from the host: a tensor-bounded loop around `strategy.run`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tensorflow as tf

from trainer import step as steps
from trainer.options import TrainingOptions
from trainer.step import CRITIC_METRICS, GENERATOR_METRICS, Noise, State

#: A compiled loop: (images, labels, first step, number of steps) to the last step's metrics.
TrainLoop = Callable[..., dict[str, tf.Tensor]]


def build(state: State, options: TrainingOptions, strategy: tf.distribute.Strategy) -> TrainLoop:
    """The training loop on the devices of a strategy.

    Args:
      state: what is trained; built under the strategy's scope.
      options: of the training.
      strategy: that the state lives on.

    Returns:
      A function of
        images: distributed uint8 [steps_per_call, critic_steps, B / replicas, H, W, C],
        labels: distributed int32 [steps_per_call, critic_steps, B / replicas],
        first: generator updates done before the call, int64 [] tensor,
        count: updates to do, at most steps_per_call, int64 [] tensor,
      which trains and returns the metrics of the last step by name, float32 [], those of the
      critic as means over its updates in that step. Steps are tensors: a Python number would
      be compiled into a loop of its own.
    """
    noise = Noise(options.seed, options.global_batch_size, strategy.num_replicas_in_sync)
    add_up = functools.partial(strategy.reduce, tf.distribute.ReduceOp.SUM, axis=None)

    # Only the loops below are Python to be converted; converting the networks and the optimizer
    # statement by statement takes four times as long as tracing them, and changes nothing.
    as_it_is = tf.autograph.experimental.do_not_convert

    @as_it_is
    def critic(images, labels, step, index, sub_step):
        return steps.critic_update(
            state, options, noise, images[index, sub_step], labels[index, sub_step], step, sub_step
        )

    @as_it_is
    def generator(labels, step, index):
        return steps.generator_update(state, options, noise, labels[index, 0], step)

    average = as_it_is(steps.update_average)

    @tf.function
    def train(images, labels, first, count):
        critic_values = tf.zeros([len(CRITIC_METRICS)])
        generator_values = tf.zeros([len(GENERATOR_METRICS)])
        for index in tf.range(count):
            step = first + index
            critic_values = tf.zeros_like(critic_values)
            for sub_step in tf.range(options.critic_steps, dtype=tf.int64):
                values = strategy.run(critic, args=(images, labels, step, index, sub_step))
                critic_values += add_up(values) / options.critic_steps
            generator_values = add_up(strategy.run(generator, args=(labels, step, index)))
            average(strategy, state, options.ema_decay, step)
        return _named(CRITIC_METRICS, critic_values) | _named(GENERATOR_METRICS, generator_values)

    return train


def _named(names: tuple[str, ...], values: tf.Tensor) -> dict[str, tf.Tensor]:
    return dict(zip(names, tf.unstack(values, len(names)), strict=True))
