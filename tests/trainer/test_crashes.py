"""A training that is killed ends as one that was left alone: the command that shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
