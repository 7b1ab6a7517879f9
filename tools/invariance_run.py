"""One configuration of `tools/invariance.py`, in a process of its own: what it fed, drew, computed.

    python tools/invariance_run.py SPECIFICATION.json OUTPUT.npz

Devices are configured once in a process; so every number of replicas has one of its own, and every
worker. It drives what training drives: `strategy.connect`, `State`, `loop.build`, `Feed`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import digits
import numpy as np
import tensorflow as tf

from trainer import loop, strategy
from trainer import step as steps
from trainer.data import Dataset
from trainer.feed import BatchOrder, Feed
from trainer.noise import Noise, Purpose
from trainer.options import ModelOptions, OptimizerOptions, TrainingOptions
from trainer.state import State

BATCH = 16
CRITIC_STEPS = 2
STEPS_PER_CALL = 10
#: Updates after which float32 weights are compared, with an epsilon that amplifies nothing.
FEW_STEPS = 3
LARGE_EPSILON = 1e-3
#: Larger than the defaults, so that training gets somewhere in few steps.
LEARNING_RATE = 1e-3
#: Of which weights are compared.
NETWORKS = ("generator", "critic", "ema_generator")


def main(specification: str, output: str) -> None:
    """Runs one configuration, or one worker of it.

    Args:
      specification: path of JSON with `replicas` (logical devices of this process),
        `accumulation_steps`, `conditional`, `generator_norm`, and `steps` by precision.
      output: where the arrays are written. Those called `part/...` are of this process's replicas
        [steps, critic_steps, B / replicas, ...], in their order; the others are the same on all
        workers.
    """
    tf.config.experimental.enable_op_determinism()
    given = json.loads(Path(specification).read_text())
    run = Run(given)
    arrays = {"replicas": np.array(run.strategy.num_replicas_in_sync)}
    arrays["workers"] = np.array(run.devices.workers)
    arrays |= run.inputs(given["steps"]["float64"])
    arrays |= run.few_float32_steps()
    for precision, count in given["steps"].items():
        if count:
            arrays |= run.many_steps(precision, count)
    np.savez(output, **arrays)


class Run:
    """A configuration.

    Args:
      given: see `main`.
    """

    def __init__(self, given: dict[str, Any]):
        self._conditional = given["conditional"]
        self._model = ModelOptions(
            latent_dim=16,
            generator_channels=8,
            critic_channels=8,
            generator_norm=given["generator_norm"],
            conditional=given["conditional"],
        )
        self._options = TrainingOptions(
            steps=max(given["steps"].values()),
            global_batch_size=BATCH,
            accumulation_steps=given["accumulation_steps"],
            critic_steps=CRITIC_STEPS,
            replicas=given["replicas"],
            steps_per_call=STEPS_PER_CALL,
            seed=11,
            optimizer=OptimizerOptions(
                generator_learning_rate=LEARNING_RATE, critic_learning_rate=LEARNING_RATE
            ),
        )
        self.devices = strategy.connect(self._options)
        self.strategy = self.devices.strategy
        self._dataset = Dataset.of_arrays(*digits.load())

    def inputs(self, count: int) -> dict[str, np.ndarray]:
        """What is fed and drawn in so many steps."""
        noise = Noise(self._options.seed, BATCH, self.strategy.num_replicas_in_sync)

        @tf.function(autograph=False)
        def drawn(step, sub_step):
            size = self._model.latent_dim
            return self.strategy.run(
                lambda: (
                    noise.normal(Purpose.CRITIC_LATENT, step, sub_step, size),
                    noise.normal(Purpose.GENERATOR_LATENT, step, _int(0), size),
                    noise.uniform(Purpose.ALPHA, step, sub_step),
                )
            )

        names = ("critic latents", "generator latents", "alphas")
        values = [
            [
                [self._own(value) for value in drawn(_int(step), _int(sub_step))]
                for sub_step in range(CRITIC_STEPS)
            ]
            for step in range(count)
        ]
        found = {
            f"part/{name}": np.stack([[of[i] for of in row] for row in values])
            for i, name in enumerate(names)
        }
        with self._feed() as feed:
            chunks = [feed.chunk(first) for first in range(0, count, STEPS_PER_CALL)]
        for i, name in enumerate(("images", "labels")):
            parts = [self._own(chunk[i], axis=2) for chunk in chunks]
            found[f"part/{name}"] = np.concatenate(parts)[:count]
        return found

    def few_float32_steps(self) -> dict[str, np.ndarray]:
        """First gradients; and weights after a few steps with an epsilon that amplifies nothing."""
        optimizer = self._options.optimizer.model_copy(update={"epsilon": LARGE_EPSILON})
        options = self._options.model_copy(update={"optimizer": optimizer})
        state = self._state(options)
        with self._feed() as feed:
            images, labels = feed.chunk(0)
        found = self._gradients(state, options, images, labels)
        loop.build(state, options, self.strategy)(images, labels, 0, FEW_STEPS)
        return found | _weights("few", state)

    def many_steps(self, precision: str, count: int) -> dict[str, np.ndarray]:
        """Weights before and after so many steps, with the default epsilon."""
        options = self._options.model_copy(update={"precision": precision})
        state = self._state(options)
        found = _weights(f"{precision} start", state)
        train = loop.build(state, options, self.strategy)
        with self._feed() as feed:
            for first in range(0, count, STEPS_PER_CALL):
                train(*feed.chunk(first), first, min(STEPS_PER_CALL, count - first))
        return found | _weights(precision, state)

    def _gradients(
        self, state: State, options: TrainingOptions, images: object, labels: object
    ) -> dict[str, np.ndarray]:
        noise = Noise(options.seed, BATCH, self.strategy.num_replicas_in_sync)

        @tf.function(autograph=False)
        def gradients(images, labels):
            def own(x, y):
                critic = steps.critic_gradients(
                    state, options, noise, x[0, 0], y[0, 0], _int(0), _int(0)
                )
                generator = steps.generator_gradients(state, options, noise, y[0, 0], _int(0))
                return critic[0], generator[0]

            add_up = tf.distribute.ReduceOp.SUM
            parts = self.strategy.run(own, args=(images, labels))
            return [[self.strategy.reduce(add_up, x, axis=None) for x in part] for part in parts]

        critic, generator = gradients(images, labels)
        return {"gradient/critic": _flat(critic), "gradient/generator": _flat(generator)}

    def _state(self, options: TrainingOptions) -> State:
        classes = digits.CLASSES if self._conditional else 0
        with self.strategy.scope():
            return State(
                self._model, options, image_size=digits.IMAGE_SIZE, channels=1, classes=classes
            )

    @contextlib.contextmanager
    def _feed(self) -> Iterator[Feed]:
        order = BatchOrder(
            len(self._dataset),
            seed=self._options.seed,
            batch_size=BATCH,
            critic_steps=CRITIC_STEPS,
        )
        feed = Feed(
            self._dataset,
            order,
            self.strategy,
            batch_size=BATCH,
            critic_steps=CRITIC_STEPS,
            steps_per_call=STEPS_PER_CALL,
        )
        with contextlib.closing(feed):
            yield feed

    def _own(self, value: object, axis: int = 0) -> np.ndarray:
        """Of this process's replicas, one after the other."""
        return np.concatenate(self.strategy.experimental_local_results(value), axis)


def _weights(when: str, state: State) -> dict[str, np.ndarray]:
    return {f"weights/{when}/{n}": _flat(getattr(state, n).variables) for n in NETWORKS}


def _flat(values) -> np.ndarray:
    return np.concatenate([value.numpy().ravel() for value in values])


def _int(value: int) -> tf.Tensor:
    return tf.constant(value, tf.int64)


if __name__ == "__main__":
    main(*sys.argv[1:])
