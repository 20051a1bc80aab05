"""Rows of arrays that are in memory already, as blocks: what the readers of .mat and .npz share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpbench.data.formats.frames import Frames, column_names, frame
from gpbench.errors import DataError

__all__ = ["array_frames", "as_matrix", "as_vector"]

_ROW_BLOCK_BYTES = 16 << 20


def as_matrix(array: npt.NDArray[Any], *, name: str, key: str) -> npt.NDArray[Any]:
    """An (n, d) array of numbers.

    Raises
    ------
    DataError
        Another shape or type.
    """
    if array.ndim != 2 or array.dtype.kind not in "buif" or not array.size:
        raise DataError(f"{name}, row 1: {key!r} must be an (n, d) array of numbers; got {array.shape} {array.dtype}")
    return array


def as_vector(array: npt.NDArray[Any], *, name: str, key: str, rows: int) -> npt.NDArray[Any]:
    """A (rows,) array of numbers or texts; one column or one row will do.

    Raises
    ------
    DataError
        Another shape or type.
    """
    flat = array.reshape(-1) if array.size == max(array.shape, default=0) else array
    if flat.shape != (rows,) or array.dtype.kind not in "buifUS":
        raise DataError(
            f"{name}, row {min(len(flat), rows) + 1 if flat.ndim == 1 else 1}: {key!r} must hold {rows} labels; "
            f"got {array.shape} {array.dtype}"
        )
    return np.char.decode(flat, "utf-8") if flat.dtype.kind == "S" else flat


def array_frames(
    X: npt.NDArray[Any], y: npt.NDArray[Any] | None, *, name: str, total: int, names: list[str] | None = None
) -> Frames:
    """Blocks with columns ``names`` (x1, x2, ... by default) and, with ``y``, ``target`` as the last."""
    names = column_names(X.shape[1]) if names is None else names
    step = max(1, _ROW_BLOCK_BYTES // (8 * X.shape[1]))
    for start in range(0, len(X), step):
        stop = min(start + step, len(X))
        block = frame(
            np.asarray(X[start:stop], order="C"),
            names=names,
            numbers=range(start + 1, stop + 1),
            source=name,
            unit="row",
            read=total * stop // len(X),
            total=total,
        )
        if y is not None:
            attrs = dict(block.attrs)
            block = block.assign(target=y[start:stop])
            block.attrs = attrs
        yield block
