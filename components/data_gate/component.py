"""The node between validation and everything that costs money."""

from __future__ import annotations

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import artifact, component_spec, standard_artifacts

from components.data_gate import driver, executor
from components.image_example_gen.component import Quarantine
from components.provenance import source_hash


class DataApproval(artifact.Artifact):
    """Says that data may be trained on: `approval.json` with the number of examples a split."""

    TYPE_NAME = "DataApproval"


class DataGateSpec(component_spec.ComponentSpec):
    """What goes into and out of DataGate."""

    PARAMETERS = {
        "max_quarantined_fraction": component_spec.ExecutionParameter(type=float),
        "needs_labels": component_spec.ExecutionParameter(type=int),
        "pin_path": component_spec.ExecutionParameter(type=str, optional=True),
        "pin": component_spec.ExecutionParameter(type=str),
        "source": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "schema": component_spec.ChannelParameter(type=standard_artifacts.Schema),
        "anomalies": component_spec.ChannelParameter(type=standard_artifacts.ExampleAnomalies),
        "quarantine": component_spec.ChannelParameter(type=Quarantine),
    }
    OUTPUTS = {"approval": component_spec.ChannelParameter(type=DataApproval)}


class DataGate(base_component.BaseComponent):
    """Fails on anomalies, empty splits and too much quarantine; pins the schema on acceptance.

    TFX's ExampleValidator only records what it finds, and a failed node's outputs are deleted;
    so the findings are published by nodes that succeed, and this one, which publishes nothing
    but its approval, is the one that fails.
    """

    SPEC_CLASS = DataGateSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)
    DRIVER_CLASS = driver.Driver

    def __init__(
        self,
        *,
        statistics: types.BaseChannel,
        schema: types.BaseChannel,
        anomalies: types.BaseChannel,
        quarantine: types.BaseChannel,
        max_quarantined_fraction: float,
        needs_labels: bool = False,
        pin_path: str | None = None,
    ):
        """Builds the node.

        Args:
          statistics: channel of ExampleStatistics, of every split.
          schema: channel of the Schema the data was validated against.
          anomalies: channel of ExampleAnomalies.
          quarantine: channel of the Quarantine that ingestion filled.
          max_quarantined_fraction: share of the files that may be unreadable, 0 to 1.
          needs_labels: refuse data without labels: the model could not be trained on it.
          pin_path: where the schema is pinned when it is not yet; None: nowhere.
        """
        spec = DataGateSpec(
            statistics=statistics,
            schema=schema,
            anomalies=anomalies,
            quarantine=quarantine,
            max_quarantined_fraction=max_quarantined_fraction,
            needs_labels=int(needs_labels),
            pin_path=pin_path,
            pin="",  # the driver fills this in before the cache is asked
            source=source_hash("components.data_gate"),
            approval=types.Channel(type=DataApproval),
        )
        super().__init__(spec=spec)
