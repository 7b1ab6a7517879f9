"""What StatisticsGen should know of the examples beforehand."""

from __future__ import annotations

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2

#: Label names that are counted one by one; TFDV's own 1,000 are fewer than data sets have.
MAX_LABELS = 10_000


def statistics_options() -> tfdv.StatsOptions:
    """Options that keep images out of the sketches of frequent values.

    Those hold thousands of values: kilobytes each where they are encoded images, which are all
    different anyway. Presence, number and length are still counted.
    """
    schema = schema_pb2.Schema()
    schema.feature.add(name="image", type=schema_pb2.BYTES).image_domain.SetInParent()
    return tfdv.StatsOptions(schema=schema, num_rank_histogram_buckets=MAX_LABELS)
