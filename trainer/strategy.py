"""From options to a tf.distribute strategy: which devices train, and who writes."""

from __future__ import annotations

import dataclasses
import json
import os

import tensorflow as tf

from trainer.errors import TrainerError
from trainer.options import TrainingOptions


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices of one training run.

    Attributes:
      strategy: replicates computation and variables.
      description: one line for the user: what was picked and why.
      is_chief: whether this process writes checkpoints, metrics and the model.
    """

    strategy: tf.distribute.Strategy
    description: str
    is_chief: bool


def connect(options: TrainingOptions) -> Devices:
    """Configures devices and builds the strategy; must come before TensorFlow initialises them.

    Args:
      options: `strategy`, `replicas`, `tpu` and `global_batch_size` are read.

    Raises:
      TrainerError: the devices are not there, or the global batch does not divide.
    """
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    kind = options.strategy if options.strategy != "auto" else _pick(options, len(gpus))
    build = {
        "one": _one,
        "mirrored": _mirrored,
        "multi_worker": _multi_worker,
        "tpu": _tpu,
    }[kind]
    strategy, what = build(options, len(gpus))
    replicas = strategy.num_replicas_in_sync
    if options.global_batch_size % replicas:
        raise TrainerError(
            f"training.global_batch_size: got {options.global_batch_size}, which {replicas} "
            f"replicas do not divide; allowed: a multiple of {replicas}"
        )
    how = "picked by auto" if options.strategy == "auto" else "as configured"
    description = f"{what}, {replicas} replica{'s' if replicas > 1 else ''} ({how})"
    return Devices(
        strategy=strategy,
        description=description,
        is_chief=strategy.extended.should_checkpoint,
    )


def _pick(options: TrainingOptions, gpus: int) -> str:
    if options.tpu != "local" or tf.config.list_physical_devices("TPU"):
        return "tpu"
    if _workers() > 1:
        return "multi_worker"
    replicas = options.replicas or max(gpus, 1)
    return "mirrored" if replicas > 1 else "one"


def _workers() -> int:
    """Number of workers in the cluster that TF_CONFIG describes."""
    cluster = json.loads(os.environ.get("TF_CONFIG") or "{}").get("cluster", {})
    return len(cluster.get("worker", ())) + len(cluster.get("chief", ()))


def _one(options: TrainingOptions, gpus: int) -> tuple[tf.distribute.Strategy, str]:
    device = "GPU:0" if gpus else "CPU:0"
    return tf.distribute.OneDeviceStrategy(f"/{device}"), f"one device, {device}"


def _mirrored(options: TrainingOptions, gpus: int) -> tuple[tf.distribute.Strategy, str]:
    replicas = options.replicas or gpus or 1
    if not gpus:
        return _mirrored_cpu(replicas), "mirrored over logical CPU devices"
    if replicas > gpus:
        raise TrainerError(
            f"training.replicas: got {replicas}, but this machine has {gpus} GPUs; "
            f"allowed: 1 to {gpus}"
        )
    return tf.distribute.MirroredStrategy([f"/GPU:{i}" for i in range(replicas)]), "mirrored, GPU"


def _mirrored_cpu(replicas: int) -> tf.distribute.Strategy:
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or ()) < replicas:
        logical = [tf.config.LogicalDeviceConfiguration()] * replicas
        tf.config.set_logical_device_configuration(cpu, logical)
    # Adds replicas up in a fixed order; collectives have none to gain on one CPU.
    return tf.distribute.MirroredStrategy(
        [f"/CPU:{i}" for i in range(replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


def _multi_worker(options: TrainingOptions, gpus: int) -> tuple[tf.distribute.Strategy, str]:
    if not _workers():
        raise TrainerError(
            "training.strategy: got multi_worker, but TF_CONFIG describes no cluster; "
            "set TF_CONFIG on every worker, or choose another strategy"
        )
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    return strategy, f"mirrored over {_workers()} workers"


def _tpu(options: TrainingOptions, gpus: int) -> tuple[tf.distribute.Strategy, str]:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=options.tpu)
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver), f"TPU {options.tpu}"
    except (OSError, ValueError, RuntimeError, tf.errors.OpError) as error:
        why = " ".join(str(error).split())[:300]
        raise TrainerError(
            f"training.tpu: got {options.tpu!r}, which cannot be used ({why}); "
            "name a TPU that is up, or choose another training.strategy"
        ) from error
