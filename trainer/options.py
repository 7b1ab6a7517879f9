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
#: `training.warm_start`: the weights of what is served now.
SERVED = "served"


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


#: Critic updates before each generator update.
CriticSteps = Annotated[int, Field(ge=1, lt=2**16)]


class ModelOptions(Options):
    """The two networks."""

    architecture: Literal["dcgan", "resnet"] = option(
        "dcgan", "dcgan: strided convolutions; resnet: residual blocks as in the WGAN-GP paper"
    )
    latent_dim: int = option(128, "length of the generator's input vector", ge=1)
    generator_channels: int = option(
        64, "channels of the generator's last hidden block; deeper blocks may have more", ge=1
    )
    critic_channels: int = option(
        64, "channels of the critic's first block; deeper blocks may have more", ge=1
    )
    generator_norm: Literal["none", "layer", "batch"] = option(
        "layer", "normalisation in the generator; batch: over the global batch, on all replicas"
    )
    critic_norm: Literal["none", "layer"] = option(
        "layer",
        "normalisation in the critic; never over a batch: the penalty is one example's own",
    )
    conditional: bool | Literal["auto"] = option(
        "auto", "generate by class label; auto: when the data has labels"
    )


class PenaltyOptions(Options):
    """How the critic is kept Lipschitz: a gradient penalty, or clipped weights."""

    kind: Literal["two_sided", "one_sided", "weight_clipping"] = option(
        "two_sided",
        "two_sided: WGAN-GP (arXiv 1704.00028); one_sided: WGAN-LP (arXiv 1709.08894); "
        "weight_clipping: the first WGAN (arXiv 1701.07875), to compare with",
    )
    weight: Real = option(10.0, "factor of the gradient penalty in the critic's loss", ge=0.0)
    clip_value: Real = option(
        0.01, "weight_clipping: bound of every weight of the critic after each update", gt=0.0
    )


class OptimizerOptions(Options):
    """Adam, for the critic and for the generator."""

    generator_learning_rate: Real = option(2e-4, "Adam step size of the generator", gt=0.0)
    critic_learning_rate: Real = option(2e-4, "Adam step size of the critic", gt=0.0)
    learning_rate_decay: Literal["none", "linear"] = option(
        "none", "linear: both step sizes fall to 0 at training.steps"
    )
    beta_1: Real = option(0.0, "Adam decay of the first moment", ge=0.0, lt=1.0)
    beta_2: Real = option(0.9, "Adam decay of the second moment", ge=0.0, lt=1.0)
    epsilon: Real = option(1e-7, "Adam's guard against division by zero", gt=0.0)


class GuardOptions(Options):
    """When training has gone wrong, and how often it is taken back."""

    max_gradient_norm: Real = option(
        1e3, "critic's mean gradient norm above which training has exploded", gt=0.0
    )
    max_gradient_penalty: Real = option(
        1e6, "mean gradient penalty above which training has exploded", gt=0.0
    )
    min_sample_deviation: Real = option(
        0.05,
        "generated images' standard deviation over the largest one seen (at most the real "
        "images'), below which the generator has collapsed; 0: never",
        ge=0.0,
        lt=1.0,
    )
    max_distance_factor: Real = option(
        10.0, "validation distance over the best one, above which the generator is lost", gt=1.0
    )
    max_rollbacks: int = option(
        3, "returns to the last good checkpoint before training is given up", ge=0
    )


class TrainingOptions(Options):
    """The training loop."""

    steps: int = option(10_000, "generator updates in all", "steps", ge=1, lt=2**31)
    global_batch_size: int = option(
        64, "real images per critic update, over all replicas", "images", ge=1
    )
    accumulation_steps: int = option(
        1,
        "pieces each replica's batch is computed in, to save memory; the result is the same",
        ge=1,
    )
    critic_steps: CriticSteps = option(5, "critic updates before each generator update")
    precision: Literal["float32", "mixed_bfloat16", "float64"] = option(
        "float32",
        "of the convolutions; mixed_bfloat16: faster on TPUs and new CPUs, penalty, losses and "
        "weights stay float32; float64: for comparisons",
    )
    penalty: PenaltyOptions = PenaltyOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    l2_weight: Real = option(
        0.0,
        "factor of half the sum of squares of all kernels but those of labels, in both losses",
        ge=0.0,
    )
    ema_decay: Real = option(
        0.999, "decay per step of the moving average of generator weights", ge=0.0, lt=1.0
    )
    horizontal_flip: bool = option(
        False, "mirror half of the real images, at random: not for digits or text"
    )
    seed: int = option(0, "seed of weights, latents, penalty points and data order", ge=0, lt=2**31)
    warm_start: str | None = option(
        None,
        "weights to begin with: served (the model that is served now, if any), or the path of a "
        "SavedModel or of a checkpoint; null: new ones",
        min_length=1,
    )
    strategy: Literal["auto", "one", "mirrored", "multi_worker", "tpu"] = option(
        "auto",
        "tf.distribute strategy; auto: TPU, else several workers (TF_CONFIG), else several GPUs or "
        "replicas, else one device",
    )
    replicas: int | None = option(
        None, "replicas under mirrored; on CPU logical devices; null: every GPU, or one", ge=1
    )
    tpu: str = option("local", "name of the TPU to connect to; local: the one of this machine")
    steps_per_call: int = option(
        10, "generator updates per call into the device loop", "steps", ge=1
    )
    input_memory_bytes: int = option(
        2 * 2**30,
        "images up to this size are held in memory, larger sets in a memory-mapped file",
        "bytes",
        ge=0,
    )
    log_every_steps: int = option(50, "distance between two lines of metrics", "steps", ge=1)
    sample_every_steps: int = option(
        500, "distance between two sample grids, as files and in TensorBoard", "steps", ge=1
    )
    checkpoint_every_steps: int = option(500, "distance between two checkpoints", "steps", ge=1)
    keep_checkpoints: int = option(
        3, "newest checkpoints that are kept, beside the best", "checkpoints", ge=1
    )
    validate_every: int = option(
        500, "distance between two measurements against held-out images", "steps", ge=1
    )
    validation_images: int = option(
        512, "held-out images that are measured against, at most", "images", ge=2
    )
    early_stop_validations: int | None = option(
        None, "validations without a new best after which training ends; null: never", ge=1
    )
    guard: GuardOptions = GuardOptions()

    @model_validator(mode="after")
    def _batch_divides(self) -> TrainingOptions:
        pieces = (self.replicas or 1) * self.accumulation_steps
        if self.global_batch_size % pieces:
            raise ValueError(
                f"training.global_batch_size: got {self.global_batch_size}, which "
                f"training.replicas={self.replicas or 1} times "
                f"training.accumulation_steps={self.accumulation_steps} does not divide; "
                f"allowed: a multiple of {pieces}"
            )
        if self.strategy in ("tpu", "multi_worker") and self.replicas is not None:
            raise ValueError(
                f"training.replicas: got {self.replicas} with training.strategy={self.strategy}, "
                "which has as many as there are devices; allowed: null"
            )
        if self.strategy == "one" and (self.replicas or 1) > 1:
            raise ValueError(
                f"training.replicas: got {self.replicas} with training.strategy=one; "
                "allowed: 1, or another strategy"
            )
        return self


def check_together(model: ModelOptions, training: TrainingOptions) -> None:
    """Refuses options that are fine alone and wrong together.

    Raises:
      ValueError: batch normalisation with gradient accumulation: each piece would be normalised
        by itself, and the result depend on the number of pieces.
    """
    if model.generator_norm == "batch" and training.accumulation_steps > 1:
        raise ValueError(
            f"training.accumulation_steps: got {training.accumulation_steps} with "
            "model.generator_norm=batch, whose statistics are those of one whole batch; "
            "allowed: 1, or another normalisation"
        )


class ExtractorOptions(Options):
    """What turns images into the features that they are compared by."""

    name: str = option(
        "random",
        "random: untrained network, fixed seed; inception: features of FID; else the path of a "
        "SavedModel, such as `tfx-wgan extractor fit` makes",
        min_length=1,
    )
    weights: str | None = option(
        None, "inception: path or URL of its weights; null: where Keras keeps them", min_length=1
    )
    sha256: str | None = option(
        None,
        "hash that the extractor's files must have; null: any, it is written beside the numbers",
        pattern=r"^[0-9a-f]{64}$",
    )

    @model_validator(mode="after")
    def _weights_are_inceptions(self) -> ExtractorOptions:
        if self.weights is not None and self.name != "inception":
            raise ValueError(
                f"evaluation.extractor.weights: got {self.weights!r} with "
                f"evaluation.extractor.name={self.name}, which has its own; allowed: null"
            )
        return self


class TrainingJob(Options):
    """Everything one training run needs, as plain data: what a training process is given.

    Paths may be local or anything tf.io.gfile opens.
    """

    model: ModelOptions = ModelOptions()
    training: TrainingOptions = TrainingOptions()
    extractor: ExtractorOptions = ExtractorOptions()
    image_size: int = option(..., "height and width of an image", "pixels")
    channels: int = option(..., "1: grey, 3: colour")
    class_names: tuple[str, ...] = option((), "label names by class id; empty: unlabelled")
    train_files: tuple[str, ...] = option(
        ..., "TFRecord files of transformed examples, or patterns"
    )
    eval_files: tuple[str, ...] = option((), "the same, held out; none: no validation")
    warm_start_dir: str | None = option(
        None, "SavedModel or checkpoint whose weights training begins with"
    )
    work_dir: str = option(..., "parent of the stable folders that hold checkpoints and metrics")
    export_dir: str = option(..., "where the SavedModel is written")
    log_dir: str = option(..., "where TensorBoard's event files are written")

    @model_validator(mode="after")
    def _fit_together(self) -> TrainingJob:
        check_together(self.model, self.training)
        return self
