"""mixed_bfloat16 against float32: the training loop by itself, on batches that are there."""

from __future__ import annotations

import dataclasses

import tensorflow as tf
import timing
import work as works
from timing import Hook, Side
from work import Work

from trainer import loop

_LARGE = dataclasses.replace(works.MNIST, image_size=64, batch_size=32, critic_steps=2)


def side(work: Work, precision: str) -> Side:
    """The trainer's loop, one step per call."""

    def run(hook: Hook) -> None:
        options = works.options(work, precision=precision)
        strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
        with strategy.scope():
            state = works.state(work, options)
        train = loop.build(state, options, strategy)
        images, labels = (batch[None] for batch in works.batches(work))
        while True:
            train(images, labels, 0, 1)
            hook(work.images_per_step)

    return run


def main() -> None:
    """Prints a table for each image size."""
    arguments = timing.arguments(__doc__).parse_args()
    for work, steps, laps in (
        [(works.TINY, 2, 2)]
        if arguments.quick
        else [
            (works.DIGITS, 50, 7),
            (works.MNIST, 4, 7),
            (_LARGE, 2, 7),
        ]
    ):
        sides = {name: side(work, name) for name in ("mixed_bfloat16", "float32")}
        counted = timing.race(sides, images=steps * work.images_per_step, laps=laps)
        timing.report(f"precision: {work}, laps of {steps} steps", counted, arguments.json)


if __name__ == "__main__":
    main()
