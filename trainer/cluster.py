"""The workers of a cluster, as TF_CONFIG describes them: who they are, and how they meet.

TensorFlow waits an hour for a worker that does not come, and listens to no signal meanwhile. So
the workers meet first, and it is asked only when all of them are there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf

from trainer.errors import PeerLost, TrainerError, TrainingInterrupted

#: How long the workers wait for each other at the start.
MEETING_SECONDS = 600.0
#: When to say for whom.
_PATIENCE_SECONDS = 10.0
_SECONDS_BETWEEN_TRIES = 0.2
#: What TensorFlow raises in the workers that are left when one has gone: its connection was reset
#: (Unavailable), its heartbeat stopped (Unavailable, DeadlineExceeded), it is another process now
#: (Aborted, FailedPrecondition), or a collective was given up because of that (Cancelled).
_LOSSES = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
)
#: Words that it has for it. Files fail with the same kinds of errors, in other words.
_SIGNS = re.compile(
    r"heartbeat|reset by peer|from peer|remote target|incarnation|socket closed|broken pipe"
    r"|connection (?:refused|reset|closed|timed)|connect to all addresses|agent must be in"
    r"|coordination service|collective|recvasync is cancelled|barrier",
    re.IGNORECASE,
)
#: And those of a remote file system that cannot be reached.
_STORAGE = re.compile(r"HTTP request|libcurl")
_EXAMPLE = (
    '{"cluster": {"worker": ["host:port", "host:port"]}, "task": {"type": "worker", "index": 0}}'
)


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Processes that train together.

    Attributes:
      addresses: host and port by name, e.g. `worker 1`; the chief first.
      own: name of this process.
    """

    addresses: Mapping[str, str]
    own: str

    @property
    def is_chief(self) -> bool:
        """Whether this process writes for all; as TensorFlow decides it."""
        return self.own == next(iter(self.addresses))


def described() -> Cluster | None:
    """The cluster of this process; None where TF_CONFIG is not set or names no workers.

    Raises:
      TrainerError: TF_CONFIG is not as TensorFlow wants it.
    """
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = json.loads(text)
        tasks = config.get("cluster", {})
        addresses = {
            f"{job} {index}": _checked(address)
            for job in ("chief", "worker")
            for index, address in enumerate(tasks.get(job, ()))
        }
        if not addresses:
            return None
        own = f"{config['task']['type']} {int(config['task']['index'])}"
        if own not in addresses:
            raise LookupError(f"there is no {own}")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise TrainerError(
            f"TF_CONFIG: got {text[:300]}, which describes no cluster ({error}); "
            f"allowed: such as {_EXAMPLE}"
        ) from error
    return Cluster(addresses, own)


def meet(
    cluster: Cluster,
    interrupted: Callable[[], bool] = lambda: False,
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Waits until every other worker has been there; must come before TensorFlow's own server.

    Each answers at the port that will be TensorFlow's. Who has seen all others goes on, and
    TensorFlow's server answers those who have not.

    Args:
      cluster: whose workers meet.
      interrupted: asked while waiting; true: wait no longer.
      report: takes one line for the user when it takes long.

    Raises:
      TrainerError: one did not come in `MEETING_SECONDS`, or the port is taken.
      TrainingInterrupted: told to stop while waiting.
    """
    missing = {name: at for name, at in cluster.addresses.items() if name != cluster.own}
    began = time.monotonic()
    reported = False
    with _answering(cluster):
        while missing := {name: at for name, at in missing.items() if not _answers(at)}:
            who = ", ".join(f"{name} ({address})" for name, address in missing.items())
            waited = time.monotonic() - began
            if interrupted():
                raise TrainingInterrupted(f"training interrupted while it waited for {who}")
            if waited > MEETING_SECONDS:
                raise TrainerError(
                    f"TF_CONFIG: {who} did not come within {MEETING_SECONDS:.0f} s; start every "
                    "worker, or correct its address"
                )
            if waited > _PATIENCE_SECONDS and not reported:
                reported = True
                report(f"waiting for {who}")
            time.sleep(_SECONDS_BETWEEN_TRIES)


@contextlib.contextmanager
def losses_told() -> Iterator[None]:
    """Tells the loss of another worker from other errors.

    Raises:
      PeerLost: in place of what TensorFlow raises then.
    """
    try:
        yield
    except _LOSSES as error:
        if (reason := _loss(error)) is None:
            raise
        raise PeerLost(f"training: a worker of the cluster was lost ({reason})") from error


def _loss(error: tf.errors.OpError) -> str | None:
    """The one line of TensorFlow's many that says why a worker is lost; None where none is."""
    # Names of source files and functions may hold any word.
    said = [line.strip() for line in error.message.splitlines() if 'File "' not in line]
    found = [line for line in said if _SIGNS.search(line)]
    if not found or _STORAGE.search(error.message):
        return None
    # A node, or the raw record of a call, only when nothing better is there.
    plain = [line for line in found if not line.startswith((":{", "[[", "Detected at"))]
    reason = re.sub(r"^.*aborted by: |\s*\[.*$", "", plain[0]) if plain else ""
    return reason[:200] or type(error).__name__


def _checked(address: str) -> str:
    """The address as it is, once it is known to be one. Raises ValueError."""
    _host_and_port(address)
    return address


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


def _answers(address: str) -> bool:
    host, port = _host_and_port(address)
    with contextlib.suppress(OSError):
        socket.create_connection((host.strip("[]"), port), timeout=1.0).close()
        return True
    return False


@contextlib.contextmanager
def _answering(cluster: Cluster) -> Iterator[None]:
    """Answers at the own port: the system accepts connections, and nobody has to read them."""
    _, port = _host_and_port(cluster.addresses[cluster.own])
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        server = socket.create_server(("", port), family=family, backlog=1024, dualstack_ipv6=both)
    except OSError as error:
        raise TrainerError(
            f"TF_CONFIG: port {port} of {cluster.own} cannot be opened ({error.strerror}); end "
            "what uses it, or choose another one on every worker"
        ) from error
    with server:
        yield
