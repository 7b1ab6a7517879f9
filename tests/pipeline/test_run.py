"""How a run ends when it is interrupted, wherever the interruption finds it."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from pipeline import config, run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruptions_swallowed_on_the_way_are_remembered(number):
    before = signal.getsignal(number)
    with run._Interruptions() as interruptions:
        interruptions.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        assert interruptions.asked
        with pytest.raises(KeyboardInterrupt):
            interruptions.check()
        interruptions.hold()
        signal.raise_signal(number)  # what is left of the run is done
    assert signal.getsignal(number) == before


def test_scratch_left_from_inside_goes_back_and_is_removed(tmp_path):
    before = os.getcwd()
    with run._scratch(tmp_path / "tmp"):
        os.chdir(tmp_path / "tmp")
    assert os.getcwd() == before
    assert not (tmp_path / "tmp").exists()


def test_session_removes_what_a_killed_run_has_left(tmp_path):
    left = tmp_path / "runs" / "20260101-000000" / "tmp"
    left.mkdir(parents=True)
    (left / "large").write_text("x")
    (left.parent / "log.txt").write_text("kept")
    with run.session(config.load("digits", root=str(tmp_path))):
        assert not left.exists()
    assert (left.parent / "log.txt").exists()


def test_run_interrupted_while_it_loads_exits_75_with_a_summary(tmp_path):
    command = [sys.executable, "-m", "pipeline.cli", "run", "digits", "--json"]
    process = subprocess.Popen(
        [*command, "--root", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stderr:
        if line.startswith("loading"):
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    output, screen = process.communicate(timeout=60)
    assert process.returncode == 75, screen
    summary = json.loads(output.splitlines()[-1])
    assert summary["status"] == "interrupted"
    assert summary["error"] == "run the same command again to go on"
    assert os.path.exists(summary["report"])
