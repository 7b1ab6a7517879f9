"""Keeps TFX's cache from standing in for the pinning of a schema."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

from tfx import types
from tfx.dsl.io import fileio

from components.drivers import ParameterDriver


class Driver(ParameterDriver):
    """Lets the cache be used only while nothing has to be pinned anew.

    That data was accepted before does not bring back a pinned schema that a person deleted, and
    without it the next data, whatever it is, would be held to nothing. The folder of the schema
    tells a root where it was deleted from one where it was not pinned yet: there, the parameter
    must be what it is in the next run, when the schema is pinned.
    """

    def parameters(
        self, inputs: Mapping[str, list[types.Artifact]], given: Mapping[str, Any]
    ) -> dict[str, str | int]:
        """`pin`: empty, or something unique."""
        path = given.get("pin_path")
        deleted = path and not fileio.exists(path) and fileio.exists(os.path.dirname(path))
        return {"pin": f"anew: {uuid.uuid4()}" if deleted else ""}
