"""Shows that training is the same on any number of replicas and workers, and in any pieces.

    make invariance ARGS="--steps 50"

Every configuration trains small networks on scikit-learn's digits, in processes of its own (see
`invariance_run.py`), and is compared with one device. Prints a table of largest differences; exit
code 1 when one is beyond its bound.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent import futures
from pathlib import Path
from typing import Any

import numpy as np

CHILD = Path(__file__).with_name("invariance_run.py")
INPUTS = ("images", "labels", "critic latents", "generator latents", "alphas")
NETWORKS = ("generator", "critic", "ema_generator")
#: What is compared, its bound (none: it is only told), and what it is called in the table.
QUANTITIES = {
    "inputs": (0.0, "inputs", "differing"),
    "gradients": (1e-6, "gradients", "float32"),
    "few_weights": (1e-5, "weights, 3", "float32"),
    "float64_weights": (1e-9, "weights, {steps}", "float64"),
    "float32_weights": (None, "weights, {steps}", "float32"),
}
#: How long a configuration may take.
SECONDS = 900
_LEGEND = """
inputs: images, labels, latents of both networks and penalty points of all {steps} steps, compared
by the hashes of their bits, replicas one after the other. gradients: of the first step, norm of
the difference over the norm, the worse of critic and generator. weights, 3: largest absolute
difference after 3 steps, Adam's epsilon 1e-3. weights, {steps}: norm of the difference over the
norm, the worst of generator, critic and average generator, with the default epsilon of 1e-7."""


@dataclasses.dataclass(frozen=True)
class Configuration:
    """How the same training is spread.

    Attributes:
      replicas: logical CPU devices of a process.
      workers: processes, of one device each if there are several.
      accumulation_steps: pieces of each replica's batch.
      conditional: whether the networks take labels.
      generator_norm: layer or batch.
    """

    replicas: int = 1
    workers: int = 1
    accumulation_steps: int = 1
    conditional: bool = True
    generator_norm: str = "layer"

    @property
    def reference(self) -> Configuration:
        """The same networks on one device, in one piece."""
        return Configuration(conditional=self.conditional, generator_norm=self.generator_norm)

    def __str__(self) -> str:
        spread = f"{self.workers} workers" if self.workers > 1 else f"{self.replicas} replicas"
        if self.accumulation_steps > 1:
            spread += f", {self.accumulation_steps} pieces"
        spread = spread.replace("1 replicas", "1 replica")
        networks = "" if self.conditional else ", no labels"
        return spread + networks + (", batch norm" if self.generator_norm == "batch" else "")


QUICK = (
    Configuration(replicas=8),
    Configuration(replicas=2),
    Configuration(workers=2),
    Configuration(accumulation_steps=4),
)
FULL = (
    Configuration(replicas=2),
    Configuration(replicas=4),
    Configuration(replicas=8),
    Configuration(workers=2),
    Configuration(workers=4),
    Configuration(accumulation_steps=4),
    Configuration(replicas=2, accumulation_steps=2),
    Configuration(replicas=2, conditional=False),
    Configuration(replicas=2, generator_norm="batch"),
    Configuration(replicas=4, generator_norm="batch"),
    Configuration(workers=2, generator_norm="batch"),
)


def main(arguments: Sequence[str]) -> int:
    """Runs all configurations, and prints the table.

    Returns:
      1 when a difference is beyond its bound, else 0.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, help="generator updates compared (50; quick: 10)")
    parser.add_argument("--quick", action="store_true", help="fewer configurations and steps")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    given = parser.parse_args(arguments)
    count = given.steps or (10 if given.quick else 50)
    # The float32 weights after many steps have no bound, and take as long as all others.
    steps = {"float64": count, "float32": 0 if given.quick else count}
    wanted = QUICK if given.quick else FULL
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        found = _run_all([*dict.fromkeys(one.reference for one in wanted), *wanted], steps, folder)
    rows = [_row(one, found[one.reference], found[one]) for one in wanted]
    _print(rows, count)
    broken = [f"{row['configuration']}: {name}" for row in rows for name in row["broken"]]
    print(
        f"{'; '.join(broken) if broken else 'all within bounds'} ({time.monotonic() - began:.0f} s)"
    )
    if given.json:
        bounds = {name: bound for name, (bound, *_) in QUANTITIES.items()}
        print(json.dumps({"steps": count, "bounds": bounds, "rows": rows}))
    return int(bool(broken))


def _run_all(
    configurations: Sequence[Configuration], steps: Mapping[str, int], folder: str
) -> dict[Configuration, dict[str, np.ndarray]]:
    """Runs as many at once as there are cores, the long ones first."""
    longest = sorted(configurations, key=lambda one: -max(one.replicas, one.workers))
    with futures.ThreadPoolExecutor(os.cpu_count()) as threads:
        jobs = {one: threads.submit(_run, one, steps, folder) for one in longest}
        return {one: job.result() for one, job in jobs.items()}


def _run(one: Configuration, steps: Mapping[str, int], folder: str) -> dict[str, np.ndarray]:
    """One configuration's arrays; parts of workers are put together in their order."""
    work = Path(tempfile.mkdtemp(dir=folder))
    specification = work / "specification.json"
    specification.write_text(json.dumps({**dataclasses.asdict(one), "steps": dict(steps)}))
    addresses = [f"localhost:{port}" for port in _free_ports(one.workers)]
    processes = []
    for index in range(one.workers):
        environment = os.environ | {"PYTHONPATH": _python_path()}
        environment.pop("TF_CONFIG", None)
        if one.workers > 1:
            task = {"type": "worker", "index": index}
            config = {"cluster": {"worker": addresses}, "task": task}
            environment["TF_CONFIG"] = json.dumps(config)
        command = [sys.executable, CHILD, specification, work / f"{index}.npz"]
        with (work / f"{index}.log").open("w") as log:
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    try:
        codes = [process.wait(SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for index, code in enumerate(codes):
        if code:
            said = (work / f"{index}.log").read_text()[-3000:]
            raise SystemExit(f"{one}: worker {index} ended with exit code {code}:\n{said}")
    parts = [dict(np.load(work / f"{index}.npz")) for index in range(one.workers)]
    return {
        name: np.concatenate([part[name] for part in parts], axis=2)
        if name.startswith("part/")
        else value
        for name, value in parts[0].items()
    }


def _row(
    one: Configuration, reference: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """The differences of a configuration from its reference."""
    inputs = [(reference[f"part/{name}"], found[f"part/{name}"]) for name in INPUTS]
    values = {
        "inputs": sum(_digest(a) != _digest(b) for a, b in inputs),
        "gradients": max(
            _relative(reference[f"gradient/{name}"], found[f"gradient/{name}"])
            for name in ("critic", "generator")
        ),
        "few_weights": max(
            float(np.abs(reference[name] - found[name]).max()) for name in _weights("few")
        ),
    }
    moved = {}
    for precision in ("float64", "float32"):
        pairs = [(reference[n], found[n]) for n in _weights(precision) if n in found]
        if pairs:
            values[f"{precision}_weights"] = max(_relative(a, b) for a, b in pairs)
            starts = [reference[name] for name in _weights(f"{precision} start")]
            moved[precision] = min(_relative(b, a) for a, (b, _) in zip(starts, pairs, strict=True))
    broken = [
        name
        for name, value in values.items()
        if (bound := QUANTITIES[name][0]) is not None and not value <= bound
    ]
    return {
        "configuration": str(one),
        **dataclasses.asdict(one),
        "replicas_in_sync": int(found["replicas"]),
        "workers_in_sync": int(found["workers"]),
        **values,
        "moved": moved,
        "broken": broken,
    }


def _weights(when: str) -> list[str]:
    return [f"weights/{when}/{network}" for network in NETWORKS]


def _relative(a: np.ndarray, b: np.ndarray) -> float:
    """Norm of the difference over the norm of the first; NaN where a value is not finite."""
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def _digest(array: np.ndarray) -> str:
    """Of bits, type and shape."""
    kind = f"{array.dtype} {array.shape}".encode()
    return hashlib.sha256(kind + np.ascontiguousarray(array).tobytes()).hexdigest()


def _print(rows: Sequence[Mapping[str, Any]], steps: int) -> None:
    """The table: a row per configuration, a column per quantity, its bound above it."""
    shown = {name: how for name, how in QUANTITIES.items() if name in rows[0]}
    print("Largest differences from one device in one piece")
    lines = [[""], [""], ["configuration"]]
    for bound, what, precision in shown.values():
        lines[0].append(what.format(steps=steps))
        lines[1].append(precision)
        lines[2].append("(no bound)" if bound is None else f"(<= {bound:g})")
    for row in rows:
        of_inputs = "none" if not row["inputs"] else f"{row['inputs']} of {len(INPUTS)}"
        values = [f"{row[name]:.1e}" for name in shown if name != "inputs"]
        lines.append([row["configuration"], of_inputs, *values])
    for line in lines:
        print(f"{line[0]:34}" + "".join(f"{cell:>13}" for cell in line[1:]))
    print(_LEGEND.format(steps=steps))


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("localhost", 0))
        return [one.getsockname()[1] for one in sockets]


def _python_path() -> str:
    here = str(Path(__file__).resolve().parent.parent)
    return os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
