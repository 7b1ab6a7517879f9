"""First and second moments of feature vectors that can be added up in any order."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Moments:
    """What is left of a set of feature vectors: enough for mean and covariance.

    Sums, not means, so that moments of parts add up to the moments of the whole.

    Attributes:
      count: number of vectors.
      total: float64 [D], sum of the vectors.
      outer: float64 [D, D], sum of their outer products.
    """

    count: int
    total: np.ndarray
    outer: np.ndarray

    @classmethod
    def empty(cls, dimension: int) -> Moments:
        """Moments of no vectors at all."""
        return cls(0, np.zeros(dimension), np.zeros((dimension, dimension)))

    @classmethod
    def of(cls, features: np.ndarray) -> Moments:
        """Moments of feature vectors.

        Args:
          features: real numbers [N, D].

        Raises:
          ValueError: for an array of another rank.
        """
        vectors = np.asarray(features, np.float64)
        if vectors.ndim != 2:
            raise ValueError(f"features: got shape {list(vectors.shape)}; allowed: [N, D]")
        return cls(len(vectors), vectors.sum(axis=0), vectors.T @ vectors)

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.count + other.count, self.total + other.total, self.outer + other.outer)

    @property
    def mean(self) -> np.ndarray:
        """Float64 [D]; NaN when there are no vectors."""
        if self.count < 1:
            return np.full_like(self.total, np.nan)
        return self.total / self.count

    @property
    def covariance(self) -> np.ndarray:
        """Float64 [D, D], unbiased (divided by N - 1); NaN for fewer than two vectors."""
        if self.count < 2:
            return np.full_like(self.outer, np.nan)
        centred = self.outer - np.outer(self.total, self.total) / self.count
        return (centred + centred.T) / (2 * (self.count - 1))
