"""One process at a time in a folder."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import filelock

_SECONDS_BETWEEN_TRIES = 0.2


class FolderBusyError(RuntimeError):
    """Another process holds the folder.

    Attributes:
      holder: which one, in words.
    """

    def __init__(self, holder: str):
        super().__init__(holder)
        self.holder = holder


@contextlib.contextmanager
def held(
    folder: Path,
    name: str = ".lock",
    *,
    seconds: float = 0.0,
    until: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Holds a folder, made if need be; the operating system frees it when the process dies.

    Args:
      folder: that others are kept out of.
      name: of the lock file in it; those who take different names do not keep each other out.
      seconds: how long to wait for another process.
      until: asked while waiting; true: wait no longer.

    Raises:
      FolderBusyError: where another process still holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(folder / name)
    holder = folder / f"{name}.holder"
    deadline = time.monotonic() + seconds
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except filelock.Timeout:
            if time.monotonic() >= deadline or until():
                who = holder.read_text().strip() if holder.exists() else "unknown process"
                raise FolderBusyError(who) from None
        time.sleep(_SECONDS_BETWEEN_TRIES)
    try:
        holder.write_text(f"process {os.getpid()}\n")
        yield
    finally:
        lock.release()
