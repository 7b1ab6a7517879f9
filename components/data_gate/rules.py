"""What makes data unfit for training, in words. Pure: no TFX, no files."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow_metadata.proto.v0 import anomalies_pb2


class DataRefused(RuntimeError):
    """The data is not fit for training; the message is one line that says why."""


def problems(
    *,
    examples: Mapping[str, int],
    anomalies: Mapping[str, anomalies_pb2.Anomalies],
    quarantined: int,
    max_quarantined_fraction: float,
    lacks_labels: bool = False,
) -> list[str]:
    """Lists what is wrong with the data.

    Args:
      examples: split name to number of accepted examples.
      anomalies: split name to what ExampleValidator found.
      quarantined: number of files left out because they could not be decoded.
      max_quarantined_fraction: share of all files that may be left out, 0 to 1.
      lacks_labels: the model needs labels and the data has none.

    Returns:
      One sentence a problem, the worst first; empty when the data may be trained on.
    """
    found = []
    total = sum(examples.values()) + quarantined
    if total and quarantined / total > max_quarantined_fraction:
        found.append(
            f"{quarantined} of {total} files ({quarantined / total:.1%}) cannot be decoded, more "
            f"than data.max_quarantined_fraction={max_quarantined_fraction:g} allows"
        )
    if lacks_labels:
        found.append("model.conditional is true, but the images have no labels; set it to auto")
    if not examples:
        found.append("there are no examples")
    found += [f"split {name} is empty" for name, count in sorted(examples.items()) if not count]
    found += [f"split {name} was not validated" for name in sorted(examples.keys() - anomalies)]
    for split, reported in sorted(anomalies.items()):
        if reported.HasField("dataset_anomaly_info"):
            found.append(f"{split}: {_flat(reported.dataset_anomaly_info.description)}")
        for feature, info in sorted(reported.anomaly_info.items()):
            if info.severity != anomalies_pb2.AnomalyInfo.WARNING:
                found.append(f"{split}: {feature}: {_flat(info.description)}")
    return found


def _flat(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def refuse(found: list[str]) -> None:
    """Raises when there are problems.

    Raises:
      DataRefused: naming every problem, in one line.
    """
    if found:
        raise DataRefused("the data was refused: " + "; ".join(found))
