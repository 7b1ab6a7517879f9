"""What the user sees while training runs: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

import tqdm

#: Names a file descriptor that leads to the user; standard error may lead to a log file.
CONSOLE_VARIABLE = "TFX_WGAN_CONSOLE_FD"
SECONDS_BETWEEN_LINES = 10.0
#: Metrics that are shown, and what they are called there.
_SHOWN = {
    "wasserstein": "wasserstein",
    "validation_wasserstein": "held-out",
    "gradient_penalty": "penalty",
    "gradient_norm": "gradient norm",
    "validation_distance": "distance",
}


def console() -> TextIO:
    """The stream that the user reads: the descriptor of `CONSOLE_VARIABLE`, or stderr."""
    descriptor = os.environ.get(CONSOLE_VARIABLE)
    if not descriptor:
        return sys.stderr
    return os.fdopen(int(descriptor), "w", buffering=1, closefd=False, encoding="utf-8")


class Progress:
    """Reports steps, speed, remaining time and the last metrics.

    Args:
      stream: where to write; a bar if it is a terminal.
      total: steps in all.
      images_per_step: real images one step uses.
      clock: seconds that only go forward.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        total: int,
        images_per_step: int,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._stream = stream
        self._total = total
        self._images_per_step = images_per_step
        self._clock = clock
        self._start = (0.0, 0)
        self._last_line = 0.0
        self._shown: dict[str, float] = {}
        self._metrics = ""
        self._bar: tqdm.tqdm | None = None

    def begin(self, step: int) -> None:
        """Begins to count time, with so many steps done before."""
        self._start = (self._clock(), step)
        self._last_line = self._start[0]
        if self._stream.isatty():
            self._bar = tqdm.tqdm(
                total=self._total,
                initial=step,
                file=self._stream,
                unit="step",
                dynamic_ncols=True,
            )

    def report(self, text: str) -> None:
        """Writes one line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.write(text, file=self._stream)
        else:
            print(text, file=self._stream, flush=True)

    def metrics(self, values: Mapping[str, float]) -> None:
        """Takes the metrics to show from now on; those of a validation stay until the next."""
        self._shown |= {name: values[name] for name in _SHOWN if name in values}
        self._metrics = ", ".join(
            f"{_SHOWN[name]} {value:.3g}" for name, value in self._shown.items()
        )

    def advance(self, step: int) -> None:
        """Shows that `step` steps are done."""
        now = self._clock()
        seconds, steps = now - self._start[0], step - self._start[1]
        speed = steps / max(seconds, 1e-9)
        if self._bar is not None:
            self._bar.set_postfix_str(
                f"{speed * self._images_per_step:.0f} images/s, {self._metrics}", refresh=False
            )
            self._bar.update(step - self._bar.n)
        elif steps and (now - self._last_line >= SECONDS_BETWEEN_LINES or step == self._total):
            self._last_line = now
            left = (self._total - step) / max(speed, 1e-9)
            self.report(
                f"step {step}/{self._total}, {speed * self._images_per_step:.0f} images/s, "
                f"{left:.0f} s left" + (f", {self._metrics}" if self._metrics else "")
            )

    def take_back(self, step: int) -> None:
        """Shows that training goes on from an earlier step; speed is counted anew from there."""
        self._start = (self._clock(), step)
        if self._bar is not None:
            self._bar.update(step - self._bar.n)

    def close(self) -> None:
        """Leaves the bar as it is and the terminal usable."""
        if self._bar is not None:
            self._bar.close()
