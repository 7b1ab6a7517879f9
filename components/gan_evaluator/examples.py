"""Transformed examples as Beam reads them here: some at a time, and chosen by hashes."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np
from tfx import types
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils

from trainer import records

#: Readers of a split, at most: each begins with a second's work, however little it has to read.
_READERS = 64


def split_files(examples: Sequence[types.Artifact], split: str) -> list[str]:
    """Files of a split; none where there is no such split."""
    return [
        file
        for artifact in examples
        if split in artifact_utils.decode_split_names(artifact.split_names)
        for uri in artifact_utils.get_split_uris([artifact], split)
        for file in sorted(fileio.glob(io_utils.all_files_pattern(uri)))
    ]


def example_hashes(example_ids: Iterable[bytes], use: str) -> np.ndarray:
    """Numbers that put examples in an order of their own for each use.

    Args:
      example_ids: unique names of N examples.
      use: what the order is for; choices for different uses have nothing to do with each other.

    Returns:
      uint64 [N], the first bytes of SHA-256.
    """
    salt = hashlib.sha256(use.encode() + b"\0")
    digests = []
    for example_id in example_ids:
        salted = salt.copy()
        salted.update(example_id)
        digests.append(salted.digest()[:8])
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def chosen(hashes: np.ndarray, wanted: int, available: int) -> np.ndarray:
    """Picks about `wanted` of `available` examples, all where there are no more.

    Args:
      hashes: uint64 [N], of some of them.
      wanted: how many to pick of all; each is picked with the same probability.
      available: how many there are in all.

    Returns:
      bool [N].
    """
    if wanted >= available:
        return np.ones(len(hashes), bool)
    return hashes < np.uint64(wanted * 2**64 // available)


def may_be_sampled(
    hashes: np.ndarray,
    labels: np.ndarray,
    counts: Mapping[int, int],
    limit: int,
    *,
    by_label: bool,
) -> np.ndarray:
    """Tells which examples can be among those with the lowest hashes of any slice.

    The others need no more than their features: what only sampled images are asked for costs as
    much as these.

    Args:
      hashes: uint64 [N], of some examples, in the order that samples are taken in.
      labels: int64 [N].
      counts: how many examples there are in all, by label.
      limit: size of a sample.
      by_label: whether there are slices by label.

    Returns:
      bool [N]: all of the lowest and some more, so many that too few would be a wonder.
    """
    wanted = limit + 10 * math.isqrt(limit) + 10  # ten standard deviations
    found = chosen(hashes, wanted, sum(counts.values()))
    if by_label:
        for label in np.unique(labels):
            rows = labels == label
            found[rows] |= chosen(hashes[rows], wanted, counts[int(label)])
    return found


class ReadExamples(beam.PTransform):
    """File names to `records.Part`s: ids, pixels and labels of some examples each."""

    def __init__(self, files: Sequence[str], image_shape: tuple[int, int, int]):
        super().__init__()
        self._files = list(files)
        self._image_shape = image_shape

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """The examples of all files."""
        dealt = [self._files[start::_READERS] for start in range(_READERS)]
        return (
            begin
            | beam.Create([tuple(files) for files in dealt if files])
            | beam.ParDo(_ReadFiles(self._image_shape))
        )


class CountExamples(beam.PTransform):
    """Counts the examples of files without looking at their images."""

    def __init__(self, files: Sequence[str]):
        super().__init__()
        self._files = list(files)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        """One mapping: how many there are by label."""
        return begin | beam.Create(self._files) | beam.Map(_count) | beam.CombineGlobally(_sum)


class _ReadFiles(beam.DoFn):
    def __init__(self, image_shape: tuple[int, int, int]):
        self._image_shape = image_shape

    def process(self, files: tuple[str, ...]) -> Iterator[records.Part]:
        """Reads some files."""
        yield from records.read(records.Files(files, files), self._image_shape, labelled=True)


def _count(file: str) -> Counter[int]:
    counts: Counter[int] = Counter()
    for labels in records.labels(records.Files((file,), (file,))):
        counts.update(labels.tolist())
    return counts


def _sum(counts: Iterable[Counter[int]]) -> Counter[int]:
    return sum(counts, Counter())
