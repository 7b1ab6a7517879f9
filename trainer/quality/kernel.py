"""Kernel distance: the squared maximum mean discrepancy of the features.

Binkowski et al. 2018, arXiv 1801.01401, section 4. To be called KID only when the features are
those of Inception.
"""

from __future__ import annotations

import numpy as np

_SUBSETS = 100
_LARGEST_SUBSET = 1000
_SEED = 18010140


def kernel_distance(real: np.ndarray, generated: np.ndarray) -> tuple[float, float]:
    """Unbiased squared maximum mean discrepancy, with kernel (x.y / D + 1)^3.

    The distance is that of all vectors: what the mean over subsets, as the paper takes it,
    tends to with their number. Only the deviation is taken over subsets, by sums over parts of
    the same kernel matrices.

    Args:
      real: float32 [N, D].
      generated: float32 [M, D].

    Returns:
      The distance, about 0 and possibly negative for sets from one distribution, and its
      standard deviation over 100 pairs of subsets of min(1000, N // 2, M // 2) vectors; NaN for
      fewer than four vectors.
    """
    counts = len(real), len(generated)
    if min(counts) < 4:
        return float("nan"), float("nan")
    pairs = Pairs(real, generated)
    return pairs.distance(*(np.ones(count, bool) for count in counts)), pairs.deviation()


class Pairs:
    """The kernel of all pairs of vectors: what distances of any of their rows are sums of."""

    def __init__(self, real: np.ndarray, generated: np.ndarray) -> None:
        """Computes the kernel.

        Args:
          real: float32 [N, D].
          generated: float32 [M, D].
        """
        self._counts = len(real), len(generated)
        self._kernels = _kernel(real, real), _kernel(generated, generated), _kernel(real, generated)

    def distance(self, real_rows: np.ndarray, generated_rows: np.ndarray) -> float:
        """The kernel distance of some rows, bool [N] and [M]; NaN for fewer than four."""
        rows = real_rows, generated_rows
        if min(map(np.count_nonzero, rows)) < 4:
            return float("nan")
        parts = [part[:, np.newaxis].astype(np.float64) for part in rows]
        return float(_discrepancy(self._kernels, *parts)[0])

    def deviation(self) -> float:
        """Standard deviation of the distance over subsets, see `kernel_distance`."""
        size = min(_LARGEST_SUBSET, *(count // 2 for count in self._counts))
        bits = np.random.Philox(key=_SEED)
        parts = [_subsets(bits, count, size) for count in self._counts]
        return float(np.std(_discrepancy(self._kernels, *parts), ddof=1))


def _kernel(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Float64 [N, M]."""
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    base = first @ second.T / first.shape[1] + 1.0
    return base * base * base


def _discrepancy(
    kernels: tuple[np.ndarray, np.ndarray, np.ndarray], real: np.ndarray, generated: np.ndarray
) -> np.ndarray:
    """Squared discrepancies [S] of S subsets, given as 0 or 1: real [N, S], generated [M, S]."""
    among_real, among_generated, between = kernels
    n, m = real.sum(axis=0), generated.sum(axis=0)
    within = [
        (np.einsum("ns,ns->s", part, kernel @ part) - np.diag(kernel) @ part)
        / (count * (count - 1.0))
        for kernel, part, count in ((among_real, real, n), (among_generated, generated, m))
    ]
    across = np.einsum("ns,ns->s", real, between @ generated) / (n * m)
    return within[0] + within[1] - 2.0 * across


def _subsets(bits: np.random.Philox, count: int, size: int) -> np.ndarray:
    """Float64 [count, 100], each column with `size` ones: drawn by raw bits, the same for ever."""
    order = np.argsort(bits.random_raw(count * _SUBSETS).reshape(count, _SUBSETS), axis=0)
    chosen = np.zeros((count, _SUBSETS))
    np.put_along_axis(chosen, order[:size], 1.0, axis=0)
    return chosen
