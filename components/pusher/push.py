"""Putting a model into a folder of versions so that no reader ever sees half of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from tfx.dsl.io import fileio
from tfx.utils import io_utils

from components.served_model.fingerprint import (
    ServedVersion,
    model_fingerprint,
    served_version,
    versions,
)


def push(
    model_dir: str, destination: str, clock: Callable[[], float] = time.time
) -> tuple[ServedVersion, bool]:
    """Makes a model the one that is served, unless it is already.

    Args:
      model_dir: the SavedModel.
      destination: folder of versions; made when missing.
      clock: seconds since 1970; the version is their whole part, or one more than the highest
        there is.

    Returns:
      Where it is served, and whether it had to be copied.
    """
    served = served_version(destination)
    if served and model_fingerprint(served.path) == model_fingerprint(model_dir):
        return served, False
    version = max([int(clock()), *(number + 1 for number in versions(destination))])
    final = os.path.join(destination, str(version))
    # Servers look for numbers only, so this name is invisible until the rename.
    incoming = os.path.join(destination, f".incoming-{version}")
    fileio.makedirs(destination)
    try:
        io_utils.copy_dir(model_dir, incoming)
        fileio.rename(incoming, final)
    finally:
        if fileio.exists(incoming):
            fileio.rmtree(incoming)
    return ServedVersion(version, final), True
