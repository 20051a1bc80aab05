"""Scaling of inputs by the training rows, and rows that are scaled when asked for.

``standard`` divides each column by its own standard deviation. ``common`` divides all columns by one number, their
root mean square deviation: for inputs in the same unit, such as pixels, where a column that is almost constant would
otherwise drown the others. ``none`` leaves inputs as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SCALINGS", "ScaledRows", "Scaling", "scaling_of", "standardise"]

SCALINGS = ("standard", "common", "none")
"""How inputs can be scaled."""

_BLOCK_BYTES = 4 << 20
_TILE = 1 << 13
_TINY = 1e-140
"""Squares of smaller deviations lose digits, and from 1e-162 on they are zero."""

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
        Columns that do not vary over the training rows; they are left out.
    fill : (d,) float64 or None
        What a missing value (NaN) becomes before that; None where none is missing.
    """

    mean: Floats
    scale: Floats
    constant: npt.NDArray[np.bool_]
    fill: Floats | None = None

    @cached_property
    def kept(self) -> Ints | None:
        """The columns that vary; None where all do."""
        return np.flatnonzero(~self.constant) if self.constant.any() else None

    @property
    def width(self) -> int:
        """How many columns vary."""
        return len(self.mean) if self.kept is None else len(self.kept)

    def apply(self, rows: npt.NDArray[np.floating]) -> Floats:
        """Rows (b, d), filled and scaled, without the columns that do not vary: a new float64 array in C order."""
        kept = self.kept
        scaled: Floats = (rows if kept is None else rows[:, kept]).astype(np.float64, order="C")
        if self.fill is not None:
            _fill(scaled, self.fill if kept is None else self.fill[kept])
        mean, scale = self._tiles
        for start in range(0, len(scaled), len(mean)):
            part = scaled[start : start + len(mean)]
            part -= mean[: len(part)]
            part /= scale[: len(part)]
        return scaled

    @cached_property
    def _tiles(self) -> tuple[Floats, Floats]:
        """Mean and scale, repeated over rows: 100 x 28 numbers take 4 us so, and 20 us where numpy broadcasts a row."""
        mean, scale = (each if self.kept is None else each[self.kept] for each in (self.mean, self.scale))
        copies = max(1, _TILE // max(len(mean), 1))
        return np.tile(mean, (copies, 1)), np.tile(scale, (copies, 1))

    def to_json(self) -> dict[str, Any]:
        """As JSON has it: lists of d numbers."""
        return {
            "mean": self.mean.tolist(),
            "scale": self.scale.tolist(),
            "constant": self.constant.tolist(),
            "fill": None if self.fill is None else self.fill.tolist(),
        }

    @classmethod
    def from_json(cls, content: Any) -> Scaling:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is none.
        """
        mean, scale = (np.array(content[name], dtype=np.float64) for name in ("mean", "scale"))
        constant = np.array(content["constant"], dtype=bool)
        fill = None if content["fill"] is None else np.array(content["fill"], dtype=np.float64)
        arrays = [mean, scale, constant] + ([] if fill is None else [fill])
        if {array.shape for array in arrays} != {(len(mean),)}:
            raise ValueError("mean, scale, constant and fill must be lists of one length")
        if not all(np.isfinite(array).all() for array in arrays) or (scale <= 0).any():
            raise ValueError("mean, scale and fill must be finite, and scale positive")
        return cls(mean, scale, constant, fill)

    @classmethod
    def identity(cls, d: int) -> Scaling:
        """The map that changes nothing."""
        return cls(np.zeros(d), np.ones(d), np.zeros(d, dtype=bool))


def scaling_of(
    kind: str,
    X: npt.NDArray[np.floating],
    *,
    rows: Ints,
    fill: Floats | None = None,
    names: Sequence[str] = (),
) -> Scaling:
    """The scaling of a kind, by some rows.

    Parameters
    ----------
    kind : str
        One of ``SCALINGS``.
    X : (n, d)
        All rows; may be a memory map.
    rows : (k,) int64
        The training rows.
    fill : (d,), optional
        What missing values become.
    names : sequence of str, optional
        Of the columns, for messages.

    Raises
    ------
    UsageError
        Unknown kind.
    DataError
        As :func:`standardise`.
    """
    if kind not in SCALINGS:
        raise UsageError(f"scaling must be one of {', '.join(SCALINGS)}; got {kind!r}")
    if kind == "none":
        return replace(Scaling.identity(X.shape[1]), constant=_constant(X, rows, fill), fill=fill)
    own = standardise(X, rows, fill=fill, names=names)
    if kind == "standard" or own.constant.all():
        return own
    scales = own.scale[~own.constant]
    unit = 1.0 if scales.max() > _TINY else float(scales.max())  # squares of smaller ones underflow
    root_mean_square = unit * math.sqrt(float(np.mean(np.square(scales / unit))))
    return replace(own, scale=np.where(own.constant, 1.0, root_mean_square))


def _constant(X: npt.NDArray[np.floating], rows: Ints, fill: Floats | None) -> npt.NDArray[np.bool_]:
    """Columns (d,) that hold one value in these rows."""
    if not len(rows):
        raise DataError("scaling needs at least one training row; got none")
    same = np.ones(X.shape[1], dtype=bool)
    origin = X[rows[:1]].astype(np.float64)
    _fill(origin, fill)
    step = max(1, _BLOCK_BYTES // (8 * max(X.shape[1], 1)))
    for start in range(0, len(rows), step):
        block = _take(np.asarray(X), rows[start : start + step]).astype(np.float64)
        _fill(block, fill)
        same &= (block == origin).all(axis=0)
    return same


def _fill(rows: Floats, fill: Floats | None) -> None:
    """Fill missing values, in place."""
    if fill is None:
        return
    gone = np.isnan(rows)
    if gone.any():
        np.copyto(rows, np.broadcast_to(fill, rows.shape), where=gone)


def standardise(
    X: npt.NDArray[np.floating], rows: Ints, *, fill: Floats | None = None, names: Sequence[str] = ()
) -> Scaling:
    """Mean and standard deviation (divisor n) of some rows, block by block.

    Deviations are counted from the first row and blocks are merged as Chan, Golub and LeVeque (1983) do, so that an
    offset of 1e12 on values of order 1 costs no accuracy. Columns whose squares would underflow are raised first.

    Parameters
    ----------
    X : (n, d)
        All rows; may be a memory map.
    rows : (k,) int64
        The training rows.
    fill : (d,), optional
        What missing values become.
    names : sequence of str, optional
        Of the columns, for messages.

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
    first = X[rows[:1]].astype(np.float64)
    _fill(first, fill)
    origin = first[0]
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), step):
            block = _take(X, rows[start : start + step]).astype(np.float64)
            _fill(block, fill)
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
        name = repr(names[column]) if names else column
        largest = max(high[column], -low[column])
        raise DataError(f"column {name} holds values up to {largest:.3g}; too large to scale, so drop it or rescale it")
    mean += origin
    tiny = np.flatnonzero((low < high) & (scale < _TINY))
    if len(tiny):
        exponent = np.frexp(np.maximum(np.abs(low), np.abs(high))[tiny])[1]
        some = X[np.ix_(rows, tiny)].astype(np.float64)
        _fill(some, None if fill is None else fill[tiny])
        raised = standardise(np.ldexp(some, -exponent), np.arange(len(rows)))  # times powers of two: no digit is lost
        mean[tiny], scale[tiny] = np.ldexp(raised.mean, exponent), np.ldexp(raised.scale, exponent)
    constant = (low == high) | (scale == 0)
    return Scaling(mean, np.where(constant, 1.0, scale), constant, fill)


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
        """(n, d), d without the columns that do not vary."""
        return len(self._rows), self._scaling.width

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
        step = max(1, _BLOCK_BYTES // (8 * max(self._X.shape[1], 1)))
        for start in range(0, len(self), step):
            out[start : start + step] = self[start : start + step]
        return out
