"""Work on all rows of a memory-mapped matrix: duplicates and order. Memory: a few numbers for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["blocks_of", "first_occurrences", "row_hashes", "sorted_order"]

_BLOCK_BYTES = 8 << 20
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)

Ints = npt.NDArray[np.int64]


def blocks_of(n: int, d: int) -> Iterator[slice]:
    """Slices that cut n rows of d numbers into blocks of a few megabytes."""
    step = max(1, _BLOCK_BYTES // (8 * max(d, 1)))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def row_hashes(X: npt.NDArray[Any], y: Ints) -> npt.NDArray[np.uint64]:
    """Two independent 64-bit hashes of each (target, inputs), shape (2, n); 0.0 and -0.0 are equal.

    With 128 bits the chance that two of 1e7 different rows meet is below 1e-24.
    """
    hashes = np.empty((2, len(X)), dtype=np.uint64)
    for rows in blocks_of(*X.shape):
        block = np.asarray(X[rows]) + 0.0
        words = block.view(np.uint64 if block.dtype == np.float64 else np.uint32).astype(np.uint64)
        for k, multiplier in enumerate(_MULTIPLIERS):
            state = _mix(y[rows].astype(np.uint64) + np.uint64(k + 1), multiplier)
            for j in range(words.shape[1]):
                state = _mix(state ^ words[:, j], multiplier)
            hashes[k, rows] = state
    return hashes


def _mix(state: npt.NDArray[np.uint64], multiplier: int) -> npt.NDArray[np.uint64]:
    """One round of multiplication and shift; wraps around."""
    state = state * np.uint64(multiplier)
    state ^= state >> np.uint64(29)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(32)
    return state


def first_occurrences(X: npt.NDArray[Any], y: Ints) -> Ints:
    """Numbers of the rows whose (target, inputs) did not occur before, rising."""
    first, second = row_hashes(X, y)
    order = np.lexsort((second, first))  # stable: of equal rows the earliest comes first
    new = np.ones(len(order), dtype=bool)
    new[1:] = (first[order[1:]] != first[order[:-1]]) | (second[order[1:]] != second[order[:-1]])
    return np.sort(order[new])


def sorted_order(X: npt.NDArray[Any], rows: Ints) -> Ints:
    """The rows sorted by their inputs, first column first; equal rows keep their order."""
    order = rows
    for j in range(X.shape[1] - 1, -1, -1):
        order = order[np.argsort(np.asarray(X[:, j])[order], kind="stable")]
    return order
