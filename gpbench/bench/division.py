"""What a cell trains and is tested on: the rows of its split, scaled, and their targets.

Scaled rows that are too many for an array are written to a temporary file and mapped, so that a scheme that trains on
them pays for reading and not for scaling: inside ``fit`` that would put a step into the cost of a row at the size from
which rows no longer fit in memory. The file has no name (on Windows it is deleted when it is closed): however a cell
ends, killed from outside included, it leaves no gigabytes behind.
"""

from __future__ import annotations

import mmap
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpbench.data.record import fitted
from gpbench.data.scaling import ScaledRows
from gpbench.data.splits import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.bench.cell import CellSpec
    from gpbench.data.dataset import Dataset
    from gpbench.data.record import Preparation
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["MATERIALISED_BYTES", "Division", "MappedRows", "divide", "mapped"]

#: Scaled inputs up to this size become one float64 array; larger ones are mapped from a file in the data's precision.
MATERIALISED_BYTES = 64 * 2**20
_BLOCK_BYTES = 16 << 20
#: A disk is never filled to the last byte.
_SPARE_BYTES = 1 << 30


@dataclass(frozen=True, eq=False)
class Division:
    """A split's rows, ready for a scheme.

    Attributes
    ----------
    X, X_test : (n, d), (n_test, d)
        Scaled inputs.
    y, y_test : (n,), (n_test,)
        Targets.
    active : (M, d) or None
        The split's active set, scaled: the inducing inputs of methods that have any.
    y_active : (M,) or None
        Its targets.
    rows : str
        Where the training rows are: ``"memory"``, ``"memory-mapped"`` (scaled beforehand, in a temporary file), or
        ``"scaled on demand"`` (there was no room for that file; scaling is then on the clock).
    preparation : Preparation
        How a raw row becomes one of these.
    """

    X: Rows
    y: Labels
    X_test: Rows
    y_test: Labels
    active: Array | None
    y_active: Labels | None
    rows: str
    preparation: Preparation

    def said(self) -> dict[str, Any]:
        """What the training rows decided, for the record: columns that do not vary, and what filled missing values."""
        scaling = self.preparation.scaling
        assert scaling is not None
        found: dict[str, Any] = {"constant_columns": int(scaling.constant.sum())}
        if scaling.fill is not None:
            names = self.preparation.names
            found["fillings"] = {name: float(value) for name, value in zip(names, scaling.fill, strict=True)}
        return found


def divide(dataset: Dataset, spec: CellSpec) -> Division:
    """Training and test rows, scaled, their targets, and the active set.

    Raises
    ------
    UsageError
        The split or the scaling does not exist.
    DataError
        Inputs too large to scale, or none that varies over the training rows.
    """
    protocol = Protocol.parse(spec.split.protocol)
    split = protocol.split(
        dataset,
        spec.split.index,
        seed=spec.split.seed,
        test_rows=spec.limits.test_rows,
        train_rows=spec.limits.train_rows,
    )
    preparation = fitted(dataset, rows=split.train, scaling=spec.scaling)
    scaling = preparation.scaling
    assert scaling is not None
    test = ScaledRows(dataset.X, split.test, scaling)
    X_test = test.array() if _fits(test) else test  # tested off the clock in any case
    X, where = _training_rows(dataset, ScaledRows(dataset.X, split.train, scaling))
    active = None if split.active is None else ScaledRows(dataset.X, split.active, scaling).array()
    return Division(
        X=X,
        y=np.asarray(dataset.y[split.train]),
        X_test=X_test,
        y_test=np.asarray(dataset.y[split.test]),
        active=active,
        y_active=None if split.active is None else np.asarray(dataset.y[split.active]),
        rows=where,
        preparation=preparation,
    )


def _training_rows(dataset: Dataset, rows: ScaledRows) -> tuple[Rows, str]:
    if _fits(rows):
        return rows.array(), "memory"
    found = mapped(dataset.X, rows)
    return (rows, "scaled on demand") if found is None else (found, "memory-mapped")


def _fits(rows: ScaledRows) -> bool:
    n, d = rows.shape
    return n * d * 8 <= MATERIALISED_BYTES


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
