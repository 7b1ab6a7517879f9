"""Runs every `bench_*.py` beside this file, one after the other, each in its own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Runs the benchmarks; arguments are passed to each.

    Returns:
      1 when one of them failed, else 0.
    """
    scripts = sorted(Path(__file__).parent.glob("bench_*.py"))
    if not scripts:
        print("no benchmarks yet: none is named benchmarks/bench_*.py")
    failed = 0
    for script in scripts:
        print(f"== {script.stem}", flush=True)
        failed |= subprocess.run([sys.executable, str(script), *arguments]).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
