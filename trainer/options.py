"""What can be chosen about the model and its training: frozen, validated, importable anywhere.

Only pydantic is imported here, so that the command line can check a configuration in
milliseconds and so that a training job can cross a process boundary as JSON.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

#: Image sizes (pixels) that the networks can build: 4 or 7 doubled some number of times.
IMAGE_SIZES = (16, 28, 32, 64, 128)


def option(default: Any, meaning: str, unit: str = "", **constraints: Any) -> Any:
    """A configuration key with the three things every key has: default, meaning, unit."""
    return Field(
        default=default, description=meaning, json_schema_extra={"unit": unit}, **constraints
    )


class Options(BaseModel):
    """Base of all option groups: frozen, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _no_truth_value(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("not_a_number", "a truth value is no number")
    return value


#: Whole numbers are fine where a real one is asked for (YAML's `10` for `10.0`), and so is text
#: that is a number: YAML takes `1e-4` for text.
Real = Annotated[float, Field(strict=False), BeforeValidator(_no_truth_value)]


class ModelOptions(Options):
    """The two networks."""

    latent_dim: int = option(128, "length of the generator's input vector", ge=1)
    generator_channels: int = option(
        64, "channels of the generator's last hidden block; deeper blocks have more", ge=1
    )
    critic_channels: int = option(
        64, "channels of the critic's first block; deeper blocks have more", ge=1
    )
    conditional: bool | Literal["auto"] = option(
        "auto", "generate by class label; auto: when the data has labels"
    )


class PenaltyOptions(Options):
    """The gradient penalty of WGAN-GP (arXiv 1704.00028, equation 3)."""

    weight: Real = option(10.0, "factor of the gradient penalty in the critic's loss", ge=0.0)


class OptimizerOptions(Options):
    """Adam, for the critic and for the generator."""

    generator_learning_rate: Real = option(2e-4, "Adam step size of the generator", gt=0.0)
    critic_learning_rate: Real = option(2e-4, "Adam step size of the critic", gt=0.0)
    beta_1: Real = option(0.0, "Adam decay of the first moment", ge=0.0, lt=1.0)
    beta_2: Real = option(0.9, "Adam decay of the second moment", ge=0.0, lt=1.0)
    epsilon: Real = option(1e-7, "Adam's guard against division by zero", gt=0.0)


class TrainingOptions(Options):
    """The training loop."""

    steps: int = option(10_000, "generator updates in all", "steps", ge=1, lt=2**31)
    global_batch_size: int = option(
        64, "real images per critic update, over all replicas", "images", ge=1
    )
    critic_steps: int = option(5, "critic updates before each generator update", ge=1)
    penalty: PenaltyOptions = PenaltyOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    ema_decay: Real = option(
        0.999, "decay per step of the moving average of generator weights", ge=0.0, lt=1.0
    )
    seed: int = option(0, "seed of weights, latents, penalty points and data order", ge=0, lt=2**31)
    strategy: Literal["auto", "one", "mirrored", "multi_worker", "tpu"] = option(
        "auto", "tf.distribute strategy; auto: TPU, else several GPUs or replicas, else one device"
    )
    replicas: int | None = option(
        None, "replicas under mirrored; on CPU logical devices; null: every GPU, or one", ge=1
    )
    tpu: str = option("local", "name of the TPU to connect to; local: the one of this machine")
    steps_per_call: int = option(
        10, "generator updates per call into the device loop", "steps", ge=1
    )
    log_every_steps: int = option(50, "distance between two lines of metrics", "steps", ge=1)
    sample_every_steps: int = option(
        500, "distance between two sample grids in TensorBoard", "steps", ge=1
    )
    checkpoint_every_steps: int = option(500, "distance between two checkpoints", "steps", ge=1)
    keep_checkpoints: int = option(3, "newest checkpoints that are kept", "checkpoints", ge=1)

    @model_validator(mode="after")
    def _batch_divides(self) -> TrainingOptions:
        if self.replicas and self.global_batch_size % self.replicas:
            raise ValueError(
                f"training.global_batch_size: got {self.global_batch_size}, which "
                f"training.replicas={self.replicas} does not divide; "
                f"allowed: a multiple of {self.replicas}"
            )
        if self.strategy == "one" and (self.replicas or 1) > 1:
            raise ValueError(
                f"training.replicas: got {self.replicas} with training.strategy=one; "
                "allowed: 1, or another strategy"
            )
        return self


class TrainingJob(Options):
    """Everything one training run needs, as plain data: what `python -m trainer` is given.

    Paths may be local or anything tf.io.gfile opens.
    """

    model: ModelOptions = ModelOptions()
    training: TrainingOptions = TrainingOptions()
    image_size: int = option(..., "height and width of an image", "pixels")
    channels: int = option(..., "1: grey, 3: colour")
    class_names: tuple[str, ...] = option((), "label names by class id; empty: unlabelled")
    train_files: tuple[str, ...] = option(
        ..., "TFRecord files of transformed examples, or patterns"
    )
    eval_files: tuple[str, ...] = option((), "the same, held out")
    work_dir: str = option(..., "parent of the stable folders that hold checkpoints and metrics")
    export_dir: str = option(..., "where the SavedModel is written")
    log_dir: str = option(..., "where TensorBoard's event files are written")
