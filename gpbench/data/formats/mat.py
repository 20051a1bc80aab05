"""MATLAB's .mat files (version 5), numeric arrays only: cells, structs and objects are never decoded."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from gpbench.data.formats.arrays import array_frames, as_matrix, as_vector
from gpbench.data.formats.frames import Frames
from gpbench.data.formats.source import open_seekable, reading
from gpbench.errors import DataError

__all__ = ["read_mat", "read_mat_arrays"]

_NUMERIC = {"double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "logical"}


def read_mat(
    path: str | Path, *, x: str, y: str | None = None, columns_are_rows: bool = False, member: str | None = None
) -> Frames:
    """Rows of a .mat file: columns x1 ... xd, and ``target``, the last.

    Parameters
    ----------
    path : path
        The file.
    x, y : str
        Names of the variables with the inputs and the labels.
    columns_are_rows : bool
        The inputs are stored as (d, n).
    member : str, optional
        Name inside an archive.

    Raises
    ------
    DataError
        Damaged, no such variable, or not numeric.
    """
    wanted = [x] if y is None else [x, y]
    arrays = read_mat_arrays(path, wanted, member=member)
    name = Path(path).name
    X = as_matrix(arrays[x], name=name, key=x)
    X = X.T if columns_are_rows else X
    labels = None if y is None else as_vector(arrays[y], name=name, key=y, rows=len(X))
    return array_frames(X, labels, name=name, total=Path(path).stat().st_size)


def read_mat_arrays(path: str | Path, wanted: list[str], *, member: str | None = None) -> dict[str, npt.NDArray[Any]]:
    """Numeric variables of a .mat file, by name.

    Raises
    ------
    DataError
        Damaged, no such variable, or not numeric.
    """
    from scipy.io import loadmat, whosmat  # noqa: PLC0415 - slow to import

    with open_seekable(path, member=member) as (file, name), reading(f"{name}, row 1"), warnings.catch_warnings():
        warnings.simplefilter("error")
        held = {key: kind for key, _, kind in whosmat(cast("str", file))}
        for key in wanted:
            if key not in held:
                raise DataError(f"{name}: no variable {key!r}; it holds {', '.join(held) or 'nothing'}")
            if held[key] not in _NUMERIC:
                raise DataError(f"{name}: variable {key!r} must be numeric; it is {held[key]}")
        file.seek(0)
        loaded = loadmat(cast("str", file), variable_names=wanted, squeeze_me=False, chars_as_strings=False)
        return {key: np.asarray(loaded[key]) for key in wanted}
