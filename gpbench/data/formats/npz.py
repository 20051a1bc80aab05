"""NumPy's .npz archives, never unpickled: an array of inputs, read block by block, and an array of targets."""

from __future__ import annotations

import math
import warnings
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from gpbench.data.formats.arrays import array_frames, as_matrix, as_vector
from gpbench.data.formats.frames import column_names, frame, too_wide
from gpbench.data.formats.source import open_seekable, reading
from gpbench.errors import DataError

if TYPE_CHECKING:
    from gpbench.data.formats.frames import Frames

__all__ = ["read_npz"]

_X_KEYS = ("X", "x", "data", "inputs", "features")
_Y_KEYS = ("y", "Y", "t", "target", "targets", "labels", "label")
_BLOCK_BYTES = 16 << 20
_MAX_HEADER = 10_000


def read_npz(
    path: str | Path, *, x: str | None = None, y: str | None = None, member: str | None = None, labelled: bool = True
) -> Frames:
    """Rows of an .npz file: columns x1 ... xd, and ``target``, the last.

    Parameters
    ----------
    path : path
        The file.
    x, y : str, optional
        Names of the arrays; by default X, x, data, inputs or features, and y, Y, t, target(s) or label(s).
    member : str, optional
        Name inside an archive.
    labelled : bool
        Whether targets are read; without them ``target`` is no column, and no array of them is looked at.

    Raises
    ------
    DataError
        Damaged, no such array, pickled objects, or shapes that do not match.
    """
    total = Path(path).stat().st_size if Path(path).is_file() else 0
    with open_seekable(path, member=member) as (file, name), reading(f"{name}, row 1"):
        archive = zipfile.ZipFile(file)
        held = [key.removesuffix(".npy") for key in archive.namelist() if key.endswith(".npy")]
        x_key = _choose(held, x, _X_KEYS, name=name, what="inputs")
        y_key = _choose(held, y, _Y_KEYS, name=name, what="targets") if labelled else None
        with archive.open(x_key + ".npy") as stream:
            shape, fortran, dtype = _header(stream)
            _refuse_objects(dtype, name=name, key=x_key)
            too_wide(shape[-1] if len(shape) == 2 else 1, where=f"{name}, row 1")
            as_matrix(np.broadcast_to(np.zeros((), dtype), shape), name=name, key=x_key)
            targets = None if y_key is None else _targets(archive, y_key, name=name, rows=shape[0])
            promised = shape[0] * shape[1] * dtype.itemsize
            if promised > archive.getinfo(x_key + ".npy").file_size:  # before anything is made for it
                raise DataError(f"{name}, row 1: {x_key!r} ends too early: its header promises {shape} {dtype}")
            if fortran:
                rows = _read(stream, shape[0] * shape[1], dtype).reshape(shape, order="F")
                yield from array_frames(rows, targets, name=name, total=total)
                return
            step = max(1, _BLOCK_BYTES // (8 * shape[1]))
            for start in range(0, shape[0], step):
                stop = min(start + step, shape[0])
                block = frame(
                    _read(stream, (stop - start) * shape[1], dtype).reshape(-1, shape[1]),
                    names=column_names(shape[1]),
                    numbers=range(start + 1, stop + 1),
                    source=name,
                    unit="row",
                    read=total * stop // shape[0],
                    total=total,
                )
                if targets is not None:
                    attrs = dict(block.attrs)
                    block = block.assign(target=targets[start:stop])
                    block.attrs = attrs
                yield block


def _targets(archive: zipfile.ZipFile, key: str, *, name: str, rows: int) -> npt.NDArray[Any]:
    with archive.open(key + ".npy") as stream, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks on headers that Python 2 wrote
        shape, fortran, dtype = _header(stream)
        _refuse_objects(dtype, name=name, key=key)
        count = math.prod(shape)
        if count * dtype.itemsize > archive.getinfo(key + ".npy").file_size:
            raise DataError(f"{name}, row 1: {key!r} ends too early: its header promises {shape} {dtype}")
        targets = _read(stream, count, dtype).reshape(shape, order="F" if fortran else "C")
    return as_vector(targets, name=name, key=key, rows=rows)


def _refuse_objects(dtype: np.dtype[Any], *, name: str, key: str) -> None:
    if dtype.hasobject:
        raise DataError(
            f"{name}, row 1: {key!r} holds Python objects, which are never unpickled; "
            f"save {key}.astype(str), or {key}.astype(float) for numbers"
        )


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array, without its values."""
    version = npy.read_magic(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if version == (1, 0):
            return npy.read_array_header_1_0(stream, max_header_size=_MAX_HEADER)
        if version == (2, 0):
            return npy.read_array_header_2_0(stream, max_header_size=_MAX_HEADER)
    raise ValueError(f"array format {version} is none of numbers")


def _read(stream: IO[bytes], count: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    data = stream.read(count * dtype.itemsize)
    if len(data) < count * dtype.itemsize:
        raise EOFError(f"expected {count * dtype.itemsize} more bytes of values; got {len(data)}")
    values = np.frombuffer(data, dtype=dtype) if dtype.itemsize else np.zeros(count, dtype=dtype)
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):  # half and extended precision, which no table holds
        with np.errstate(over="ignore"):
            return values.astype(np.float64)
    return values.astype(dtype.newbyteorder("="))


def _choose(held: list[str], asked: str | None, usual: tuple[str, ...], *, name: str, what: str) -> str:
    candidates = (asked,) if asked is not None else usual
    for key in candidates:
        if key in held:
            return key
    wanted = " or ".join(candidates)
    raise DataError(f"{name}, row 1: expected an array of {what} named {wanted}; it holds {', '.join(held) or 'none'}")
