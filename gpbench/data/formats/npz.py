"""NumPy's .npz archives, never unpickled: an array of inputs and an array of targets."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpbench.data.formats.arrays import array_frames, as_matrix, as_vector
from gpbench.data.formats.source import open_seekable, reading
from gpbench.errors import DataError

if TYPE_CHECKING:
    from gpbench.data.formats.frames import Frames

__all__ = ["read_npz"]

_X_KEYS = ("X", "x", "data", "inputs", "features")
_Y_KEYS = ("y", "Y", "t", "target", "targets", "labels", "label")


def read_npz(path: str | Path, *, x: str | None = None, y: str | None = None, member: str | None = None) -> Frames:
    """Rows of an .npz file: columns x1 ... xd, and ``target``, the last.

    Parameters
    ----------
    path : path
        The file.
    x, y : str, optional
        Names of the arrays; by default X, x, data, inputs or features, and y, Y, t, target(s) or label(s).
    member : str, optional
        Name inside an archive.

    Raises
    ------
    DataError
        Damaged, no such array, pickled objects, or shapes that do not match.
    """
    with open_seekable(path, member=member) as (file, name), reading(f"{name}, row 1"), warnings.catch_warnings():
        warnings.simplefilter("error")
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise DataError(f"{name}, row 1: expected an .npz archive; got a single array")
        held = list(archive.files)
        x_key = _choose(held, x, _X_KEYS, name=name, what="inputs")
        y_key = _choose(held, y, _Y_KEYS, name=name, what="targets")
        X = as_matrix(archive[x_key], name=name, key=x_key)
        labels = as_vector(archive[y_key], name=name, key=y_key, rows=len(X))
    return array_frames(X, labels, name=name, total=Path(path).stat().st_size)


def _choose(held: list[str], asked: str | None, usual: tuple[str, ...], *, name: str, what: str) -> str:
    candidates = (asked,) if asked is not None else usual
    for key in candidates:
        if key in held:
            return key
    wanted = " or ".join(candidates)
    raise DataError(f"{name}, row 1: expected an array of {what} named {wanted}; it holds {', '.join(held) or 'none'}")
