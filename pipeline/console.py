"""The user's screen and the run's log, kept apart.

TensorFlow, TFX, Beam and their C++ parts write whatever they like to the process's standard
streams. While a run is under way both streams lead to its log file, and only what is meant for
the user reaches the screen.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from trainer.progress import CONSOLE_VARIABLE


@contextlib.contextmanager
def redirected(log: Path) -> Iterator[TextIO]:
    """Sends file descriptors 1 and 2 to `log` (appended to) and yields the user's screen.

    Child processes inherit both: the log as their standard streams, and the screen as the
    descriptor that the environment variable `CONSOLE_VARIABLE` names.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {fd: os.dup(fd) for fd in (1, 2)}
    screen = os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8", errors="replace")
    os.set_inheritable(screen.fileno(), True)
    before = os.environ.get(CONSOLE_VARIABLE)
    os.environ[CONSOLE_VARIABLE] = str(screen.fileno())
    with log.open("ab") as file:
        for fd in saved:
            os.dup2(file.fileno(), fd)
    try:
        yield screen
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        screen.flush()
        for fd, copy in saved.items():
            os.dup2(copy, fd)
            os.close(copy)
        if before is None:
            del os.environ[CONSOLE_VARIABLE]
        else:
            os.environ[CONSOLE_VARIABLE] = before
        screen.close()
