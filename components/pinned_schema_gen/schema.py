"""What a schema of raw examples says, where it is pinned, and whether a person changed it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2
from tfx.dsl.io import fileio

from components.image_example_gen.statistics import MAX_LABELS

_HEADER = "# Made from the first accepted data. Edit it to accept other data. sha256: "

#: Features every example has, and those only labelled data has.
REQUIRED = ("image", "height", "width", "channels", "format", "path", "example_id")
LABEL = "label"

#: Sizes may leave the range seen first by this factor, where they varied at all.
_SIZE_SLACK = 2


class SchemaError(ValueError):
    """A schema file that cannot be used; the message is one line for the user."""


def infer(statistics: Mapping[str, statistics_pb2.DatasetFeatureStatisticsList]):
    """Makes the schema from the statistics of the first data.

    Formats, channel counts and labels are pinned to what was seen; so is the size where all
    images have one, else the range of sizes widened by a factor of two. A label, where any
    image has one, is required of all: half-labelled data cannot be trained on.

    Args:
      statistics: split name to the statistics TFDV made of it.

    Returns:
      A `schema_pb2.Schema`.
    """
    schema = schema_pb2.Schema()
    for name in REQUIRED:
        kind = schema_pb2.INT if name in ("height", "width", "channels") else schema_pb2.BYTES
        _add_feature(schema, name, kind)
    for name in ("height", "width"):
        low, high = _range(statistics, name)
        if low != high:
            low, high = max(1, low // _SIZE_SLACK), high * _SIZE_SLACK
        _set_domain(schema, name, low, high)
    _set_domain(schema, "channels", *_range(statistics, "channels"))
    _add_words(schema, "format", _words(statistics, "format"))
    labels = _words(statistics, LABEL)
    if labels:
        _add_feature(schema, LABEL, schema_pb2.BYTES)
        if len(labels) < MAX_LABELS:  # else some were not counted, and none can be pinned
            _add_words(schema, LABEL, labels)
    return schema


def _add_feature(schema: schema_pb2.Schema, name: str, kind: int) -> None:
    feature = schema.feature.add(name=name, type=kind)
    feature.presence.min_fraction = 1.0
    feature.presence.min_count = 1
    feature.shape.dim.add(size=1)


def _feature(schema: schema_pb2.Schema, name: str) -> schema_pb2.Feature:
    return next(feature for feature in schema.feature if feature.name == name)


def _set_domain(schema: schema_pb2.Schema, name: str, low: int, high: int) -> None:
    domain = _feature(schema, name).int_domain
    domain.min, domain.max = low, high


def _add_words(schema: schema_pb2.Schema, name: str, words: set[str]) -> None:
    schema.string_domain.add(name=name, value=sorted(words))
    _feature(schema, name).domain = name


def _stats_of(statistics, name: str):
    for split in statistics.values():
        for dataset in split.datasets:
            for feature in dataset.features:
                if (feature.name or "".join(feature.path.step)) == name:
                    yield feature


def _range(statistics, name: str) -> tuple[int, int]:
    found = [feature.num_stats for feature in _stats_of(statistics, name)]
    found = [stats for stats in found if stats.common_stats.num_non_missing]
    return int(min(s.min for s in found)), int(max(s.max for s in found))


def _words(statistics, name: str) -> set[str]:
    words: set[str] = set()
    for feature in _stats_of(statistics, name):
        words.update(bucket.label for bucket in feature.string_stats.rank_histogram.buckets)
    return words


def read(path: str) -> schema_pb2.Schema:
    """Reads a schema file in protobuf text format.

    Raises:
      SchemaError: where there is no such file or it is no schema.
    """
    return _parse(_text(path), path)


def _text(path: str) -> str:
    try:
        with fileio.open(path, "rb") as file:
            return file.read().decode("utf-8")
    except Exception as error:
        raise SchemaError(f"schema {path}: cannot be read ({type(error).__name__})") from error


def _parse(text: str, path: str) -> schema_pb2.Schema:
    try:
        return text_format.Parse(text, schema_pb2.Schema())
    except text_format.ParseError as error:
        raise SchemaError(f"schema {path}: not a schema in text format: {error}") from error


def write(path: str, schema: schema_pb2.Schema) -> None:
    """Writes a schema in text format, by way of a temporary file."""
    _write(path, text_format.MessageToString(schema))


def pin(path: str, schema: schema_pb2.Schema) -> None:
    """Writes the schema with a first line by which later edits are noticed."""
    body = text_format.MessageToString(schema)
    _write(path, f"{_HEADER}{_digest(body)}\n{body}")


def _write(path: str, text: str) -> None:
    folder, _, _ = path.rpartition("/")
    fileio.makedirs(folder)
    with fileio.open(f"{path}.tmp", "wb") as file:
        file.write(text.encode("utf-8"))
    fileio.rename(f"{path}.tmp", path, overwrite=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def edit_mark(path: str) -> str:
    """Tells whether a person made or changed the schema at `path`, and how.

    Returns:
      The empty string where there is none, or it is as `pin` wrote it; else a hash of it. So a
      cache key with this mark stays the same when a schema is pinned, and changes when a person
      has edited it.
    """
    if not fileio.exists(path):
        return ""
    text = _text(path)
    head, _, body = text.partition("\n")
    if head == f"{_HEADER}{_digest(body)}":
        return ""
    return _digest(text)
