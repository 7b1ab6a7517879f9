"""The whole trainer against the usual Keras way: `train_step` under `fit`, XLA off."""

from __future__ import annotations

import tempfile
from pathlib import Path

import keras_tutorial
import timing
import whole_trainer
import work as works


def main() -> None:
    """Prints a table for each kind of work."""
    arguments = timing.arguments(__doc__).parse_args()
    for work, steps, laps in works.races(arguments.quick):
        with tempfile.TemporaryDirectory() as folder:
            job = works.job(work, Path(folder))
            sides = {
                "whole trainer": whole_trainer.side(job),
                "Keras fit": keras_tutorial.side(work, steps_per_execution=1),
                "Keras fit, 10 steps per execution": keras_tutorial.side(
                    work, steps_per_execution=10
                ),
            }
            counted = timing.race(sides, images=steps * work.images_per_step, laps=laps)
        timing.report(f"Keras: {work}, laps of {steps} steps", counted, arguments.json)


if __name__ == "__main__":
    main()
