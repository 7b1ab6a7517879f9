"""The whole trainer against eager PyTorch, in both of its memory layouts.

PyTorch is no dependency of this project: name an interpreter that has it with `--torch-python`
or TORCH_PYTHON. Without one the comparison is left out.
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
    parser = timing.arguments(__doc__)
    default = os.environ.get("TORCH_PYTHON", sys.executable)
    parser.add_argument("--torch-python", default=default, help="an interpreter with PyTorch")
    arguments = parser.parse_args()
    version = torch_side.version(arguments.torch_python)
    if version is None:
        why = f"{arguments.torch_python} cannot import torch; see --torch-python"
        print(f"\nPyTorch: left out, {why}\n")
        timing.append(arguments.json, {"benchmark": "PyTorch", "left_out": why})
        return
    for work, steps, laps in (
        [(works.TINY, 10, 2)]
        if arguments.quick
        else [
            (works.DIGITS, 50, 9),
            (works.MNIST, 10, 9),
        ]
    ):
        with tempfile.TemporaryDirectory() as folder:
            sides = {"whole trainer": whole_trainer.side(works.job(work, Path(folder)))}
            for layout in ("contiguous", "channels_last"):
                name = f"PyTorch, {layout}"
                sides[name] = torch_side.side(work, arguments.torch_python, layout)
            counted = timing.race(sides, images=steps * work.images_per_step, laps=laps)
        title = f"PyTorch {version}: {work}, laps of {steps} steps"
        timing.report(title, counted, arguments.json)


if __name__ == "__main__":
    main()
