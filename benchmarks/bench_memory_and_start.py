"""How soon the first steps are done, and whether memory grows: the demo's networks, labelled.

A process of its own trains with everything on and frequent events. The start is counted from
after the imports to the end of the first call into the device loop, tracing included.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import timing

#: Steps at which memory is read: the first when everything has happened at least once.
_FULL = (200, 2000)
_QUICK = (40, 80)
_EVENTS = ("sample_every_steps", "checkpoint_every_steps", "validate_every")


def measure(first: int, last: int, quick: bool) -> None:
    """In the child: trains, and prints seconds to the first call's end and MiB at two steps."""
    import whole_trainer
    import work as works

    class Enough(Exception):
        pass

    work = works.TINY if quick else works.DIGITS
    seen: dict[int, float] = {}
    begun = time.perf_counter()
    started = 0.0
    step = 0

    def hook(images: int) -> None:
        nonlocal started, step
        step += images // work.images_per_step
        started = started or time.perf_counter() - begun
        if step in (first, last):
            seen[step] = _resident_mebibytes()
        if step >= last:
            raise Enough

    with tempfile.TemporaryDirectory() as folder:
        events = dict.fromkeys(_EVENTS, first // 2)
        job = works.job(work, Path(folder), labelled=True, log_every_steps=10, **events)
        begun = time.perf_counter()
        with contextlib.suppress(Enough):
            whole_trainer.side(job)(hook)
    print(started, seen[first], seen[last])


def _resident_mebibytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Prints the table."""
    parser = timing.arguments(__doc__)
    parser.add_argument("--child", action="store_true", help="be the process that is measured")
    arguments = parser.parse_args()
    first, last = _QUICK if arguments.quick else _FULL
    if arguments.child:
        measure(first, last, arguments.quick)
        return
    command = [sys.executable, __file__, "--child", *["--quick"] * arguments.quick]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    started, before, after = map(float, done.stdout.split()[-3:])
    rows = [
        ("first call into the loop done, seconds", f"{started:.1f}"),
        (f"resident memory after {first} steps, MiB", f"{before:.0f}"),
        (f"resident memory after {last} steps, MiB", f"{after:.0f}"),
        ("growth per 1,000 steps, MiB", f"{(after - before) / (last - first) * 1000:.1f}"),
    ]
    table_title = "memory and start"
    timing.table(table_title, ("", ""), rows)
    figures = {"benchmark": table_title, "start_seconds": started}
    timing.append(arguments.json, figures | {"mebibytes": {first: before, last: after}})


if __name__ == "__main__":
    main()
