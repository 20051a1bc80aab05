"""MATLAB's .mat files (version 5), numeric arrays only: cells, structs and objects are never decoded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.data.formats.arrays import array_frames, as_matrix, as_vector
from gpbench.data.formats.mat5 import variables
from gpbench.data.formats.source import open_seekable, reading
from gpbench.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpbench.data.formats.frames import Frames

__all__ = ["read_mat", "read_mat_arrays"]

_NUMERIC = {"double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"}


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
    found: dict[str, npt.NDArray[Any]] = {}
    with open_seekable(path, member=member) as (file, name), reading(f"{name}, row 1"):
        held = []
        for variable in variables(file):
            held.append(variable.name)
            if variable.name in wanted:
                if variable.kind not in _NUMERIC:
                    raise DataError(f"{name}, row 1: variable {variable.name!r} must be numeric; it is {variable.kind}")
                found[variable.name] = variable.array()
        for key in wanted:
            if key not in found:
                raise DataError(f"{name}, row 1: no variable {key!r}; it holds {', '.join(held) or 'nothing'}")
    return found
