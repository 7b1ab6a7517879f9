"""The benchmarks run, and their arithmetic is right; no speed is asserted on a shared machine."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def timing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("timing", BENCHMARKS / "timing.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["timing"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_race_sides_take_turns_and_one_runs_at_a_time(timing) -> None:
    running, order = set(), []

    def side(name: str):
        def run(hook) -> None:
            while True:
                running.add(name)
                assert running == {name}
                order.append(name)
                time.sleep(0.001)
                running.discard(name)
                hook(4)

        return run

    laps = timing.race({"a": side("a"), "b": side("b")}, images=8, laps=2)

    assert "".join(order) == "aabbaabbbbaa"
    assert [lap.images for lap in laps["a"]] == [8, 8]
    assert all(lap.seconds >= 0.002 for side_laps in laps.values() for lap in side_laps)


def test_race_side_that_fails_fails_the_race(timing) -> None:
    def broken(hook) -> None:
        raise ValueError("no networks")

    with pytest.raises(ValueError, match="no networks"):
        timing.race({"broken": broken}, images=1, laps=1)


def test_race_side_that_ends_by_itself_fails_the_race(timing) -> None:
    with pytest.raises(RuntimeError, match="ended by itself"):
        timing.race({"short": lambda hook: None}, images=1, laps=1)


def test_ratio_is_median_and_quartiles_of_neighbouring_laps(timing) -> None:
    first = [timing.Lap(8, 1.0, 2.0)] * 3
    other = [timing.Lap(8, seconds, 2.0) for seconds in (2.0, 4.0, 3.0)]

    assert timing.ratio(first, other) == timing.Ratio(3.0, 2.5, 3.5)
    assert timing.ratio(first, other, "cpu_seconds") == timing.Ratio(1.0, 1.0, 1.0)


def test_ratio_counts_images_not_laps(timing) -> None:
    assert timing.ratio([timing.Lap(20, 1.0, 1.0)], [timing.Lap(10, 1.0, 1.0)]).median == 2.0


@pytest.mark.bench
@pytest.mark.parametrize("script", sorted(path.stem for path in BENCHMARKS.glob("bench_*.py")))
def test_benchmark_quick_prints_a_table_and_writes_its_figures(script: str, tmp_path: Path) -> None:
    figures = tmp_path / "figures.jsonl"
    command = [sys.executable, str(BENCHMARKS / f"{script}.py"), "--quick", "--json", str(figures)]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}

    done = subprocess.run(command, capture_output=True, text=True, env=environment)

    assert done.returncode == 0, done.stderr[-2000:]
    (line,) = figures.read_text().splitlines()
    found = json.loads(line)
    assert found["benchmark"] in done.stdout
    for side in found.get("sides", {}).values():
        assert side["images_per_second"] > 0
        assert side["ratio"]["low"] <= side["ratio"]["median"] <= side["ratio"]["high"]
