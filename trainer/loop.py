"""Many steps per call from the host: a tensor-bounded loop around `strategy.run`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import tensorflow as tf

from trainer import step as steps
from trainer.noise import Noise
from trainer.options import TrainingOptions
from trainer.state import State
from trainer.step import CRITIC_METRICS, GENERATOR_METRICS

METRICS = CRITIC_METRICS + GENERATOR_METRICS


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a call into the loop tells.

    Attributes:
      last: metrics of the last step by name; those of the critic are means over its updates in
        that step.
      extremes: by name the largest absolute value over all steps of the call; infinite where a
        value was not finite. `weights` stands for all variables: 0, or infinite.
    """

    last: dict[str, float]
    extremes: dict[str, float]


#: (images, labels, first step, number of steps) to what came of it.
TrainLoop = Callable[[object, object, int, int], Outcome]


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
        first: generator updates done before the call,
        count: updates to do, at most steps_per_call,
      which trains and waits for the outcome.
    """
    compiled = compile_loop(state, options, strategy)

    def train(images: object, labels: object, first: int, count: int) -> Outcome:
        # As tensors: a Python number would be compiled into a loop of its own.
        first, count = (tf.constant(number, tf.int64) for number in (first, count))
        last, extremes = (row.numpy().tolist() for row in compiled(images, labels, first, count))
        return Outcome(
            last=dict(zip(METRICS, last, strict=True)),
            extremes=dict(zip((*METRICS, "weights"), extremes, strict=True)),
        )

    return train


def compile_loop(
    state: State, options: TrainingOptions, strategy: tf.distribute.Strategy
) -> tf.types.experimental.PolymorphicFunction:
    """As `build`, a `tf.function` of tensors; returns the two rows of numbers, float32."""
    noise = Noise(options.seed, options.global_batch_size, strategy.num_replicas_in_sync)
    add_up = functools.partial(strategy.reduce, tf.distribute.ReduceOp.SUM, axis=None)

    # Only the loops below are Python to be converted; converting the networks and the optimizer
    # statement by statement takes four times as long as tracing them, and changes nothing.
    as_it_is = tf.autograph.experimental.do_not_convert

    @as_it_is
    def piece(values, place):
        # On the host: an accelerator is sent the batch it needs, and not the whole chunk each time.
        return tf.nest.map_structure(lambda x: x[place], values, expand_composites=True)

    @as_it_is
    def critic(images, labels, step, sub_step):
        return steps.critic_update(state, options, noise, images, labels, step, sub_step)

    @as_it_is
    def generator(labels, step):
        return steps.generator_update(state, options, noise, labels, step)

    @as_it_is
    def clip():
        if options.penalty.kind == "weight_clipping":
            steps.clip_critic(strategy, state, options.penalty.clip_value)

    average = as_it_is(steps.update_average)

    @tf.function
    def train(images, labels, first, count):
        last = tf.zeros([len(METRICS)])
        extremes = tf.zeros_like(last)
        for index in tf.range(count):
            step = first + index
            of_critic = tf.zeros([len(CRITIC_METRICS)])
            for sub_step in tf.range(options.critic_steps, dtype=tf.int64):
                batch = piece((images, labels), (index, sub_step))
                values = strategy.run(critic, args=(*batch, step, sub_step))
                of_critic += add_up(values) / options.critic_steps
                clip()
            (asked,) = piece((labels,), (index, 0))
            of_generator = add_up(strategy.run(generator, args=(asked, step)))
            average(strategy, state, options.ema_decay, step)
            last = tf.concat([of_critic, of_generator], axis=0)
            extremes = tf.maximum(extremes, _magnitude(last))
        return last, tf.concat([extremes, as_it_is(_infinite_if_damaged)(state)], axis=0)

    return train


def _infinite_if_damaged(state: State) -> tf.Tensor:
    # Slots too: one that has overflowed stops its weight for ever, and that weight is finite.
    floating = [v for v in state.variables().values() if v.dtype.is_floating]
    finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(v)) for v in floating])
    return tf.where(finite, [0.0], [float("inf")])


@tf.autograph.experimental.do_not_convert
def _magnitude(values: tf.Tensor) -> tf.Tensor:
    return tf.where(tf.math.is_finite(values), tf.abs(values), float("inf"))
