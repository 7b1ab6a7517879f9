"""The whole trainer against a bare compiled step with the same networks.

A lap is one full cycle of the trainer: ten lines of metrics, a grid of samples, a validation and
a checkpoint, which by default come every 500 steps.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import bare_step
import timing
import whole_trainer
import work as works


def main() -> None:
    """Prints the table."""
    arguments = timing.arguments(__doc__).parse_args()
    work, cycle, laps = (works.TINY, 20, 2) if arguments.quick else (works.DIGITS, 500, 5)
    with tempfile.TemporaryDirectory() as folder:
        job = works.job(
            work,
            Path(folder),
            log_every_steps=cycle // 10,
            steps_per_call=min(10, cycle // 10),
            sample_every_steps=cycle,
            checkpoint_every_steps=cycle,
            validate_every=cycle,
        )
        sides = {"whole trainer": whole_trainer.side(job), "bare step": bare_step.side(work)}
        counted = timing.race(sides, images=cycle * work.images_per_step, laps=laps)
    timing.report(f"trainer overhead: {work}, laps of {cycle} steps", counted, arguments.json)


if __name__ == "__main__":
    main()
