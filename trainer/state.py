"""Everything that training changes: networks, optimizers, the step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from trainer import networks
from trainer.options import ModelOptions, OptimizerOptions, TrainingOptions


class State:
    """What a checkpoint holds; build it under the strategy's scope.

    Args:
      model: of the networks.
      training: `seed`, `precision`, `l2_weight`, `optimizer`, `steps` and `critic_steps` are read.
      image_size: height and width in pixels.
      channels: 1 or 3.
      classes: number of labels; 0: the networks take none.

    Attributes:
      generator: see `networks.build_generator`.
      critic: see `networks.build_critic`.
      ema_generator: moving average of the generator's weights.
      generator_optimizer: Adam.
      critic_optimizer: Adam.
      step: generator updates done, int64 [].
      classes: as given.
      dtype: of images, scores and losses: float32, or float64 where that is the precision.
    """

    def __init__(
        self,
        model: ModelOptions,
        training: TrainingOptions,
        *,
        image_size: int,
        channels: int,
        classes: int,
    ):
        how: dict[str, Any] = {
            "image_size": image_size,
            "channels": channels,
            "classes": classes,
            "seed": training.seed,
            "precision": training.precision,
            "l2_weight": training.l2_weight,
        }
        self.classes = classes
        self.dtype = tf.float64 if training.precision == "float64" else tf.float32
        self.generator = networks.build_generator(model, **how)
        self.critic = networks.build_critic(model, **how)
        self.ema_generator = networks.build_generator(model, **how)
        optimizer = training.optimizer
        self.generator_optimizer = _adam(
            optimizer, optimizer.generator_learning_rate, training.steps
        )
        self.critic_optimizer = _adam(
            optimizer, optimizer.critic_learning_rate, training.steps * training.critic_steps
        )
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

    def variables(self) -> dict[str, tf.Variable]:
        """Every variable by a name that is the same in every run."""
        found = {"step": self.step}
        for part in (
            "generator",
            "critic",
            "ema_generator",
            "generator_optimizer",
            "critic_optimizer",
        ):
            owner = getattr(self, part)
            variables = owner.variables
            for variable in variables() if callable(variables) else variables:
                name = f"{part}/{variable.name.partition(':')[0]}"
                if name in found:
                    raise ValueError(f"two variables are called {name}")
                found[name] = variable
        return found


def _adam(
    options: OptimizerOptions, learning_rate: float, updates: int
) -> tf_keras.optimizers.Optimizer:
    """Adam, with a step size that is constant or falls to 0 over so many updates."""
    rate = learning_rate
    if options.learning_rate_decay == "linear":
        rate = tf_keras.optimizers.schedules.PolynomialDecay(learning_rate, updates, 0.0)
    return tf_keras.optimizers.Adam(
        rate,
        beta_1=options.beta_1,
        beta_2=options.beta_2,
        epsilon=options.epsilon,
        jit_compile=False,
    )
