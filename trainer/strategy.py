"""From options to a tf.distribute strategy: which devices train, and who writes."""

from __future__ import annotations

import dataclasses
import functools
import signal
import socket
import threading
import urllib.parse
from collections.abc import Callable, Sequence

import tenacity
import tensorflow as tf

from trainer import cluster
from trainer.errors import TrainerError
from trainer.options import TrainingOptions
from trainer.progress import console


@dataclasses.dataclass(frozen=True)
class Devices:
    """The devices of one training run.

    Attributes:
      strategy: replicates computation and variables.
      description: one line for the user: what was picked and why.
      is_chief: whether this process writes checkpoints, metrics and the model; the others read.
      workers: processes that train together.
    """

    strategy: tf.distribute.Strategy
    description: str
    is_chief: bool
    workers: int = 1

    def from_chief(self, values: Sequence[float]) -> list[float]:
        """The chief's values, on every worker: what all must decide alike, one decides."""
        mine = values if self.is_chief else [0.0] * len(values)
        return self._added_up(mine)

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any worker."""
        return self._added_up([float(flag)])[0] > 0.0

    def _added_up(self, values: Sequence[float]) -> list[float]:
        if self.workers == 1:
            return list(values)
        local = self.strategy.num_replicas_in_sync // self.workers  # of which one speaks

        def own(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            speaks = context.replica_id_in_sync_group % local == 0
            return tf.constant(values if speaks else [0.0] * len(values), tf.float64)

        vector = self.strategy.experimental_distribute_values_from_function(own)
        return self._sum(vector).numpy().tolist()

    @functools.cached_property
    def _sum(self) -> Callable[[tf.Tensor], tf.Tensor]:
        return tf.function(
            lambda vector: self.strategy.reduce(tf.distribute.ReduceOp.SUM, vector, axis=None),
            autograph=False,
        )


def connect(options: TrainingOptions, interrupted: Callable[[], bool] = lambda: False) -> Devices:
    """Configures devices and builds the strategy; must come before TensorFlow initialises them.

    Args:
      options: `strategy`, `replicas`, `tpu` and `global_batch_size` are read.
      interrupted: asked while waiting for other workers; true: wait no longer.

    Raises:
      TrainerError: the devices or the other workers are not there, or the global batch does not
        divide.
      TrainingInterrupted: told to stop while waiting.
      PeerLost: another worker has gone at once.
    """
    workers = cluster.described()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    kind = options.strategy if options.strategy != "auto" else _pick(options, len(gpus), workers)
    if workers and kind != "multi_worker" and len(workers.addresses) > 1:
        raise TrainerError(
            f"training.strategy: got {kind}, but TF_CONFIG describes {len(workers.addresses)} "
            "workers; choose auto or multi_worker, or unset TF_CONFIG"
        )
    if kind == "multi_worker" and workers:
        cluster.meet(workers, interrupted, lambda line: print(line, file=console(), flush=True))
    build: dict[str, Callable[[TrainingOptions, int], tuple[tf.distribute.Strategy, str]]] = {
        "one": _one,
        "mirrored": _mirrored,
        "multi_worker": functools.partial(_multi_worker, workers),
        "tpu": _tpu,
    }
    strategy, what = build[kind](options, len(gpus))
    replicas = strategy.num_replicas_in_sync
    pieces = replicas * options.accumulation_steps
    if options.global_batch_size % pieces:
        raise TrainerError(
            f"training.global_batch_size: got {options.global_batch_size}, which {replicas} "
            f"replicas times training.accumulation_steps={options.accumulation_steps} do not "
            f"divide; allowed: a multiple of {pieces}"
        )
    how = "picked by auto" if options.strategy == "auto" else "as configured"
    description = f"{what}, {replicas} replica{'s' if replicas > 1 else ''} ({how})"
    return Devices(
        strategy=strategy,
        description=description,
        is_chief=strategy.extended.should_checkpoint,
        workers=len(workers.addresses) if workers and kind == "multi_worker" else 1,
    )


def _pick(options: TrainingOptions, gpus: int, workers: cluster.Cluster | None) -> str:
    if options.tpu != "local" or tf.config.list_physical_devices("TPU"):
        return "tpu"
    if workers and len(workers.addresses) > 1:
        return "multi_worker"
    replicas = options.replicas or max(gpus, 1)
    return "mirrored" if replicas > 1 else "one"


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


def _multi_worker(
    workers: cluster.Cluster | None, options: TrainingOptions, gpus: int
) -> tuple[tf.distribute.Strategy, str]:
    if workers is None:
        raise TrainerError(
            "training.strategy: got multi_worker, but TF_CONFIG describes no cluster; "
            "set TF_CONFIG on every worker, or choose another strategy"
        )
    with cluster.losses_told():
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    _take_back_sigterm()
    return strategy, f"mirrored over {len(workers.addresses)} workers"


def _take_back_sigterm() -> None:
    """Has Python's handler called again: a cluster's TensorFlow puts one of its own in its place.

    That one only notes the signal, for a preemption handler that is not used here.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))


def _tpu(options: TrainingOptions, gpus: int) -> tuple[tf.distribute.Strategy, str]:
    try:
        return tf.distribute.TPUStrategy(_initialised_tpu(options.tpu)), f"TPU {options.tpu}"
    except _TPU_ERRORS as error:
        why = " ".join(str(error).split())[:300]
        raise TrainerError(
            f"training.tpu: got {options.tpu!r}, which cannot be used ({why}); "
            "name a TPU that is up, or choose another training.strategy"
        ) from error


_TPU_ERRORS = (OSError, ValueError, RuntimeError, tf.errors.OpError)


def _is_passing(error: BaseException) -> bool:
    """Whether a TPU may answer if asked again: one that is just being made or set free does."""
    passing = (
        ConnectionError,
        TimeoutError,
        tf.errors.AbortedError,
        tf.errors.DeadlineExceededError,
        tf.errors.UnavailableError,
    )
    return isinstance(error, passing)


def _say_again(call: tenacity.RetryCallState) -> None:
    why = call.outcome.exception() if call.outcome else None
    pause = call.next_action.sleep if call.next_action else 0.0
    text = f"TPU {call.args[0]} does not answer ({why}): trying again in {pause:.0f} s"
    print(text, file=console())


@tenacity.retry(
    retry=tenacity.retry_if_exception(_is_passing),
    stop=tenacity.stop_after_attempt(5),
    wait=tenacity.wait_exponential(multiplier=5, max=60),
    before_sleep=_say_again,
    reraise=True,
)
def _initialised_tpu(name: str) -> tf.distribute.cluster_resolver.TPUClusterResolver:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=name)
    address = urllib.parse.urlsplit(resolver.master())
    if address.hostname:
        # TensorFlow would wait for ever for a TPU that is not there.
        socket.create_connection((address.hostname, address.port or 8470), timeout=10).close()
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return resolver
