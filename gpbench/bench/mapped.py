"""Scaled rows in a temporary file, so that a scheme that trains on many rows pays for reading them and not for scaling.

Scaling inside ``fit`` would put a step into the cost of a row at the size from which rows no longer fit in memory. The
file has no name (on Windows it is deleted when it is closed): however a cell ends, killed from outside included, it
leaves no gigabytes behind.
"""

from __future__ import annotations

import mmap
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.data.scaling import ScaledRows
    from gpbench.model.rows import Array

__all__ = ["MappedRows", "mapped"]

_BLOCK_BYTES = 16 << 20
#: A disk is never filled to the last byte.
_SPARE_BYTES = 1 << 30


class MappedRows:
    """Rows of a memory-mapped matrix, float64 when they are asked for; stands where an (n, d) array may stand.

    Parameters
    ----------
    X : (n, d) float32 or float64
    """

    def __init__(self, X: npt.NDArray[np.floating]) -> None:
        self._X = np.asarray(X)  # a plain array over the same memory: indexing numpy.memmap itself costs 10 us more

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return int(self._X.shape[0]), int(self._X.shape[1])

    @property
    def ndim(self) -> int:
        """2."""
        return 2

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """float64."""
        return np.dtype(np.float64)

    def __len__(self) -> int:
        return len(self._X)

    def __getitem__(self, index: Any, /) -> Array:
        """Rows as float64 (b, d), for a slice, an integer array or a mask; a single integer gives (d,)."""
        if isinstance(index, np.ndarray) and index.dtype != bool:
            return self._X.take(index, axis=0).astype(np.float64, copy=False)  # half the time of X[index]
        return np.array(self._X[index], dtype=np.float64)


def mapped(X: npt.NDArray[np.floating], rows: ScaledRows) -> MappedRows | None:
    """Write scaled rows to a temporary file of X's precision, block by block, and map it.

    The file lies on the disk of X's own, in the folder above the prepared data set's.

    Parameters
    ----------
    X : (N, d) float32 or float64
        The data set's inputs.
    rows : ScaledRows
        Some of them, scaled.

    Returns
    -------
    MappedRows or None
        None where the disk has no room, or cannot be written.
    """
    n, d = rows.shape
    folder = Path(X.filename).parents[1] if isinstance(X, np.memmap) and X.filename else Path(tempfile.gettempdir())
    try:
        if shutil.disk_usage(folder).free < n * d * X.itemsize + _SPARE_BYTES:
            return None
        with tempfile.TemporaryFile(dir=folder) as file:
            # Written, not assigned to a map: on a disk that fills up meanwhile that is an error, and no SIGBUS.
            for block in _blocks(n, d):
                np.asarray(rows[block], dtype=X.dtype).tofile(file)
            file.flush()
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError:
        return None
    _release(X)
    # Touch each page: the first look at one costs as much as a small batch, and would fall on the clock.
    np.frombuffer(content, dtype=np.uint8)[:: mmap.PAGESIZE].max()
    return MappedRows(np.frombuffer(content, dtype=X.dtype).reshape(n, d))


def _blocks(n: int, d: int) -> Iterator[slice]:
    step = max(1, _BLOCK_BYTES // (8 * max(d, 1)))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _release(X: npt.NDArray[np.floating]) -> None:
    """Let the pages of a mapped file go from memory; they come back when they are asked for."""
    if isinstance(X, np.memmap) and X.mode == "r" and isinstance(X.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        X.base.madvise(mmap.MADV_DONTNEED)
