"""Two replicas, four examples, one update: what each way of scaling WGAN-GP's loss gives.

Run it with `make scaling`; docs/replicas.md explains what it prints. The critic is linear,
D(x) = 3 x1 + 4 x2 on images of two pixels, so that every number can be checked on paper: the
gradient norm is 5 everywhere, the penalty (5 - 1)^2 = 16, ten times that 160.
"""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
import tf_keras

from trainer import losses

#: Four real and four generated images [4, 1, 2, 1]; two of each for either replica.
REAL = np.float32([[1, 0], [0, 1], [1, 1], [2, 0]]).reshape(4, 1, 2, 1)
FAKE = np.float32([[0, 0], [1, 0], [0, 1], [1, 1]]).reshape(4, 1, 2, 1)
WEIGHTS = np.float32([3, 4])
PENALTY_WEIGHT = 10.0
GLOBAL_BATCH = 4

#: From per-example Wasserstein losses and penalties [B] of one replica to its loss [].
Reduction = Callable[[tf.Tensor, tf.Tensor, int], tf.Tensor]


def ours(wasserstein: tf.Tensor, penalty: tf.Tensor, replicas: int) -> tf.Tensor:
    """Sum over the examples, divided by the global batch."""
    return tf.reduce_sum(wasserstein + PENALTY_WEIGHT * penalty) / GLOBAL_BATCH


def per_replica_mean(wasserstein: tf.Tensor, penalty: tf.Tensor, replicas: int) -> tf.Tensor:
    """Mean over the replica's own examples, as on one device."""
    return tf.reduce_mean(wasserstein + PENALTY_WEIGHT * penalty)


def times_replicas(wasserstein: tf.Tensor, penalty: tf.Tensor, replicas: int) -> tf.Tensor:
    """Our loss times `num_replicas_in_sync`."""
    return ours(wasserstein, penalty, replicas) * replicas


def mixed(wasserstein: tf.Tensor, penalty: tf.Tensor, replicas: int) -> tf.Tensor:
    """The Wasserstein term right, the penalty as a mean over the replica."""
    return ours(wasserstein, 0.0, replicas) + PENALTY_WEIGHT * tf.reduce_mean(penalty)


def one_norm(wasserstein: tf.Tensor, penalty: tf.Tensor, replicas: int) -> tf.Tensor:
    """One gradient norm over all examples of the replica, instead of one for each."""
    norms = tf.sqrt(penalty) + 1.0
    together = tf.square(tf.norm(norms) - 1.0)
    return ours(wasserstein, 0.0, replicas) + PENALTY_WEIGHT * together / replicas


WAYS: dict[str, Reduction] = {
    "sum / global batch (ours)": ours,
    "mean over the replica": per_replica_mean,
    "ours, times the replicas": times_replicas,
    "ours, but the penalty as a mean": mixed,
    "one norm for the whole batch": one_norm,
}


def update(reduction: Reduction, replicas: int) -> tuple[np.ndarray, float, float]:
    """One SGD update of the critic on so many logical devices.

    Args:
      reduction: the way of scaling.
      replicas: 1 or 2.

    Returns:
      What was subtracted from the two weights at a step size of 1; the loss as the SUM over
      replicas; the loss as a Keras `Mean` metric shows it.
    """
    strategy = tf.distribute.MirroredStrategy(
        [f"/CPU:{i}" for i in range(replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )
    with strategy.scope():
        weights = tf.Variable(WEIGHTS.reshape(1, 1, 2, 1))
        optimizer = tf_keras.optimizers.SGD(1.0, jit_compile=False)
        optimizer.build([weights])
        shown = tf_keras.metrics.Mean()
    size = GLOBAL_BATCH // replicas

    def replica(real: tf.Tensor, fake: tf.Tensor) -> tf.Tensor:
        def critic(image: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(image * weights, axis=[1, 2, 3])

        between = losses.interpolate(real, fake, tf.fill([size, 1, 1, 1], 0.5))
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(between)
                scores = critic(between)
            norms = losses.gradient_norm(inner.gradient(scores, between))
            wasserstein = losses.critic_wasserstein(critic(real), critic(fake))
            loss = reduction(wasserstein, losses.two_sided_penalty(norms), replicas)
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        shown.update_state(loss)
        return loss

    def own(images: np.ndarray) -> tf.distribute.DistributedValues:
        return strategy.experimental_distribute_values_from_function(
            lambda c: tf.constant(images[c.replica_id_in_sync_group * size :][:size])
        )

    run = tf.function(lambda *images: strategy.run(replica, args=images), autograph=False)
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, run(own(REAL), own(FAKE)), axis=None)
    return WEIGHTS - weights.numpy().ravel(), float(total), float(shown.result())


def table() -> str:
    """The whole example as a Markdown table."""
    lines = [
        "| loss | replicas | update of the weights | loss, summed | loss, as a `Mean` metric |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, reduction in WAYS.items():
        for replicas in (1, 2):
            moved, total, mean = update(reduction, replicas)
            numbers = ", ".join(f"{number:.2f}" for number in moved)
            lines.append(f"| {name} | {replicas} | ({numbers}) | {total:.2f} | {mean:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Prints the table."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    print(table())


if __name__ == "__main__":
    main()
