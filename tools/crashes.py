"""Shows that a training that is killed, however often, ends as one that was left alone.

    make crashes ARGS="--cycles 20 --seed 0"

Trains a small conditional network once without interruption; then again with `kill -9` at random
moments and the same command run anew, until it is done, and once more from the start until there
were so many kills. Compares variables, exported samples, metrics and history; exit code 1 when
anything differs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import digits
import numpy as np
import tensorflow as tf

from trainer.checkpoint_files import BUNDLE
from trainer.options import TrainingJob
from trainer.result import RESULT_FILE

STEPS = 40
EVERY = 4
HELD_OUT = 100
_TRAINING = {
    "steps": STEPS,
    "global_batch_size": 8,
    "critic_steps": 2,
    "steps_per_call": 2,
    "log_every_steps": 3,
    "sample_every_steps": 10,
    "checkpoint_every_steps": EVERY,
    "keep_checkpoints": 2,
    "validate_every": 8,
    "validation_images": 32,
    "seed": 7,
}
_MODEL = {"latent_dim": 8, "generator_channels": 4, "critic_channels": 4}
#: An attempt that is not killed must end in this time.
SECONDS = 600
_SECONDS_BETWEEN_LOOKS = 0.001


@dataclasses.dataclass(frozen=True)
class Attempt:
    """A process that trains, and where.

    Attributes:
      process: that runs.
      work_dir: parent of the stable folder.
      export_dir: where the model will be.
      left: temporary folders of those that were killed before it.
      began: seconds, of `time.monotonic`.
    """

    process: subprocess.Popen
    work_dir: Path
    export_dir: Path
    left: frozenset[Path]
    began: float

    def newest_step(self) -> int:
        """Of the checkpoints that are there whole; -1: none."""
        return max(
            (int(p.name[5:]) for p in self.work_dir.glob("*/checkpoints/step-*")), default=-1
        )

    def is_writing(self) -> bool:
        """Whether a checkpoint is being written."""
        return not self.left.issuperset(_parts_of_checkpoints(self.work_dir))

    def is_exporting(self) -> bool:
        """Whether the model is being written."""
        return not self.left.issuperset(_parts_of_models(self.export_dir))


def _parts_of_checkpoints(work_dir: Path) -> Iterator[Path]:
    return work_dir.glob("*/checkpoints/tmp-*")


def _parts_of_models(export_dir: Path) -> Iterator[Path]:
    return export_dir.parent.glob(f"{export_dir.name}.tmp-*")


@dataclasses.dataclass(frozen=True)
class Moment:
    """When to kill.

    Attributes:
      words: what it is, for the user.
      has_come: asked again and again.
      delay: seconds after it has come.
    """

    words: str
    has_come: Callable[[Attempt], bool]
    delay: float = 0.0


def random_moment(rng: random.Random, seconds: float, done: int) -> Moment:
    """One of four kinds: by the clock, by the step, while a checkpoint is written, at the export.

    Args:
      rng: to draw from.
      seconds: that a training takes which nobody interrupts.
      done: step of the newest checkpoint; -1: none. Those by step come after it.
    """
    kinds = ["clock", "step", "write"] if done < STEPS else ["clock", "export"]
    kind = rng.choice(kinds)
    at, delay = rng.uniform(0.0, seconds), rng.uniform(0.0, 0.02)
    step = rng.randint(min(done + 1, STEPS), STEPS)
    return {
        "clock": Moment(
            f"after {at:.2f} s", lambda attempt: time.monotonic() - attempt.began >= at
        ),
        "step": Moment(
            f"from step {step} on", lambda attempt: attempt.newest_step() >= step, 5 * delay
        ),
        "write": Moment(
            f"writing a checkpoint after step {step - EVERY}",
            lambda attempt: attempt.newest_step() >= step - EVERY and attempt.is_writing(),
            delay,
        ),
        "export": Moment("writing the model", lambda attempt: attempt.is_exporting(), delay),
    }[kind]


def main(arguments: Sequence[str]) -> int:
    """Trains, kills, compares.

    Returns:
      1 when a training that was killed ended otherwise than the one that was not, else 0.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cycles", type=int, default=20, help="kills in all (20)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    given = parser.parse_args(arguments)
    rng = random.Random(given.seed)
    kills: list[dict[str, Any]] = []
    different: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {
            "train_files": (str(folder / "train.gz"),),
            "eval_files": (str(folder / "eval.gz"),),
        }
        digits.write_examples(folder / "train.gz", slice(HELD_OUT, 4 * HELD_OUT))
        digits.write_examples(folder / "eval.gz", slice(HELD_OUT))
        began = time.monotonic()
        _wait(_start(folder / "whole", files))
        seconds = time.monotonic() - began
        whole = outcome(folder / "whole")
        print(f"left alone: {STEPS} steps in {seconds:.1f} s", flush=True)
        trainings = 0
        while len(kills) < given.cycles:
            trainings += 1
            at = folder / f"killed-{trainings}"
            while killed := _killed(_start(at, files), rng, seconds, given.cycles - len(kills)):
                kills.append({"training": trainings, **killed})
                print(
                    f"kill {len(kills)}: {killed['moment']}, at {killed['seconds']:.2f} s; "
                    f"newest checkpoint {killed['checkpoint']}",
                    flush=True,
                )
            found = differences(whole, outcome(at))
            different += [f"training {trainings}: {name}" for name in found]
            print(
                f"training {trainings}: done, {', '.join(found) or 'nothing'} differs", flush=True
            )
    print(
        f"{len(kills)} kills in {trainings} trainings: "
        + ("; ".join(different) or "all ended alike, bit for bit")
    )
    if given.json:
        print(json.dumps({"kills": kills, "trainings": trainings, "different": different}))
    return int(bool(different))


def _killed(
    attempt: Attempt, rng: random.Random, seconds: float, left: int
) -> dict[str, Any] | None:
    """Kills a training at some moment; None: it was done before."""
    if not left:
        _wait(attempt)
        return None
    moment = random_moment(rng, seconds, attempt.newest_step())
    while attempt.process.poll() is None and not moment.has_come(attempt):
        if time.monotonic() - attempt.began > SECONDS:
            attempt.process.kill()
            raise SystemExit(f"a training did not end in {SECONDS} s")
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    time.sleep(moment.delay)
    if attempt.process.poll() is not None:
        _wait(attempt)
        return None
    attempt.process.kill()
    attempt.process.wait()
    return {
        "moment": moment.words,
        "seconds": time.monotonic() - attempt.began,
        "checkpoint": attempt.newest_step(),
        "writing": attempt.is_writing(),
        "exporting": attempt.is_exporting(),
    }


def outcome(folder: Path) -> dict[str, dict[str, Any]]:
    """What a training left behind, by kind and name, without what tells the time."""
    result = json.loads((folder / "log" / RESULT_FILE).read_text())
    work_dir = Path(result.pop("work_dir"))
    newest = max(work_dir.glob("checkpoints/step-*"))  # older ones may have outlived a kill
    reader = tf.train.load_checkpoint(str(newest / BUNDLE))
    lines = [json.loads(line) for line in (work_dir / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("images_per_second")
    model = tf.saved_model.load(str(folder / "export"))
    count, seed = tf.constant(16), tf.constant(1, tf.int64)
    return {
        "result": result | {"newest_checkpoint": newest.name},
        "file": {path.name: True for path in folder.iterdir()},
        "variable": {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()},
        "history": json.loads((newest / "history.json").read_text())["history"],
        "metrics": {str(index): line for index, line in enumerate(lines)},
        "sample": {k: v.numpy() for k, v in model.sample(count, seed).items()},
    }


def differences(whole: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]]) -> list[str]:
    """Names of what is not the same bit for bit."""
    return [
        f"{kind} {name}"
        for kind in whole
        for name in sorted(whole[kind].keys() | other[kind].keys())
        if not _same(whole[kind].get(name), other[kind].get(name))
    ]


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype == object:  # strings, of which an array holds the addresses
            return a.tolist() == b.tolist()
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    return type(a) is type(b) and a == b


def _start(folder: Path, files: dict[str, tuple[str, ...]]) -> Attempt:
    """Runs the command: the same one, whether it was killed before or not."""
    folder.mkdir(exist_ok=True)
    job = TrainingJob.model_validate(
        {
            "model": _MODEL,
            "training": _TRAINING,
            "image_size": digits.IMAGE_SIZE,
            "channels": 1,
            "class_names": tuple(map(str, range(digits.CLASSES))),
            **files,
            **{f"{name}_dir": str(folder / name) for name in ("work", "export", "log")},
        }
    )
    work_dir, export_dir = Path(job.work_dir), Path(job.export_dir)
    left = {*_parts_of_checkpoints(work_dir), *_parts_of_models(export_dir)}
    path = folder / "job.json"
    path.write_text(job.model_dump_json())
    here = str(Path(__file__).resolve().parent.parent)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    }
    environment.pop("TF_CONFIG", None)
    command = [sys.executable, "-m", "trainer.process", str(path)]
    with (folder / "said.log").open("a") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    return Attempt(process, work_dir, export_dir, frozenset(left), time.monotonic())


def _wait(attempt: Attempt) -> None:
    code = attempt.process.wait(SECONDS)
    if code:
        said = (attempt.work_dir.parent / "said.log").read_text()[-3000:]
        raise SystemExit(f"a training ended with exit code {code}:\n{said}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
