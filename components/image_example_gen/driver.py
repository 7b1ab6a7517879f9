"""What decides whether ImageExampleGen has to run: TFX's driver with our reading of the input."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from tfx.components.example_gen import driver, input_processor
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2, range_config_pb2

from components.image_example_gen import sources, spans

#: TFX's name for all there is in the input.
WHOLE_INPUT = "*"


def join(base: str, pattern: str) -> str:
    """The input that a base and a pattern stand for."""
    return base if pattern == WHOLE_INPUT else os.path.join(base, pattern)


class InputProcessor(input_processor.InputProcessor):
    """Span, version and fingerprint of an input."""

    def __init__(self, splits: Iterable[example_gen_pb2.Input.Split], base: str, format: str):
        super().__init__(splits=splits)
        (split,) = splits
        self._base, self._format = base, format
        self._resolved = spans.resolve(join(base, split.pattern))

    def resolve_span_and_version(self) -> tuple[int, int | None]:
        """Number of the newest span and of its newest version."""
        return self._resolved.span, self._resolved.version

    def get_latest_span(self) -> int:
        """Number of the newest span."""
        return self._resolved.span

    def get_pattern_for_span_version(self, pattern: str, span: int, version: int | None) -> str:
        """The pattern with its placeholders filled in."""
        del span, version
        if not spans.has_places(pattern):
            return pattern
        return os.path.relpath(self._resolved.path, self._base)

    def get_input_fingerprint(self, span: int, version: int | None) -> str:
        """Changes when a file that is read was added, removed or changed."""
        del span, version
        return sources.open_source(self._resolved.path, self._format).fingerprint


class Driver(driver.FileBasedDriver):
    """Resolves placeholders and fingerprints the input: both are part of the cache key."""

    def resolve_exec_properties(
        self,
        exec_properties: dict[str, Any],
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> dict[str, Any]:
        """Adds span, version and fingerprint; the input must be readable by now."""
        self._format = exec_properties["input_format"]
        return super().resolve_exec_properties(exec_properties, pipeline_info, component_info)

    def get_input_processor(
        self,
        splits: Iterable[example_gen_pb2.Input.Split],
        range_config: range_config_pb2.RangeConfig | None = None,
        input_base_uri: str | None = None,
    ) -> InputProcessor:
        """The processor of this input; spans other than the newest cannot be asked for."""
        del range_config
        return InputProcessor(splits, str(input_base_uri), self._format)
