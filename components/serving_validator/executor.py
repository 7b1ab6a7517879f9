"""Runs the checks in a process of their own and turns what they found into a blessing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from absl import logging
from tfx import types
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils, path_utils

_CHECKS = Path(__file__).with_name("checks.py")
REPORT_FILE = "report.json"


class Executor(base_executor.BaseExecutor):
    """A model that fails a check is refused with the reason; that is no error of the run."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Publishes the report and blesses, or does not."""
        model = artifact_utils.get_single_instance(input_dict["model"])
        blessing = artifact_utils.get_single_instance(output_dict["blessing"])
        report = validate(
            path_utils.serving_model_path(model.uri),
            image_size=exec_properties["image_size"],
            channels=exec_properties["channels"],
            timeout_seconds=exec_properties["timeout_seconds"],
        )
        fileio.makedirs(blessing.uri)
        io_utils.write_string_file(
            os.path.join(blessing.uri, REPORT_FILE), json.dumps(report, indent=2)
        )
        _mark(blessing, report["blessed"])
        logging.info("serving validation: %s", report["reason"])


def validate(
    model_dir: str, *, image_size: int, channels: int, timeout_seconds: float
) -> dict[str, Any]:
    """Checks a SavedModel in a process that has none of this project's code.

    Args:
      model_dir: the SavedModel.
      image_size: height and width that its images must have, in pixels.
      channels: 1 (grey) or 3.
      timeout_seconds: for all checks together, loading TensorFlow included.

    Returns:
      `blessed` (bool), `reason` (one sentence), `checks` (list of `name`, `ok`, `detail`).
    """
    expected = json.dumps({"image_size": image_size, "channels": channels})
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "checks.json")
        command = [sys.executable, "-I", str(_CHECKS), model_dir, expected, str(found)]
        try:
            process = subprocess.run(
                command,
                cwd=folder,
                timeout=timeout_seconds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _refused(f"no answer within {timeout_seconds:g} seconds")
        if process.returncode != 0 or not found.is_file():
            lines = process.stdout.decode(errors="replace").strip().splitlines() or ["no output"]
            return _refused(f"the process ended with code {process.returncode}: {lines[-1]}")
        return _judged(json.loads(found.read_text()))


def _judged(checks: list[dict[str, Any]]) -> dict[str, Any]:
    failed = [check for check in checks if not check["ok"]]
    if not checks:
        return _refused("no check was made")
    if failed:
        others = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        reason = f"{failed[0]['name']}: {failed[0]['detail']}{others}"
        return {"blessed": False, "reason": f"Refused: {reason}.", "checks": checks}
    return {
        "blessed": True,
        "reason": f"The model loads by itself and passed all {len(checks)} checks.",
        "checks": checks,
    }


def _refused(reason: str) -> dict[str, Any]:
    return {"blessed": False, "reason": f"Refused: {reason}.", "checks": []}


def _mark(blessing: types.Artifact, blessed: bool) -> None:
    """As TFX's InfraValidator does it, for all who look for its blessing."""
    name = "INFRA_BLESSED" if blessed else "INFRA_NOT_BLESSED"
    io_utils.write_string_file(os.path.join(blessing.uri, name), "")
    blessing.set_int_custom_property("blessed", int(blessed))
    blessing.set_string_custom_property("blessing_status", name)
