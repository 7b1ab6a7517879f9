"""One run at a time per pipeline root."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import filelock


class RootBusyError(RuntimeError):
    """Another run holds the pipeline root; the message is one line for the user."""


@contextlib.contextmanager
def held(root: Path) -> Iterator[None]:
    """Holds a pipeline root; the operating system frees it when the process dies.

    Raises:
      RootBusyError: where another process holds it.
    """
    root.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(root / ".lock")
    holder = root / ".lock.holder"
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        who = holder.read_text().strip() if holder.exists() else "unknown process"
        raise RootBusyError(
            f"{root} is in use by another run ({who}); wait for it, or give another --root"
        ) from None
    try:
        holder.write_text(f"process {os.getpid()}\n")
        yield
    finally:
        lock.release()
