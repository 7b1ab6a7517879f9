"""PyTorch in a process of its own, by an interpreter of its own: its environment is not ours."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import work as works
from timing import Hook, Side
from work import Work

_SCRIPT = Path(__file__).with_name("torch_wgan.py")


def version(python: str) -> str | None:
    """The version of PyTorch that an interpreter has; None: none that can be imported."""
    try:
        command = [python, "-c", "import torch; print(torch.__version__)"]
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def side(work: Work, python: str, layout: str) -> Side:
    """Eager PyTorch.

    Args:
      work: what is trained.
      python: an interpreter that has PyTorch.
      layout: channels_last or contiguous.
    """
    command = [python, str(_SCRIPT), json.dumps(dataclasses.asdict(work)), layout]

    def run(hook: Hook) -> None:
        pipe = subprocess.PIPE
        # Threads that wait spin by default, which on a shared machine costs many times the work.
        patient = os.environ | {"OMP_WAIT_POLICY": "PASSIVE"}
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=patient) as process:
            try:
                _check(work, json.loads(process.stdout.readline()))
                while True:
                    process.stdin.write("1\n")
                    process.stdin.flush()
                    hook(work.images_per_step, float(process.stdout.readline()))
            finally:
                process.stdin.close()

    return run


def _check(work: Work, theirs: dict) -> None:
    """Refuses to compare networks that differ in their number of parameters."""
    state = works.state(work, works.options(work))
    for name in ("generator", "critic"):
        ours = getattr(state, name).count_params()
        if ours != theirs[name]:
            raise ValueError(f"{name}: {ours} parameters here, {theirs[name]} in PyTorch")
