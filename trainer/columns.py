"""What is known of examples beside their pixels: order, labels, fingerprint."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np

from trainer.errors import TrainerError
from trainer.records import NO_LABEL, Part


@dataclasses.dataclass(frozen=True, eq=False)
class Columns:
    """The examples of a data set in the order of their ids, without the pixels.

    Attributes:
      rows: int64 [N], where an example's pixels are, in the order of reading.
      labels: int32 [N]; zeros where there are none.
      classes: largest label + 1; 0 where there are no labels.
      fingerprint: hash of ids, labels and pixels; neither the order of reading nor the files that
        the examples came from play a part.
    """

    rows: np.ndarray
    labels: np.ndarray
    classes: int
    fingerprint: str


class Collector:
    """Makes the columns of examples that are read some at a time.

    Args:
      name: of the data, for messages.
      labelled: whether there are labels; all are zero otherwise.
      unknown_labels: whether -1 may stand for a label that training does not have.
    """

    def __init__(self, name: str, *, labelled: bool, unknown_labels: bool = False):
        self._name = name
        self._labelled = labelled
        self._least = -1 if unknown_labels else 0
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, part: Part) -> None:
        """Takes some examples in.

        Raises:
          TrainerError: one has no label, or a negative one.
        """
        wrong = np.flatnonzero((part.labels < self._least) | (part.labels >= 2**31))
        if len(wrong):
            label, example_id = part.labels[wrong[0]], part.ids[wrong[0]].decode(errors="replace")
            given = "no label" if label == NO_LABEL else f"label {label}"
            raise TrainerError(
                f"{self._name}: got {given} for example {example_id}; "
                "allowed: whole numbers from 0, for every example or for none"
            )
        labels = part.labels.astype(np.int32)
        self._parts.append((part.ids, labels, _digests(part.ids, labels, part.pixels)))

    def columns(self) -> Columns:
        """Everything that was added, in the order of ids.

        Raises:
          TrainerError: no examples, or two with the same id.
        """
        if not self._parts:
            raise TrainerError(f"{self._name}: no examples found")
        ids, labels, digests = map(np.concatenate, zip(*self._parts, strict=True))
        rows = np.argsort(ids, kind="stable")
        ids = ids[rows]
        twice = np.flatnonzero(ids[1:] == ids[:-1])
        if len(twice):
            raise TrainerError(
                f"{self._name}: got {len(twice)} examples with the id of another one, such as "
                f"{ids[twice[0]].decode(errors='replace')}; allowed: every example once"
            )
        return Columns(
            rows=rows,
            labels=labels[rows],
            classes=int(labels.max()) + 1 if self._labelled else 0,
            fingerprint=hashlib.sha256(digests[rows].data).hexdigest(),
        )


def _digests(ids: np.ndarray, labels: np.ndarray, pixels: np.ndarray) -> np.ndarray:
    """SHA-256 of every single example, uint8 [n, 32].

    One hash over all of them would have to see the pixels in the order of ids, which are known
    only when the last pixels have gone by.
    """
    digests = (
        hashlib.sha256(b"%d:%b%b" % (len(one), one, label.data) + image.data).digest()
        for one, label, image in zip(ids, labels, pixels, strict=True)
    )
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)
