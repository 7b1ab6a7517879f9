"""Whole pipelines, run as a user runs them: by the command, in a process of its own."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]

#: Networks and steps small enough for tests, and bounds that such a model meets.
TINY = (
    "model.latent_dim=16",
    "model.generator_channels=8",
    "model.critic_channels=8",
    "training.critic_steps=1",
    "training.global_batch_size=32",
    "training.optimizer.generator_learning_rate=1e-3",
    "training.optimizer.critic_learning_rate=1e-3",
    "training.log_every_steps=50",
    "evaluation.gate.relative_frechet_distance.bound=1e9",
    "evaluation.gate.coverage.bound=null",
    "evaluation.gate.diversity.bound=null",
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a finished command left on the screen."""

    code: int
    screen: str
    output: str

    @property
    def summary(self):
        return json.loads(self.output.splitlines()[-1])

    def states(self):
        return {name: node["state"] for name, node in self.summary["components"].items()}


@pytest.fixture(scope="session")
def tiny():
    """Settings small enough for tests."""
    return TINY


@pytest.fixture(scope="session")
def environment():
    """The environment in which the checkout's packages are found from anywhere."""
    return {**os.environ, "PYTHONPATH": str(CHECKOUT)}


@pytest.fixture(scope="session")
def start_pipeline(environment):
    """Starts `tfx-wgan run` with a tiny model; the caller waits for it."""

    def start(config, root, *overrides):
        settings = [part for setting in (*TINY, *overrides) for part in ("--set", setting)]
        command = [sys.executable, "-m", "pipeline.cli", "run", str(config), "--root", str(root)]
        return subprocess.Popen(
            [*command, "--json", *settings],
            cwd=root.parent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture(scope="session")
def run_pipeline(start_pipeline):
    """Runs `tfx-wgan run` with a tiny model and returns its outcome."""

    def run(config, root, *overrides):
        process = start_pipeline(config, root, *overrides)
        output, screen = process.communicate()
        return Outcome(process.returncode, screen, output)

    return run
