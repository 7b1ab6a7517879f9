"""Two workers on loopback, as real processes: what they write, and what they survive."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from trainer.checkpoint_files import BUNDLE
from trainer.result import RESULT_FILE

REPOSITORY = Path(__file__).resolve().parents[2]
#: How long to wait for anything, on a machine that has other things to do.
SECONDS = 300
STEPS = 60


class Workers:
    """Processes that train one job together; each has a job file and folders of its own.

    `work_dir` is the one thing that they share, as it must be.
    """

    def __init__(self, job, folder, count):
        self.folder = folder
        self.work_dir = folder / "work"
        self._started = []
        self._addresses = _free_addresses(count)
        for index in range(count):
            own = folder / str(index)
            own.mkdir(parents=True)
            (own / "job.json").write_text(
                job.model_copy(
                    update={
                        "work_dir": str(self.work_dir),
                        "export_dir": str(own / "export"),
                        "log_dir": str(own / "log"),
                    }
                ).model_dump_json()
            )

    def start(self, index):
        """Runs the command of one worker: the same one, whether it is the first time or not."""
        environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
        environment.pop("TF_CONFIG", None)
        if len(self._addresses) > 1:
            environment["TF_CONFIG"] = json.dumps(
                {
                    "cluster": {"worker": self._addresses},
                    "task": {"type": "worker", "index": index},
                }
            )
        own = self.folder / str(index)
        with (own / "said.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "trainer.process", str(own / "job.json")],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._started.append(process)
        return process

    def start_all(self):
        """Runs the command of every worker."""
        return [self.start(index) for index in range(len(self._addresses))]

    def wait_for_step(self, step):
        """Waits until a checkpoint of this or a later step is there."""
        until = time.monotonic() + SECONDS
        while self.newest_step() < step:
            assert time.monotonic() < until, self.said(0)
            time.sleep(0.01)

    def newest_step(self):
        found = self.work_dir.glob("*/checkpoints/step-*")
        return max((int(path.name.removeprefix("step-")) for path in found), default=-1)

    def said(self, index):
        """What a worker has said so far."""
        return (self.folder / str(index) / "said.log").read_text()

    def metrics(self):
        """Lines of metrics.jsonl without their timings."""
        (path,) = self.work_dir.glob("*/metrics.jsonl")
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            del line["images_per_second"]
        return lines

    def variables(self):
        """Of the last checkpoint."""
        newest = max(self.work_dir.glob("*/checkpoints/step-*"))
        assert newest.name == f"step-{STEPS:08d}"
        reader = tf.train.load_checkpoint(str(newest / BUNDLE))
        return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}

    def close(self):
        for process in self._started:
            process.kill()
            process.wait()


def _free_addresses(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("localhost", 0))
        return [f"localhost:{one.getsockname()[1]}" for one in sockets]


def _codes(processes):
    return [process.wait(SECONDS) for process in processes]


@pytest.fixture
def make(request, job, examples, tmp_path_factory):
    """Makes a number of workers for a job that lasts some seconds, with everything on."""
    training = job.training.model_copy(
        update={
            "steps": STEPS,
            "steps_per_call": 2,
            "log_every_steps": 5,
            "sample_every_steps": 20,
            "checkpoint_every_steps": 5,
            "validate_every": 20,
            "validation_images": 16,
        }
    )
    job = job.model_copy(update={"training": training, "eval_files": (str(examples),)})

    def make(count):
        workers = Workers(job, tmp_path_factory.mktemp("workers"), count)
        request.addfinalizer(workers.close)
        return workers

    return make


_FINISHED = {}


@pytest.fixture
def finished(make):
    """A training by so many workers that nobody disturbed; trained once."""

    def finished(count):
        if count not in _FINISHED:
            workers = make(count)
            assert _codes(workers.start_all()) == [0] * count, workers.said(0)
            _FINISHED[count] = workers
        return _FINISHED[count]

    return finished


def _assert_same_variables(a, b):
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name)


def test_workers_two_train_as_one(finished):
    one, two = finished(1), finished(2)
    assert "one device" in one.said(0)
    for index in (0, 1):
        assert "mirrored over 2 workers, 2 replicas (picked by auto)" in two.said(index)
    assert [line["step"] for line in two.metrics()] == list(range(5, STEPS + 1, 5))
    for a, b in zip(one.metrics(), two.metrics(), strict=True):
        assert a == pytest.approx(b, rel=1e-3, abs=1e-4)
    # The stable folder is the same: either could go on with what the other has begun.
    assert {p.name for p in one.work_dir.iterdir() if p.name[0] != "."} == {
        p.name for p in two.work_dir.iterdir() if p.name[0] != "."
    }


def test_workers_the_chief_alone_writes(finished):
    two = finished(2)
    assert {path.name for path in (two.folder / "1").iterdir()} == {"job.json", "said.log"}
    chief = {path.name for path in (two.folder / "0").iterdir()}
    assert chief == {"job.json", "said.log", "log", "export"}
    assert (two.folder / "0" / "export" / "saved_model.pb").exists()
    result = json.loads((two.folder / "0" / "log" / RESULT_FILE).read_text())
    assert result["steps"] == STEPS


def test_workers_one_told_to_stop_all_save_and_the_same_command_goes_on(make, finished):
    """First worker 1 is told, then the chief."""
    workers = make(2)
    for told, step in ((1, 10), (0, 30)):
        processes = workers.start_all()
        workers.wait_for_step(step)
        processes[told].send_signal(signal.SIGTERM)
        assert _codes(processes) == [75, 75], workers.said(told)
        stopped_at = workers.newest_step()
        assert step <= stopped_at < STEPS
        for index in (0, 1):
            assert f"training interrupted at step {stopped_at} of {STEPS}" in workers.said(index)
    assert not (workers.folder / "1" / "log").exists()
    assert _codes(workers.start_all()) == [0, 0], workers.said(0)
    assert f"going on from step {stopped_at}" in workers.said(1)
    _assert_same_variables(workers.variables(), finished(2).variables())
    assert workers.metrics() == finished(2).metrics()


def test_workers_each_killed_and_started_again_end_as_undisturbed(make, finished):
    """One after the other: worker 1, then the chief. Who is left notices, waits and goes on."""
    workers = make(2)
    processes = workers.start_all()
    for index, step in ((1, 10), (0, 25)):
        workers.wait_for_step(step)
        processes[index].kill()
        processes[index].wait()
        processes[index] = workers.start(index)
    assert _codes(processes) == [0, 0], workers.said(0) + workers.said(1)
    for index in (0, 1):
        assert workers.said(index).count("training: a worker of the cluster was lost") == 1
        assert workers.said(index).count("starting anew (1 of 10 times)") == 1
        assert workers.said(index).count("going on from step") == 2
    _assert_same_variables(workers.variables(), finished(2).variables())
    assert workers.metrics() == finished(2).metrics()


def test_workers_given_different_options_end_with_one_line_each(make):
    workers = make(2)
    path = workers.folder / "1" / "job.json"
    other = json.loads(path.read_text())
    other["training"]["seed"] += 1
    path.write_text(json.dumps(other))
    assert _codes(workers.start_all()) == [1, 1]
    for index in (0, 1):
        assert "the workers were given different options or data" in workers.said(index)
        assert "Traceback" not in workers.said(index)
    assert workers.newest_step() == -1  # nothing was trained
