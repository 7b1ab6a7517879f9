"""The training process: what it accepts, what stops it, and how it begins anew."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainer import lock, result

REPOSITORY = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(REPOSITORY)}

#: A process whose training is the function `train`, which stands in for the controller's.
PROGRAM = """
import os, sys, threading, time
from trainer import controller, process
from trainer.errors import PeerLost, TrainingInterrupted
process.RESTART_PAUSE_SECONDS = 0.01
process.LOCK_SECONDS = 0.5
restarts = int(os.environ.get(process.RESTARTS_VARIABLE, "0"))
{train}
controller.run = train
sys.exit(process.main(sys.argv[1:]))
"""


@pytest.fixture
def start(job, tmp_path):
    """Starts a process with that function, more arguments and environment; its job is `job`."""
    path = tmp_path / "job.json"
    path.write_text(job.model_dump_json())
    started = []

    def start(train, *arguments, **environment):
        code = PROGRAM.format(train=f"def train(job, interrupted):\n{train}")
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path), *arguments],
            env=ENVIRONMENT | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _error(job):
    return json.loads(Path(job.log_dir, "training.json").read_text())["error"]


@pytest.mark.parametrize("content", [None, "{}", "no json"])
def test_main_not_a_job_exits_2_with_one_line(tmp_path, content):
    path = tmp_path / "job.json"
    if content is not None:
        path.write_text(content)
    done = subprocess.run(
        [sys.executable, "-m", "trainer.process", str(path)],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "not a training job" in done.stderr


def test_run_lost_worker_begins_the_process_anew_with_all_it_had(start, job):
    # The job's file, the flag and standard input must be there the third time, too, and no file
    # that the process opened itself.
    process = start(
        "    print(restarts, os.getpid(), os.path.exists('/proc/self/fd/77'), flush=True)\n"
        "    os.dup2(0, 77, inheritable=True)\n"
        "    if restarts < 2: raise PeerLost('worker lost')\n"
        "    while not interrupted(): time.sleep(0.01)\n"
        "    raise TrainingInterrupted('stopped')",
        "--while-stdin-open",
    )
    lines = [process.stdout.readline().split() for _ in range(3)]
    output, shown = process.communicate()  # closes its standard input
    assert lines == [[str(i), str(process.pid), "False"] for i in range(3)]
    assert output == ""
    assert process.returncode == 75
    assert "worker lost; starting anew (1 of 10 times)" in shown
    assert "worker lost; starting anew (2 of 10 times)" in shown
    assert _error(job) == "stopped"


def test_run_worker_lost_too_often_exits_75_and_says_so(start, job):
    process = start("    raise PeerLost('worker lost')", TFX_WGAN_RESTARTS="9")
    _, shown = process.communicate()
    assert process.returncode == 75
    assert shown.count("starting anew") == 1
    assert _error(job) == (
        "worker lost; given up after 10 restarts: run the same command on every worker to go on"
    )


def test_run_worker_lost_after_progress_is_counted_anew(start, job):
    # The first time a checkpoint is written, the second time none is.
    made = Path(job.work_dir, "key", "checkpoints", "step-00000005")
    process = start(
        f"    made = {str(made)!r}\n"
        "    if os.path.exists(made) and restarts == 2: raise TrainingInterrupted('stopped')\n"
        "    os.makedirs(made, exist_ok=True)\n"
        "    raise PeerLost('worker lost')",
        TFX_WGAN_RESTARTS="9",
    )
    _, shown = process.communicate()
    assert process.returncode == 75
    assert [line for line in shown.splitlines() if "starting anew" in line] == [
        f"worker lost; starting anew ({count} of 10 times)" for count in (1, 2)
    ]
    assert _error(job) == "stopped"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_that_nobody_heeds_ends_the_process_after_its_grace(number):
    # A lock that is never set free stands for a call that waits for a lost worker.
    code = (
        "import threading; from trainer import process; process.GRACE_SECONDS = 0.5\n"
        "stop = process.Stop(); print(stop.is_asked(), flush=True)\n"
        "lock = threading.Lock(); lock.acquire(); lock.acquire()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "False\n"
    began = time.monotonic()
    process.send_signal(number)
    _, shown = process.communicate(timeout=30)
    assert process.returncode == 75
    assert 0.4 < time.monotonic() - began < 10
    assert "did not stop within" in shown


@pytest.mark.parametrize(("kind", "code"), [("TrainerError", 1), ("TrainingInterrupted", 75)])
def test_run_line_that_cannot_be_left_is_still_said(start, job, tmp_path, kind, code):
    (tmp_path / "log").write_text("a file in the log folder's place")
    process = start(f"    from trainer.errors import {kind}\n    raise {kind}('one line')")
    _, shown = process.communicate()
    assert process.returncode == code
    assert shown.splitlines()[-1] == "one line"
    assert "Traceback" not in shown


def test_run_killed_leaves_no_line_of_an_earlier_run(start, job):
    result.write(job, error="of an earlier run")
    process = start("    os.kill(os.getpid(), 9)")
    process.communicate()
    assert process.returncode == -9
    assert result.read(job) == {}


def test_run_worker_that_is_not_the_chief_leaves_the_log_folder_alone(start, job):
    result.write(job, error="of the chief")
    config = {
        "cluster": {"worker": ["a:1", "b:2"]},
        "task": {"type": "worker", "index": 1},
    }
    train = "    raise TrainingInterrupted('stopped')"
    process = start(train, TF_CONFIG=json.dumps(config))
    _, shown = process.communicate()
    assert (process.returncode, shown.splitlines()[-1]) == (75, "stopped")
    assert result.read(job) == {"error": "of the chief"}


@pytest.mark.parametrize(
    "cluster", [None, {"worker": ["a:1", "b:2"]}, {"chief": ["a:1"], "worker": ["b:2"]}]
)
def test_run_folder_of_another_training_is_refused_in_one_line(start, job, cluster):
    task = {"type": next(iter(cluster or {}), None), "index": 0}
    config = {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})} if cluster else {}
    with lock.held(Path(job.work_dir)):
        process = start("    print('trained')", **config)
        output, shown = process.communicate()
    assert (process.returncode, output) == (1, "")
    assert _error(job) == (
        f"{job.work_dir} is in use by another training (process {os.getpid()}); "
        "wait for it, or end it"
    )
    assert _error(job) in shown


def test_run_waits_for_a_training_that_is_about_to_end(start, job):
    with lock.held(Path(job.work_dir)):
        process = start("    print('trained')")
        while process.poll() is None and not _is_loaded(process):
            time.sleep(0.05)
    output, _ = process.communicate()
    assert (process.returncode, output) == (0, "trained\n")


def _is_loaded(process):
    """Whether the process has come to import TensorFlow: the wait for the folder is next."""
    maps = Path(f"/proc/{process.pid}/maps")
    return maps.exists() and "_pywrap_tensorflow" in maps.read_text()


def test_run_workers_of_one_training_share_its_folder(start, job):
    cluster = {"worker": ["localhost:1", "localhost:2"]}
    tasks = [{"cluster": cluster, "task": {"type": "worker", "index": i}} for i in (0, 1)]
    train = "    print('in', flush=True); sys.stdin.read()"
    workers = [start(train, TF_CONFIG=json.dumps(task)) for task in tasks]
    assert [worker.stdout.readline() for worker in workers] == ["in\n", "in\n"]
    assert [worker.communicate("")[0] for worker in workers] == ["", ""]
    assert [worker.returncode for worker in workers] == [0, 0]
