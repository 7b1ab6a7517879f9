"""What the data was: counts, sizes, anomalies and what was set aside."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2, statistics_pb2

from components.run_report import files

DATA_FILE = "data.json"
#: Quarantined files that are listed one by one.
_LISTED = 50
_SPLIT = "Split-"


def gather(statistics: Path | None, anomalies: Path | None) -> dict[str, Any]:
    """Reads what StatisticsGen and ExampleValidator found; small enough to keep with the run.

    Args:
      statistics: folder of an ExampleStatistics artifact; None: there is none.
      anomalies: that of an ExampleAnomalies artifact.

    Returns:
      `splits`: by name {examples, labels, sizes}; `anomalies`: lines of text. JSON-serialisable.
    """
    splits = {}
    for name, path in _files(statistics, "FeatureStats.pb"):
        found = statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes())
        splits[name] = _split(found)
    lines = [
        f"{name}: {feature or 'data set'}: {info.description or info.short_description}"
        for name, path in _files(anomalies, "SchemaDiff.pb")
        for feature, info in _anomalies(path)
    ]
    return {"splits": splits, "anomalies": lines}


def _files(folder: Path | None, name: str) -> Iterable[tuple[str, Path]]:
    if folder is not None:
        for path in sorted(folder.glob(f"{_SPLIT}*/{name}"), reverse=True):  # train before eval
            yield path.parent.name.removeprefix(_SPLIT), path


def _anomalies(path: Path) -> list[tuple[str, Any]]:
    found = anomalies_pb2.Anomalies.FromString(path.read_bytes())
    lines = sorted(found.anomaly_info.items())
    if found.HasField("dataset_anomaly_info"):
        lines.insert(0, ("", found.dataset_anomaly_info))
    return lines


def _split(found: statistics_pb2.DatasetFeatureStatisticsList) -> dict[str, Any]:
    labels: collections.Counter[str] = collections.Counter()
    sizes: dict[str, list[float]] = {}
    for dataset in found.datasets:
        for feature in dataset.features:
            name = feature.name or "".join(feature.path.step)
            if name == "label":
                buckets = feature.string_stats.rank_histogram.buckets
                labels.update({one.label: int(one.sample_count) for one in buckets})
            elif name in ("height", "width", "channels"):
                numbers = feature.num_stats
                sizes[name] = [numbers.min, numbers.median, numbers.max]
    return {
        "examples": int(sum(dataset.num_examples for dataset in found.datasets)),
        "labels": dict(sorted(labels.items())),
        "sizes": sizes,
    }


def read(folder: Path, summary: Mapping[str, Any]) -> dict[str, Any]:
    """What the page says of the data.

    Args:
      folder: the run's folder.
      summary: the run's summary, which has the counts where the folder has not.

    Returns:
      `splits`: (name, images, size in words); `labels`: rows of a label and its count in every
      split; `anomalies`; `reasons`: (reason, files) of quarantined files, most frequent first;
      `listed`: the first of them.
    """
    data = files.read_json(folder / DATA_FILE)
    splits = data.get("splits") or {
        name: {"examples": count} for name, count in (summary.get("examples") or {}).items()
    }
    labels = sorted({label for split in splits.values() for label in split.get("labels", {})})
    quarantined = files.read_json_lines(folder / "quarantine.jsonl")
    reasons = collections.Counter(str(one.get("reason", "no reason given")) for one in quarantined)
    return {
        "splits": [
            (name, split["examples"], _size(split.get("sizes", {})))
            for name, split in splits.items()
        ],
        "labels": [
            (label, [split.get("labels", {}).get(label, 0) for split in splits.values()])
            for label in labels
        ],
        "anomalies": data.get("anomalies"),
        "reasons": reasons.most_common(),
        "listed": quarantined[:_LISTED],
    }


def _size(sizes: Mapping[str, list[float]]) -> str:
    """Heights and widths in words, "8 x 8" or "8–20 x 8–30 (median 16 x 16)"."""
    if not {"height", "width"} <= sizes.keys():
        return ""
    (top, high, bottom), (left, wide, right) = sizes["height"], sizes["width"]
    if top == bottom and left == right:
        return f"{top:g} × {left:g}"
    return f"{top:g}–{bottom:g} × {left:g}–{right:g}, median {high:g} × {wide:g}"
