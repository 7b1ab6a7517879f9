"""A training that is killed ends as one that was left alone: the command that shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TOOL = REPOSITORY / "tools" / "crashes.py"


def test_crashes_three_kills_at_random_moments_change_nothing():
    done = subprocess.run(
        [sys.executable, str(TOOL), "--cycles", "3", "--seed", "2", "--json"],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert len(told["kills"]) == 3
    assert told["trainings"] >= 1
    assert told["different"] == []
    assert "all ended alike, bit for bit" in done.stdout


@pytest.mark.parametrize(
    "changed",
    [
        {"variable": {"kernel": np.array([1.0, np.nextafter(2.0, 3.0)])}},
        {"variable": {"kernel": np.array([1.0, 2.0], np.float32)}},
        {"variable": {}},
        {"sample": {"png_bytes": np.array([b"other"], object)}},
        {"metrics": {"0": {"step": 3, "critic_loss": 1.0}, "1": {"step": 6}}},
    ],
)
def test_differences_whatever_is_not_the_same_is_named(monkeypatch, changed):
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import crashes

    def whole():
        return {
            "variable": {"kernel": np.array([1.0, 2.0])},
            "sample": {"png_bytes": np.array([b"png"], object)},
            "metrics": {"0": {"step": 3, "critic_loss": 1.0}},
        }

    assert crashes.differences(whole(), whole()) == []
    (found,) = crashes.differences(whole(), whole() | changed)
    assert found.split()[0] in changed
