"""Precision, recall, density and coverage against the authors' package."""

from __future__ import annotations

import contextlib
import io
import math

import numpy as np
import prdc
import pytest

from trainer.quality.neighbours import precision_recall_density_coverage


def draw(seed: int, count: int, shift: float = 0.0, spread: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, spread, (count, 16)).astype(np.float32)


@pytest.mark.parametrize(
    ("real", "generated"),
    [
        (draw(0, 300), draw(1, 300)),
        (draw(0, 300), draw(1, 200, 0.5)),
        (draw(0, 200), draw(1, 300, 0.0, 0.5)),
        (draw(0, 200) + 50.0, draw(1, 300, 0.2) + 50.0),
        (draw(0, 7), draw(1, 9)),
        (np.repeat(draw(0, 50), 4, axis=0), draw(1, 100)),
        (draw(0, 300), np.repeat(draw(1, 10), 20, axis=0)),
        (draw(0, 100), draw(0, 100)),
    ],
    ids=["same", "shifted", "narrow", "off-centre", "few", "real-twins", "collapsed", "itself"],
)
@pytest.mark.parametrize("neighbours", [1, 5])
def test_precision_recall_density_coverage_equal_prdc(real, generated, neighbours):
    with contextlib.redirect_stdout(io.StringIO()):
        expected = prdc.compute_prdc(real, generated, neighbours)
    found = precision_recall_density_coverage(real, generated, neighbours)
    assert found == pytest.approx({name: float(value) for name, value in expected.items()}, 1e-6)


def test_precision_recall_density_coverage_by_hand():
    # On a line, k = 1. Real 0, 1, 3 with radii 1, 1, 2; generated 0.5, 10 with radii 9.5.
    real = np.array([[0.0], [1.0], [3.0]], np.float32)
    generated = np.array([[0.5], [10.0]], np.float32)
    found = precision_recall_density_coverage(real, generated, neighbours=1)
    # 0.5 lies in the balls of 0 and 1 (2.5 from 3, whose ball reaches 2); 10 lies in none.
    assert found == {
        "precision": 1 / 2,
        "recall": 1.0,
        "density": 2 / 2,
        "coverage": 2 / 3,
    }


@pytest.mark.parametrize(("n", "m"), [(5, 20), (20, 5), (0, 0)])
def test_precision_recall_density_coverage_no_fifth_neighbour_is_nan(n, m):
    found = precision_recall_density_coverage(draw(0, n), draw(1, m))
    assert all(math.isnan(value) for value in found.values())
    assert list(found) == ["precision", "recall", "density", "coverage"]
