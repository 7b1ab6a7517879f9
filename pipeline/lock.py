"""One run at a time per pipeline root."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from trainer import lock


class RootBusyError(RuntimeError):
    """Another run holds the pipeline root; the message is one line for the user."""


@contextlib.contextmanager
def held(root: Path) -> Iterator[None]:
    """Holds a pipeline root; the operating system frees it when the process dies.

    Raises:
      RootBusyError: where another process holds it.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(lock.held(root))
        except lock.FolderBusyError as error:
            raise RootBusyError(
                f"{root} is in use by another run ({error.holder}); "
                "wait for it, or give another --root"
            ) from None
        yield
