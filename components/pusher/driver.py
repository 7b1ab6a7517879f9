"""Keeps TFX's cache from standing in for a push."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from tfx import types
from tfx.types import artifact_utils
from tfx.utils import path_utils

from components.drivers import ParameterDriver
from components.served_model.fingerprint import model_fingerprint, served_version


class Driver(ParameterDriver):
    """Lets the cache be used only while the candidate is what is served.

    To push is an effect, not a value: that it was done before says nothing about what is served
    now. Otherwise the parameter is one that no execution had.
    """

    def parameters(
        self, inputs: Mapping[str, list[types.Artifact]], given: Mapping[str, Any]
    ) -> dict[str, str | int]:
        """`served`: version and fingerprint, or something unique."""
        candidate = artifact_utils.get_single_instance(inputs["model"])
        served = served_version(given["push_destination"])
        if served:
            fingerprint = model_fingerprint(served.path)
            if fingerprint == model_fingerprint(path_utils.serving_model_path(candidate.uri)):
                return {"served": f"{served.version}: {fingerprint}"}
        return {"served": f"not yet: {uuid.uuid4()}"}
