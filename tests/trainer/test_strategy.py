"""Which devices train, and how the workers of a cluster meet."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest
import tenacity
import tensorflow as tf

from trainer import cluster, strategy
from trainer.errors import PeerLost, TrainerError, TrainingInterrupted
from trainer.options import TrainingOptions


def _config(*addresses, index=0, **more):
    return json.dumps(
        {
            "cluster": {"worker": addresses, **more},
            "task": {"type": "worker", "index": index},
        }
    )


@pytest.fixture
def sockets():
    """Two sockets that are bound and do not answer."""
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("localhost", 0))
        yield first, second


def _address(one):
    return f"localhost:{one.getsockname()[1]}"


def _free(*sockets):
    """Their addresses, once they are closed."""
    addresses = [_address(one) for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def test_connect_multi_worker_without_a_cluster_is_one_line(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(TrainerError, match=r"training\.strategy: got multi_worker, but TF_CONFIG"):
        strategy.connect(TrainingOptions(strategy="multi_worker"))


@pytest.mark.parametrize("choice", ["tpu", "auto"])
def test_connect_named_tpu_that_is_not_there_is_one_line(choice):
    with pytest.raises(TrainerError, match=r"training\.tpu: got 'no-such-tpu', which cannot"):
        strategy.connect(TrainingOptions(strategy=choice, tpu="no-such-tpu"))


def test_connect_tpu_that_does_not_answer_is_asked_again_and_then_one_line(monkeypatch, capsys):
    """A real port at which nobody listens."""
    monkeypatch.setattr(strategy._initialised_tpu.retry, "wait", tenacity.wait_none())
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"grpc://127.0.0.1:{server.getsockname()[1]}"
    options = TrainingOptions(strategy="tpu", tpu=address)
    with pytest.raises(TrainerError, match=rf"training\.tpu: got '{address}', which .*refused"):
        strategy.connect(options)
    said = capsys.readouterr().err
    assert said.count(f"TPU {address} does not answer") == 4
    assert said.count("trying again in 0 s") == 4


@pytest.mark.parametrize(("replicas", "pieces"), [(3, 1), (4, 5)])
def test_connect_batch_that_the_devices_do_not_divide_is_one_line(replicas, pieces):
    # As devices found by themselves: what is asked for is checked with the options.
    given = {"replicas": replicas, "accumulation_steps": pieces}
    options = TrainingOptions(global_batch_size=64).model_copy(update=given)
    with pytest.raises(TrainerError, match=rf"got 64, .* a multiple of {replicas * pieces}$"):
        strategy.connect(options)


def test_connect_one_worker_of_a_cluster_of_one_is_no_cluster(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", _config("localhost:1"))
    devices = strategy.connect(TrainingOptions())
    assert (devices.workers, devices.is_chief) == (1, True)
    assert devices.description == "one device, CPU:0, 1 replica (picked by auto)"


@pytest.mark.parametrize(
    ("choice", "kind"),
    [
        ({"strategy": "one"}, "one"),
        ({"strategy": "mirrored", "replicas": 2}, "mirrored"),
        ({"tpu": "no-such-tpu"}, "tpu"),
    ],
)
def test_connect_several_workers_that_would_each_train_alone_is_one_line(monkeypatch, choice, kind):
    """Each would be the chief of its own training, in one folder."""
    monkeypatch.setenv("TF_CONFIG", _config("a:1", "b:2", index=1))
    with pytest.raises(TrainerError) as raised:
        strategy.connect(TrainingOptions(**choice))
    assert str(raised.value) == (
        f"training.strategy: got {kind}, but TF_CONFIG describes 2 workers; choose auto or "
        "multi_worker, or unset TF_CONFIG"
    )


@pytest.mark.parametrize(
    "config",
    [
        "no json",
        "[]",
        '{"cluster": {"worker": ["a:1", "b:2"]}}',
        _config("a:1", "b:2", index=2),
        _config("a:1", "b"),
    ],
)
def test_connect_tf_config_that_describes_no_cluster_is_one_line(monkeypatch, config):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(TrainerError, match=r"^TF_CONFIG: got .*; allowed: such as .*$"):
        strategy.connect(TrainingOptions())


@pytest.mark.parametrize(
    ("config", "own", "chief"),
    [
        (_config("a:1", "b:2"), "worker 0", True),
        (_config("a:1", "b:2", index=1), "worker 1", False),
        (_config("a:1", chief=["b:2"]), "worker 0", False),
    ],
)
def test_described_chief_is_the_one_of_that_name_or_the_first_worker(
    monkeypatch, config, own, chief
):
    monkeypatch.setenv("TF_CONFIG", config)
    found = cluster.described()
    assert (found.own, found.is_chief) == (own, chief)
    assert set(found.addresses.values()) == {"a:1", "b:2"}


def test_connect_worker_that_does_not_come_is_one_line(monkeypatch, sockets):
    monkeypatch.setattr(cluster, "MEETING_SECONDS", 0.3)
    own, other = sockets
    absent = _address(other)
    monkeypatch.setenv("TF_CONFIG", _config(*_free(own), absent))
    with pytest.raises(TrainerError) as raised:
        strategy.connect(TrainingOptions())
    assert str(raised.value) == (
        f"TF_CONFIG: worker 1 ({absent}) did not come within 0 s; start every worker, or correct "
        "its address"
    )


def test_connect_told_to_stop_waits_no_longer(monkeypatch, sockets):
    own, other = sockets
    absent = _address(other)
    monkeypatch.setenv("TF_CONFIG", _config(absent, *_free(own), index=1))
    asked = iter([False, True])
    with pytest.raises(TrainingInterrupted, match=r"while it waited for worker 0 \(localhost:"):
        strategy.connect(TrainingOptions(), lambda: next(asked))


def test_connect_port_that_is_taken_is_one_line(monkeypatch, sockets):
    own, other = sockets
    own.listen()
    monkeypatch.setenv("TF_CONFIG", _config(_address(own), _address(other)))
    with pytest.raises(TrainerError, match=r"port \d+ of worker 0 cannot be opened \(Address alr"):
        strategy.connect(TrainingOptions())


def test_meet_who_comes_late_is_waited_for_and_the_user_told(monkeypatch, sockets):
    monkeypatch.setattr(cluster, "_PATIENCE_SECONDS", 0.2)
    addresses = dict(zip(("worker 0", "worker 1"), _free(*sockets), strict=True))
    lines = []
    first = threading.Thread(
        target=cluster.meet,
        args=(cluster.Cluster(addresses, "worker 0"),),
        kwargs={"report": lines.append},
    )
    first.start()
    time.sleep(0.6)
    assert first.is_alive()
    assert lines == [f"waiting for worker 1 ({addresses['worker 1']})"]
    cluster.meet(cluster.Cluster(addresses, "worker 1"))
    with socket.create_server(("localhost", int(addresses["worker 1"].rpartition(":")[2]))):
        first.join(10)  # a server at the port counts, too: who went ahead has TensorFlow's there
    assert not first.is_alive()


_NODE = """Graph execution error:

Detected at node while/CollectiveReduceV2 defined at (most recent call last):
  File "/code/loop.py", line 60, in connect_to_peer
"""


@pytest.mark.parametrize(
    ("kind", "message", "reason"),
    [
        (
            tf.errors.UnavailableError,
            _NODE + "Collective ops is aborted by: Connection reset by peer\nAdditional GRPC error "
            'information from remote target /job:worker/task:1\n:{"grpc_status":14}',
            "Connection reset by peer",
        ),
        (
            tf.errors.CancelledError,
            _NODE + "\t [[{{node while/CollectiveReduceV2}}]] [Op:__inference_train_5124]",
            "CancelledError",
        ),
        (
            tf.errors.AbortedError,
            "Collective ops is aborted by: Device /job:worker/task:1 current incarnation doesn't "
            "match with one in the group. [type.googleapis.com/x='']",
            "Device /job:worker/task:1 current incarnation doesn't match with one in the group.",
        ),
    ],
)
def test_losses_told_lost_worker_is_told_with_its_reason(kind, message, reason):
    with pytest.raises(PeerLost) as raised, cluster.losses_told():
        raise kind(None, None, message)
    assert str(raised.value) == f"training: a worker of the cluster was lost ({reason})"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (tf.errors.ResourceExhaustedError, "Connection reset by peer"),
        (tf.errors.AbortedError, _NODE.replace("CollectiveReduceV2", "SaveV2") + "disk full"),
        (
            tf.errors.UnavailableError,
            "Error executing an HTTP request: libcurl code 56 meaning 'Failure when receiving data "
            "from the peer', error details: Connection reset by peer",
        ),
    ],
)
def test_losses_told_other_errors_stay_what_they_are(kind, message):
    with pytest.raises(kind, match=message.splitlines()[-1][:40]), cluster.losses_told():
        raise kind(None, None, message)


def test_losses_told_file_that_cannot_be_written_is_no_loss(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(cluster._LOSSES, match="is not a directory"), cluster.losses_told():
        tf.io.gfile.makedirs(str(tmp_path / "file" / "export"))
