"""The whole trainer against eager PyTorch, in both of its memory layouts.

PyTorch is no dependency of this project: the environment variable TORCH_PYTHON names an interpreter
that has it. Without one the comparison is left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import timing
import torch_side
import whole_trainer
import work as works


def main() -> None:
    """Prints a table for each kind of work, or why there is none."""
    arguments = timing.arguments(__doc__).parse_args()
    python = os.environ.get("TORCH_PYTHON", sys.executable)
    version = torch_side.version(python)
    if version is None:
        why = f"{python} cannot import torch; set TORCH_PYTHON to an interpreter that can"
        print(f"\nPyTorch: left out, {why}\n")
        timing.append(arguments.json, {"benchmark": "PyTorch", "left_out": why})
        return
    for work, steps, laps in works.races(arguments.quick):
        with tempfile.TemporaryDirectory() as folder:
            sides = {"whole trainer": whole_trainer.side(works.job(work, Path(folder)))}
            for layout in ("contiguous", "channels_last"):
                name = f"PyTorch, {layout}"
                sides[name] = torch_side.side(work, python, layout)
            counted = timing.race(sides, images=steps * work.images_per_step, laps=laps)
        title = f"PyTorch {version}: {work}, laps of {steps} steps"
        timing.report(title, counted, arguments.json)


if __name__ == "__main__":
    main()
