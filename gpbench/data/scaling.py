"""Scaling of inputs by the training rows, and rows that are scaled when asked for.

``standard`` divides each column by its own standard deviation. ``common`` divides all columns by one number, their
root mean square deviation: for inputs in the same unit, such as pixels, where a column that is almost constant would
otherwise drown the others. ``none`` leaves inputs as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from gpbench.errors import DataError, UsageError

__all__ = ["SCALINGS", "ScaledRows", "Scaling", "scaling_of", "standardise"]

SCALINGS = ("standard", "common", "none")
"""How inputs can be scaled."""

_BLOCK_BYTES = 4 << 20
_TILE = 1 << 13

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Affine map of each column.

    Attributes
    ----------
    mean, scale : (d,) float64
        x becomes (x - mean) / scale.
    constant : (d,) bool
        Columns that do not vary over the training rows; their scale is 1, so that they become 0 there.
    """

    mean: Floats
    scale: Floats
    constant: npt.NDArray[np.bool_]

    def apply(self, rows: npt.NDArray[np.floating]) -> Floats:
        """Rows (b, d), scaled, as a new float64 array in C order."""
        scaled: Floats = rows.astype(np.float64, order="C")
        mean, scale = self._tiles
        for start in range(0, len(scaled), len(mean)):
            part = scaled[start : start + len(mean)]
            part -= mean[: len(part)]
            part /= scale[: len(part)]
        return scaled

    @cached_property
    def _tiles(self) -> tuple[Floats, Floats]:
        """Mean and scale, repeated over rows: 100 x 28 numbers take 4 us so, and 20 us where numpy broadcasts a row."""
        copies = max(1, _TILE // max(len(self.mean), 1))
        return np.tile(self.mean, (copies, 1)), np.tile(self.scale, (copies, 1))

    @classmethod
    def identity(cls, d: int) -> Scaling:
        """The map that changes nothing."""
        return cls(np.zeros(d), np.ones(d), np.zeros(d, dtype=bool))


def scaling_of(kind: str, X: npt.NDArray[np.floating], *, rows: Ints) -> Scaling:
    """The scaling of a kind, by some rows.

    Parameters
    ----------
    kind : str
        One of ``SCALINGS``.
    X : (n, d)
        All rows; may be a memory map.
    rows : (k,) int64
        The training rows.

    Raises
    ------
    UsageError
        Unknown kind.
    DataError
        As :func:`standardise`.
    """
    if kind == "none":
        return Scaling.identity(X.shape[1])
    if kind not in SCALINGS:
        raise UsageError(f"scaling must be one of {', '.join(SCALINGS)}; got {kind!r}")
    own = standardise(X, rows)
    if kind == "standard":
        return own
    varying = np.where(own.constant, 0.0, own.scale)
    root_mean_square = math.sqrt(float(np.mean(np.square(varying)))) or 1.0
    return replace(own, scale=np.full_like(own.scale, root_mean_square))


def standardise(X: npt.NDArray[np.floating], rows: Ints) -> Scaling:
    """Mean and standard deviation (divisor n) of some rows, block by block.

    Deviations are counted from the first row and blocks are merged as Chan, Golub and LeVeque (1983) do, so that an
    offset of 1e12 on values of order 1 costs no accuracy.

    Parameters
    ----------
    X : (n, d)
        All rows; may be a memory map.
    rows : (k,) int64
        The training rows.

    Raises
    ------
    DataError
        No rows, or values so large (near 1e154) that their squares overflow.
    """
    if not len(rows):
        raise DataError("scaling needs at least one training row; got none")
    X, d = np.asarray(X), X.shape[1]
    step = max(1, _BLOCK_BYTES // (8 * max(d, 1)))
    count, mean, squares = 0, np.zeros(d), np.zeros(d)
    origin = X[rows[0]].astype(np.float64)
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), step):
            block = _take(X, rows[start : start + step]).astype(np.float64)
            low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
            block -= origin
            here = block.mean(axis=0)
            block -= here
            new = np.einsum("ij,ij->j", block, block)
            total = count + len(block)
            shift = here - mean
            squares += new + shift**2 * (count * len(block) / total)
            mean += shift * (len(block) / total)
            count = total
        scale = np.sqrt(np.maximum(squares, 0.0) / count)
    if not (np.isfinite(scale).all() and np.isfinite(mean).all()):
        column = int(np.argmin(np.isfinite(scale) & np.isfinite(mean)))
        raise DataError(f"column {column} holds values up to {high[column]:.3g}; too large to scale")
    constant = (low == high) | (scale == 0)
    return Scaling(origin + mean, np.where(constant, 1.0, scale), constant)


def _take(X: npt.NDArray[np.floating], rows: Ints) -> npt.NDArray[np.floating]:
    """Rows of X; neighbours come as a view."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
        return X[rows[0] : rows[-1] + 1]
    return X.take(rows, axis=0)


class ScaledRows:
    """Some rows of a data set, scaled when they are asked for; stands where an (n, d) array may stand.

    Parameters
    ----------
    X : (N, d)
        All rows of the data set; may be a memory map.
    rows : (n,) int64
        The rows that count here, in this order.
    scaling : Scaling
        Applied to each row that is read.
    """

    def __init__(self, X: npt.NDArray[np.floating], rows: Ints, scaling: Scaling) -> None:
        # A plain array over the same memory: indexing numpy.memmap itself costs 10 us more.
        self._X = np.asarray(X)
        self._rows = rows
        self._scaling = scaling

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return len(self._rows), int(self._X.shape[1])

    @property
    def ndim(self) -> int:
        """2."""
        return 2

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """float64."""
        return np.dtype(np.float64)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any, /) -> Floats:
        """Rows as float64 (b, d), for a slice, an integer array or a mask; a single integer gives (d,)."""
        if isinstance(index, int | np.integer):
            one: Floats = self._scaling.apply(self._X[self._rows[index]][None])[0]
            return one
        return self._scaling.apply(self._X.take(self._rows[index], axis=0))

    def array(self) -> Floats:
        """All rows in memory, float64 (n, d)."""
        out = np.empty(self.shape)
        step = max(1, _BLOCK_BYTES // (8 * max(self.shape[1], 1)))
        for start in range(0, len(self), step):
            out[start : start + step] = self[start : start + step]
        return out
