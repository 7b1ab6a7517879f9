"""Tells TFX's cache what is served now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfx import types

from components.drivers import ParameterDriver
from components.served_model.fingerprint import NOTHING, model_fingerprint, served_version


class Driver(ParameterDriver):
    """Puts version and fingerprint of what is served into the node's parameters."""

    def parameters(
        self, inputs: Mapping[str, list[types.Artifact]], given: Mapping[str, Any]
    ) -> dict[str, str | int]:
        """`fingerprint` and `version` of what is served."""
        served = served_version(given["push_destination"])
        return {
            "fingerprint": model_fingerprint(served.path) if served else NOTHING,
            "version": served.version if served else 0,
        }
