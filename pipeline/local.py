"""Runs the pipeline on this machine: TFX's LocalDagRunner, with a clock and a record."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable
from typing import Any

from ml_metadata.proto import metadata_store_pb2
from tfx import types
from tfx.dsl.compiler import constants
from tfx.orchestration import metadata
from tfx.orchestration.local import local_dag_runner, runner_utils
from tfx.orchestration.portable import launcher, runtime_parameter_utils
from tfx.proto.orchestration import pipeline_pb2
from tfx.types import artifact_utils

from trainer.errors import TrainingInterrupted


@dataclasses.dataclass(frozen=True)
class NodeRun:
    """What became of one node in one run."""

    node_id: str
    started: datetime.datetime
    seconds: float
    state: str  # done, cached, failed or interrupted
    execution_id: int | None = None
    outputs: dict[str, list[types.Artifact]] = dataclasses.field(default_factory=dict)

    @property
    def ended(self) -> datetime.datetime:
        """When it ended, local time."""
        return self.started + datetime.timedelta(seconds=self.seconds)


class LocalRunner(local_dag_runner.LocalDagRunner):
    """A LocalDagRunner that tells when each node starts and how it ended.

    It runs the nodes as its base class does, one after the other in this process; the base
    class has no hook between them.
    """

    def __init__(
        self,
        run_id: str,
        on_start: Callable[[str], None] = lambda node_id: None,
        on_end: Callable[[NodeRun], None] = lambda node_run: None,
        until: str | None = None,
    ):
        """Makes a runner for one run.

        Args:
          run_id: the run's name in the metadata.
          on_start: called with a node's id just before it is launched.
          on_end: called with what became of it, also when it failed.
          until: id of the last node to run; those it depends on come before it. None: all.
        """
        super().__init__()
        self._run_id = run_id
        self._on_start = on_start
        self._on_end = on_end
        self._until = until

    def run_with_ir(
        self,
        pipeline: pipeline_pb2.Pipeline,
        run_options: pipeline_pb2.RunOptions | None = None,
    ) -> None:
        """Runs the nodes in order; stops at the first that fails, by its own exception."""
        if run_options is not None:
            raise ValueError("partial runs are not supported: unchanged nodes come from the cache")
        runtime_parameter_utils.substitute_runtime_parameter(
            pipeline, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: self._run_id}
        )
        deployment = runner_utils.extract_local_deployment_config(pipeline)
        connection_field = deployment.metadata_connection_config.WhichOneof("connection_config")
        connection = getattr(deployment.metadata_connection_config, connection_field)
        for node in pipeline.nodes:
            self._run_node(pipeline, node.pipeline_node, deployment, connection)
            if node.pipeline_node.node_info.id == self._until:
                break

    def _run_node(
        self,
        pipeline: pipeline_pb2.Pipeline,
        node: pipeline_pb2.PipelineNode,
        deployment: Any,
        connection: metadata_store_pb2.ConnectionConfig,
    ) -> None:
        node_id = node.node_info.id
        self._on_start(node_id)
        started, clock = datetime.datetime.now(), time.monotonic()

        def ended(state: str, **found: Any) -> None:
            self._on_end(NodeRun(node_id, started, time.monotonic() - clock, state, **found))

        try:
            info = launcher.Launcher(
                pipeline_node=node,
                mlmd_connection=metadata.Metadata(connection),
                pipeline_info=pipeline.pipeline_info,
                pipeline_runtime_spec=pipeline.runtime_spec,
                executor_spec=runner_utils.extract_executor_spec(deployment, node_id),
                custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, node_id),
            ).launch()
        except (KeyboardInterrupt, TrainingInterrupted):
            ended("interrupted")
            raise
        except Exception:
            ended("failed")
            raise
        with metadata.Metadata(connection) as handle:
            state, outputs = _execution(handle.store, info.execution_id)
        ended(state, execution_id=info.execution_id, outputs=outputs)


def _execution(store: Any, execution_id: int) -> tuple[str, dict[str, list[types.Artifact]]]:
    """Whether an execution was done or cached, and its output artifacts by channel."""
    execution = store.get_executions_by_id([execution_id])[0]
    cached = execution.last_known_state == metadata_store_pb2.Execution.CACHED
    keys = {
        event.artifact_id: event.path.steps[0].key
        for event in store.get_events_by_execution_ids([execution_id])
        if event.type == metadata_store_pb2.Event.OUTPUT
    }
    artifacts = store.get_artifacts_by_id(list(keys))
    kinds = store.get_artifact_types_by_id([artifact.type_id for artifact in artifacts])
    outputs: dict[str, list[types.Artifact]] = {}
    for artifact, kind in zip(artifacts, kinds, strict=True):
        outputs.setdefault(keys[artifact.id], []).append(
            artifact_utils.deserialize_artifact(kind, artifact)
        )
    return ("cached" if cached else "done"), outputs
