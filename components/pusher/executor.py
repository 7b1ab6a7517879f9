"""Pushes when both blessings are there."""

from __future__ import annotations

from typing import Any

from absl import logging
from tfx import types
from tfx.components.pusher import executor as tfx_pusher
from tfx.types import artifact_utils
from tfx.utils import io_utils

from components.pusher.push import push


class Executor(tfx_pusher.Executor):
    """TFX's Pusher, but atomic, never without both blessings, and never the same model twice."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Pushes the model, or says in the output that it is not pushed."""
        pushed = artifact_utils.get_single_instance(output_dict["pushed_model"])
        pushed.set_int_custom_property("copied", 0)
        for name in ("model_blessing", "infra_blessing"):
            # TFX's own check takes a missing blessing for a given one.
            artifact_utils.get_single_instance(input_dict[name])
        if not self.CheckBlessing(input_dict):
            self._MarkNotPushed(pushed)
            return
        model_dir = self.GetModelPath(input_dict)
        served, copied = push(model_dir, exec_properties["push_destination"])
        # What TFX promises of this artifact: the model itself is archived in it.
        io_utils.copy_dir(model_dir, pushed.uri)
        self._MarkPushed(pushed, served.path, str(served.version))
        pushed.set_int_custom_property("copied", int(copied))
        logging.info("%s at %s", "pushed" if copied else "served before", served.path)
