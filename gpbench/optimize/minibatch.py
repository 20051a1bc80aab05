"""Mini-batches of row numbers without work that grows with the number of rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError

__all__ = ["EPOCH_LIMIT", "Index", "Minibatches", "hold_out"]

Index = npt.NDArray[np.int64]

EPOCH_LIMIT = 100_000
"""Up to so many rows an epoch visits each row once, which lowers the noise of averages over epochs. Beyond, a run sees
few epochs, and a permutation would cost memory and a stall at each; batches are drawn independently."""
BATCHES_AT_ONCE = 50


def hold_out(n: int, size: int, *, rng: np.random.Generator) -> Index:
    """Row numbers of a validation part, ascending, shape (size,), without work that grows with n."""
    return np.sort(rng.choice(n, size=size, replace=False, shuffle=False))


class Minibatches:
    """Batches of distinct rows.

    Parameters
    ----------
    n : int
        Number of rows.
    size : int
        Rows in a batch; all rows where there are no more than that.
    rng : numpy.random.Generator
        Where the randomness comes from.
    without : (k,), optional
        Rows never to be drawn, ascending.
    """

    def __init__(self, n: int, size: int, *, rng: np.random.Generator, without: Index | None = None) -> None:
        left = n if without is None else n - len(without)
        if left < 1 or size < 1:
            raise UsageError(
                f"mini-batches need at least one row and a batch size of at least 1; got {left} and {size}"
            )
        self._n, self.size, self._rng = left, min(size, left), rng
        # the k-th row that is left is k plus the number of rows left out that stand before it
        self._gaps = None if without is None else without - np.arange(len(without))
        self._order: Index = np.empty(0, dtype=np.int64)
        self._next = 0

    @property
    def scale(self) -> float:
        """ζ = n / b, which scales a sum over a batch to a sum over all rows."""
        return self._n / self.size

    def draw(self) -> Index:
        """Row numbers, shape (b,). The rest of an epoch that is less than a batch is left out; it is random."""
        rows = self._draw()
        return rows if self._gaps is None else rows + np.searchsorted(self._gaps, rows, side="right")

    def _draw(self) -> Index:
        if self._next + self.size > len(self._order):
            if self._n > EPOCH_LIMIT:  # for several batches at once, since a call costs as much as many rows
                many = min(BATCHES_AT_ONCE * self.size, self._n)
                self._order = self._rng.choice(self._n, size=many, replace=False)
            else:
                self._order = self._rng.permutation(self._n)
            self._next = 0
        self._next += self.size
        return self._order[self._next - self.size : self._next]
