"""ML Metadata of a root, to be read only."""

from __future__ import annotations

from pathlib import Path

from ml_metadata.metadata_store import metadata_store
from ml_metadata.proto import metadata_store_pb2


def opened(database: Path) -> metadata_store.MetadataStore | None:
    """The store in a SQLite file, which is not written to; None where there is no such file."""
    if not database.exists():
        return None
    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = str(database)
    config.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READONLY
    return metadata_store.MetadataStore(config)
