"""Tells TFX's cache whether a person edited the pinned schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfx import types

from components.drivers import ParameterDriver
from components.pinned_schema_gen import schema


class Driver(ParameterDriver):
    """Puts a mark of the edit into the node's parameters."""

    def parameters(
        self, inputs: Mapping[str, list[types.Artifact]], given: Mapping[str, Any]
    ) -> dict[str, str | int]:
        """`edited`: see `schema.edit_mark`."""
        return {"edited": schema.edit_mark(given["path"])}
