"""The whole Evaluator against a bare loop over the same extractor and generator.

The bare loop embeds the same held-out, training and generated images, in the best batches, and
measures nothing. The Evaluator is the node's Beam pipeline with all metrics, overall and for ten
classes, from reading the examples to writing the numbers. Then, in processes of their own, peak
resident memory with two numbers of images.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_model_analysis as tfma
import timing
import work as works
from timing import Hook, Side

from components.gan_evaluator import dataflow, results
from components.gan_evaluator.generator import Generator, latents
from components.gan_evaluator.options import GateOptions
from pipeline import gate
from pipeline.config import Config
from trainer import records
from trainer.quality import extractors

_SIZE, _CLASSES, _LATENT_DIM = 32, 10, 64
_SHARDS = 4


class _CheapGenerator(tf.Module):
    """A matrix, a convolution: all that it takes to be a generator that takes labels."""

    def __init__(self) -> None:
        super().__init__()
        rng = tf.random.Generator.from_seed(0)
        self._dense = tf.Variable(rng.normal([_LATENT_DIM + _CLASSES, 8 * 8 * 32], stddev=0.2))
        self._kernel = tf.Variable(rng.normal([8, 8, 1, 32], stddev=0.1))

    def __call__(self, latent: tf.Tensor, label: tf.Tensor) -> dict[str, tf.Tensor]:
        told = tf.concat([latent, tf.one_hot(label, _CLASSES)], axis=1)
        x = tf.reshape(tf.nn.relu(told @ self._dense), [-1, 8, 8, 32])
        shape = [tf.shape(x)[0], _SIZE, _SIZE, 1]
        x = tf.tanh(tf.nn.conv2d_transpose(x, self._kernel, shape, strides=4))
        return {"image": tf.cast(127.5 * (x + 1.0), tf.uint8)}


def prepare(folder: Path, images: int) -> None:
    """Writes a model, and as many held-out and training examples as asked for."""
    module = _CheapGenerator()
    signature = tf.function(module.__call__).get_concrete_function(
        tf.TensorSpec([None, _LATENT_DIM], tf.float32, name="latent"),
        tf.TensorSpec([None], tf.int64, name="label"),
    )
    tf.saved_model.save(module, str(folder / "model"), {"serving_default": signature})
    names = folder / "model" / "assets.extra" / "class_names.txt"
    names.parent.mkdir()
    names.write_text("".join(f"{label}\n" for label in range(_CLASSES)))
    pixels, labels = works.images(_SIZE)
    for seed, split in enumerate(("eval", "train")):
        rng = np.random.default_rng(seed)
        rows = rng.integers(len(pixels), size=images)
        for shard, part in enumerate(np.array_split(rows, _SHARDS)):
            noise = rng.integers(-8, 9, (len(part), *pixels.shape[1:]))
            noisy = np.clip(pixels[part] + noise, 0, 255).astype(np.uint8)
            name = f"{split}-{shard}.gz"
            works.write(folder / name, noisy, labels[part], name)


def evaluate(folder: Path) -> None:
    """One evaluation, as the node does it."""
    options = GateOptions(image_size=_SIZE, channels=1)
    config = tfma.utils.update_eval_config_with_defaults(
        gate.eval_config(Config()), has_baseline=False
    )
    models = {"": str(folder / "model")}
    with tempfile.TemporaryDirectory() as output, beam.Pipeline() as pipeline:
        dataflow.measure(
            pipeline,
            held_out_files=_files(folder, "eval"),
            training_files=_files(folder, "train"),
            model_dirs=models,
            options=options,
            eval_config=config,
            writers=results.writers_for(output, config, models),
            output_dir=output,
        )


def bare(folder: Path) -> None:
    """The same images through the same functions."""
    extract = extractors.create(GateOptions(image_size=_SIZE, channels=1).extractor)
    generator = Generator(str(folder / "model"))
    for split in ("eval", "train"):
        files = records.find(_files(folder, split))
        for part in records.read(files, (_SIZE, _SIZE, 1), labelled=True):
            extract(part.pixels.reshape(-1, _SIZE, _SIZE, 1))
            if split == "eval":
                drawn = latents(list(part.ids), 0, _LATENT_DIM)
                extract(generator(drawn, part.labels))


def side(function: Callable[[Path], None], folder: Path, images: int) -> Side:
    """One lap is one evaluation."""

    def run(hook: Hook) -> None:
        while True:
            function(folder)
            hook(images)

    return run


def _files(folder: Path, split: str) -> list[str]:
    return sorted(map(str, folder.glob(f"{split}-*.gz")))


def _peak_mebibytes(images: int) -> float:
    command = [sys.executable, __file__, "--child", str(images)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    """Prints the tables."""
    parser = timing.arguments(__doc__)
    parser.add_argument("--child", type=int, help="be the process whose memory is measured")
    parser.add_argument("--images", type=int, help="held-out images of a lap")
    parser.add_argument("--laps", type=int, help="that count")
    arguments = parser.parse_args()
    if arguments.child:
        with tempfile.TemporaryDirectory() as folder:
            prepare(Path(folder), arguments.child)
            evaluate(Path(folder))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10)
        return
    images = arguments.images or (256 if arguments.quick else 50_000)
    laps = arguments.laps or (1 if arguments.quick else 3)
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), images)
        sides = {
            "Evaluator": side(evaluate, Path(folder), images),
            "bare loop": side(bare, Path(folder), images),
        }
        counted = timing.race(sides, images=images, laps=laps)
    fewer = images // 5
    peaks = {count: _peak_mebibytes(count) for count in (fewer, images)}
    title = f"evaluator: {_SIZE}x{_SIZE}, {images:,} held-out images, {_CLASSES} classes"
    timing.report(title, counted, arguments.json)
    rows = [(f"{count:,} images", f"{peak:,.0f}") for count, peak in peaks.items()]
    timing.table("peak resident memory of an evaluation, MiB", ("", ""), rows)


if __name__ == "__main__":
    main()
