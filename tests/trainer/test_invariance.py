"""Training is the same however it is spread: the command that shows it, and its bounds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TOOL = REPOSITORY / "tools" / "invariance.py"


@pytest.fixture(scope="module")
def shown():
    """What the command prints, and the object in its last line."""
    done = subprocess.run(
        [sys.executable, str(TOOL), "--quick", "--json"],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done.stdout, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("name", "replicas", "workers", "pieces"),
    [
        ("2 replicas", 2, 1, 1),
        ("8 replicas", 8, 1, 1),
        ("2 workers", 2, 2, 1),
        ("1 replica, 4 pieces", 1, 1, 4),
    ],
)
def test_invariance_training_equals_that_of_one_device(shown, name, replicas, workers, pieces):
    (row,) = [row for row in shown[1]["rows"] if row["configuration"] == name]
    # First of all, that it was spread as it says.
    assert (row["replicas_in_sync"], row["workers_in_sync"]) == (replicas, workers)
    assert row["accumulation_steps"] == pieces
    assert row["inputs"] == 0
    # Sums of other parts differ in their last bits: no difference at all would be no comparison.
    assert 0.0 < row["gradients"] <= 1e-6
    assert 0.0 < row["few_weights"] <= 1e-5
    assert 0.0 < row["float64_weights"] <= 1e-9
    assert row["moved"]["float64"] > 1e-3


def test_invariance_table_tells_every_quantity_and_bound(shown):
    text, values = shown
    assert values["steps"] == 10
    assert "all within bounds" in text
    for words in ("inputs", "gradients", "weights, 3", "weights, 10", "(<= 1e-06)", "(<= 1e-09)"):
        assert words in text
    assert len(values["rows"]) == 4


def _arrays():
    """What a configuration leaves behind, with numbers that are easy to change."""
    networks = ("generator", "critic", "ema_generator")
    inputs = ("images", "labels", "critic latents", "generator latents", "alphas")
    whens = ("few", "float64 start", "float64", "float32 start", "float32")
    return {
        "replicas": np.array(2),
        "workers": np.array(1),
        **{f"part/{name}": np.arange(8.0) for name in inputs},
        **{f"gradient/{name}": np.ones(4) for name in ("critic", "generator")},
        **{f"weights/{when}/{network}": np.ones(4) for when in whens for network in networks},
    }


@pytest.mark.parametrize(
    ("name", "factor", "broken"),
    [
        ("part/alphas", 1 + 1e-15, ["inputs"]),
        ("gradient/generator", 1 + 2e-6, ["gradients"]),
        ("gradient/critic", 1 + 5e-7, []),
        ("gradient/critic", np.nan, ["gradients"]),
        ("weights/few/critic", 1 + 2e-5, ["few_weights"]),
        ("weights/float64/ema_generator", 1 - 2e-9, ["float64_weights"]),
        ("weights/float32/critic", 2.0, []),
    ],
)
def test_row_difference_beyond_its_bound_is_broken(monkeypatch, name, factor, broken):
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import invariance

    found = _arrays()
    found[name] = found[name] * factor
    row = invariance._row(invariance.Configuration(replicas=2), _arrays(), found)
    assert row["broken"] == broken
