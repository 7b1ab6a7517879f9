"""Who is faster, on a machine whose speed changes by the minute: sides take turns, lap by lap.

Every side is a training loop of its own that never ends and calls a hook after some work. It runs
in a thread that the hook stops when a lap is over, and lets go when its next turn has come: so
only one side runs at a time, and a ratio is always between neighbouring laps.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import queue
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

#: Called by a side after some work: images done since the last call, and processor seconds that
#: were spent on them in other processes.
Hook = Callable[..., None]
Side = Callable[[Hook], None]


class _Finished(Exception):
    """Ends a side from inside its hook."""


@dataclasses.dataclass(frozen=True)
class Lap:
    """One turn of one side.

    Attributes:
      images: real images that the critic has seen.
      seconds: on the wall.
      cpu_seconds: on all processors together; what other programs take does not count.
    """

    images: int
    seconds: float
    cpu_seconds: float


class _Runner:
    """A side in its thread."""

    def __init__(self, side: Side, images: int):
        self._images = images
        self._turns: queue.Queue[bool] = queue.Queue()
        self._laps: queue.Queue[Lap | BaseException] = queue.Queue()
        self._thread = threading.Thread(target=self._run, args=(side,), daemon=True)
        self._done = 0
        self._cpu_elsewhere = 0.0
        self._thread.start()

    def lap(self) -> Lap:
        """Lets the side run until it has done its images."""
        self._turns.put(True)
        lap = self._laps.get()
        if isinstance(lap, BaseException):
            raise lap
        return lap

    def end(self) -> None:
        """Ends the side; to be called between laps."""
        self._turns.put(False)
        self._thread.join()

    def _run(self, side: Side) -> None:
        try:
            self._wait()
            side(self._hook)
            raise RuntimeError("a side of the comparison has ended by itself")
        except _Finished:
            pass
        except BaseException as error:
            self._laps.put(error)

    def _hook(self, images: int, cpu_seconds: float = 0.0) -> None:
        self._done += images
        self._cpu_elsewhere += cpu_seconds
        if self._done >= self._images:
            seconds = time.perf_counter() - self._begun
            cpu = time.process_time() - self._cpu_begun + self._cpu_elsewhere
            self._laps.put(Lap(self._done, seconds, cpu))
            self._wait()

    def _wait(self) -> None:
        if not self._turns.get():
            raise _Finished
        self._done, self._cpu_elsewhere = 0, 0.0
        self._begun, self._cpu_begun = time.perf_counter(), time.process_time()


def race(sides: Mapping[str, Side], *, images: int, laps: int) -> dict[str, list[Lap]]:
    """Lets sides take turns.

    Args:
      sides: by name.
      images: length of a lap.
      laps: of each side that count; one before them, for building and warming up, does not.

    Returns:
      The laps of each side, in the order they were run.
    """
    runners = {name: _Runner(side, images) for name, side in sides.items()}
    counted: dict[str, list[Lap]] = {name: [] for name in runners}
    for runner in runners.values():
        runner.lap()
    for index in range(laps):
        # Every other round backwards: a machine that slows down favours nobody.
        for name in list(runners)[:: -1 if index % 2 else 1]:
            counted[name].append(runners[name].lap())
    for runner in runners.values():
        runner.end()
    return counted


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How often the first side is as fast as another: median and quartiles over rounds."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def ratio(first: Sequence[Lap], other: Sequence[Lap], field: str = "seconds") -> Ratio:
    """Speed of the first over the speed of the other, by wall or by processor time.

    Args:
      first: laps of one side.
      other: as many of another.
      field: `seconds` or `cpu_seconds`.
    """

    def per_image(lap: Lap) -> float:
        return getattr(lap, field) / lap.images

    ratios = sorted(per_image(b) / per_image(a) for a, b in zip(first, other, strict=True))
    if len(ratios) == 1:
        return Ratio(ratios[0], ratios[0], ratios[0])
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Ratio(median, low, high)


def arguments(description: str) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="tiny networks, short laps")
    parser.add_argument("--json", type=Path, help="append the figures to this file, a line of JSON")
    return parser


def report(title: str, counted: Mapping[str, Sequence[Lap]], json_file: Path | None) -> None:
    """Prints a table; the first side is compared with each of the others.

    Args:
      title: above the table, and in the JSON line.
      counted: what `race` has returned.
      json_file: where to append a line of JSON, too.
    """
    first = next(iter(counted.values()))
    rows, figures = [], {}
    for name, laps in counted.items():
        speed = statistics.median(lap.images / lap.seconds for lap in laps)
        wall, cpu = ratio(first, laps), ratio(first, laps, "cpu_seconds")
        rows.append((name, f"{speed:,.0f}", str(wall), str(cpu)))
        figures[name] = {
            "images_per_second": speed,
            "ratio": dataclasses.asdict(wall),
            "cpu_ratio": dataclasses.asdict(cpu),
            "laps": len(laps),
        }
    ahead = f"{next(iter(counted))} is faster by"
    table(f"{title}, {len(first)} laps each", ("", "images/s", ahead, "by processor time"), rows)
    append(json_file, {"benchmark": title, "sides": figures})


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints aligned columns under a title."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    print(f"\n{title}")
    for row in (head, *rows):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  " + "  ".join(cells))
    print(flush=True)


def append(json_file: Path | None, figures: Mapping) -> None:
    """Appends a line of JSON, if there is a file to append to."""
    if json_file:
        with json_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(figures) + "\n")
