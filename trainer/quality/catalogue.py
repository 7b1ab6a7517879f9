"""The metrics by name: what each says, and which way is better. Imports nothing heavy."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Metric:
    """One number that compares generated with real images.

    Attributes:
      name: its key wherever it is written.
      title: what a person reads.
      better: which way is better.
      meaning: half a sentence for a reader who sees it for the first time.
      source: paper that it is from.
      best: the best value that there is; None: there is no such thing.
    """

    name: str
    title: str
    better: Literal["lower", "higher"]
    meaning: str
    source: str
    best: float | None = None

    def worsening(self, change: float) -> float:
        """How much worse a change (new minus old) makes it; negative: better."""
        return change if self.better == "lower" else -change


METRICS: tuple[Metric, ...] = (
    Metric(
        "relative_frechet_distance",
        "Relative Frechet distance",
        "lower",
        "Frechet distance over the spread of the real images; 0: the same, 1: as far off as wide",
        "arXiv 1706.08500",
        best=0.0,
    ),
    Metric(
        "frechet_distance",
        "Frechet distance",
        "lower",
        "distance between Gaussians fitted to the features, in squared units of the features",
        "arXiv 1706.08500",
        best=0.0,
    ),
    Metric(
        "kernel_distance",
        "Kernel distance",
        "lower",
        "squared maximum mean discrepancy of the features, unbiased: about 0 for equal sets",
        "arXiv 1801.01401",
    ),
    Metric(
        "precision",
        "Precision",
        "higher",
        "share of samples that lie among the real images",
        "arXiv 1904.06991",
        best=1.0,
    ),
    Metric(
        "recall",
        "Recall",
        "higher",
        "share of real images that lie among the samples",
        "arXiv 1904.06991",
        best=1.0,
    ),
    Metric(
        "density",
        "Density",
        "higher",
        "how many real images a sample is as near to as they are to each other; about 1 for real",
        "arXiv 2002.09797",
    ),
    Metric(
        "coverage",
        "Coverage",
        "higher",
        "share of real images that have a sample nearby",
        "arXiv 2002.09797",
        best=1.0,
    ),
    Metric(
        "sliced_wasserstein_distance",
        "Sliced Wasserstein distance",
        "lower",
        "how far pixels have to move, along random directions; 1: all black to all white",
        "arXiv 1803.11188",
        best=0.0,
    ),
    Metric(
        "memorisation",
        "Memorisation",
        "lower",
        "share of samples nearer to a training image than 95% of held-out images are; 0.05 is fair",
        "arXiv 2004.05675",
        best=0.0,
    ),
    Metric(
        "diversity",
        "Diversity",
        "higher",
        "effective number of distinct samples over that of the real images; about 1 for real",
        "arXiv 2310.12952",
    ),
)

BY_NAME = {metric.name: metric for metric in METRICS}
