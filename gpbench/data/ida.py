"""IDA's benchmark sets with their published splits: realisations as text files, and the collection benchmarks.mat.

A realisation is a permutation of one multiset of rows, cut in two. Rows are therefore kept once, in the order of the
first realisation (training rows, then test rows), and each split becomes two lists of row numbers. Where rows repeat,
the first occurrence in a realisation is matched to the first occurrence here, the second to the second, and so on.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpbench.data.archives import read_members
from gpbench.data.formats.frames import column_names, frame
from gpbench.data.formats.mat import read_mat_arrays
from gpbench.data.formats.source import reading
from gpbench.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["halves", "raetsch", "realisations"]

Ints = npt.NDArray[np.int64]
Table = tuple[pd.DataFrame, tuple[tuple[Ints, Ints], ...]]


def realisations(path: Path, *, name: str, sort: bool = False) -> Table:
    """Rows and splits of an archive of ``NAME_train_data_1.asc``, ``NAME_train_labels_1.asc``, ... files.

    Parameters
    ----------
    path : Path
        A tar archive.
    name : str
        How the files' names begin.
    sort : bool
        Sort the rows by their inputs, first column first.

    Returns
    -------
    (table, splits)
        Columns x1 ... xd and ``target``; (train, test) row numbers of each realisation.

    Raises
    ------
    DataError
        A file is missing, holds no numbers, or a realisation holds other rows than the first.
    """
    texts = read_members(path, suffix=".asc")
    pattern = re.compile(re.escape(name) + r"_train_data_(\d+)\.asc")
    numbers = sorted(int(found[1]) for text in texts if (found := pattern.fullmatch(text)))
    if not numbers:
        raise DataError(
            f"{path.name}: expected members {name}_train_data_1.asc and so on; got {', '.join(texts) or 'none'}"
        )
    parts = {(half, k): _half(texts, path, f"{name}_{half}", k) for k in numbers for half in ("train", "test")}
    rows = np.concatenate([parts["train", numbers[0]], parts["test", numbers[0]]])
    if sort:
        rows = rows[np.lexsort(rows[:, -2::-1].T)]
    places: dict[bytes, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        places[row.tobytes()].append(place)
    splits = []
    for k in numbers:
        here = np.concatenate([parts["train", k], parts["test", k]])
        order = _matched(here, places, f"{path.name}: realisation {k}")
        cut = len(parts["train", k])
        splits.append((np.sort(order[:cut]), np.sort(order[cut:])))
    return _table(rows, path.name), tuple(splits)


def _matched(rows: npt.NDArray[np.float64], places: dict[bytes, list[int]], where: str) -> Ints:
    seen: dict[bytes, int] = defaultdict(int)
    order = np.empty(len(rows), dtype=np.int64)
    for i, row in enumerate(rows):
        key = row.tobytes()
        known = places.get(key, [])
        if seen[key] >= len(known):
            raise DataError(f"{where}: expected the rows of the first realisation; row {i + 1} is not among them")
        order[i] = known[seen[key]]
        seen[key] += 1
    if len(rows) != sum(map(len, places.values())):
        raise DataError(f"{where}: expected {sum(map(len, places.values()))} rows, got {len(rows)}")
    return order


def _half(texts: dict[str, bytes], path: Path, stem: str, k: int) -> npt.NDArray[np.float64]:
    """Inputs and label of one half of one realisation, (n, d + 1)."""
    X, y = (_numbers(texts, path, f"{stem}_{what}_{k}.asc") for what in ("data", "labels"))
    if len(X) != len(y) or y.shape[1] != 1:
        raise DataError(f"{path.name}: {stem} {k}: expected one label for each of {len(X)} rows; got {y.shape}")
    return np.concatenate([X, y], axis=1) + 0.0  # -0.0 becomes 0.0: rows are compared by their bytes


def _numbers(texts: dict[str, bytes], path: Path, member: str) -> npt.NDArray[np.float64]:
    where = f"{path.name}!{member}"
    if member not in texts:
        raise DataError(f"{where}: no such member")
    if not texts[member].strip():
        raise DataError(f"{where}: expected numbers; the file is empty")
    try:
        return np.loadtxt(io.BytesIO(texts[member]), dtype=np.float64, ndmin=2, comments=None)
    except ValueError as error:
        raise DataError(f"{where}: expected rows of numbers, all of one length; {error}") from error


def _table(rows: npt.NDArray[np.float64], source: str) -> pd.DataFrame:
    table = pd.DataFrame(rows[:, :-1], columns=column_names(rows.shape[1] - 1))
    table["target"] = rows[:, -1].astype(np.int64)
    return frame(table, numbers=range(1, len(table) + 1), source=source, unit="row")


def raetsch(path: Path, *, name: str) -> Table:
    """Rows and splits of one set of benchmarks.mat: a structure of ``x``, ``t``, ``train``, ``test``.

    Raises
    ------
    DataError
        No such set, or splits that point outside of its rows (they count from 1).
    """
    from scipy.io import loadmat  # noqa: PLC0415  # slow to import

    with reading(path.name):
        content: dict[str, Any] = loadmat(path, variable_names=[name])
        if name not in content:
            raise DataError(f"{path.name}: no variable {name!r}")
        found = content[name]
        if found.dtype.names is None or not {"x", "t", "train", "test"} <= set(found.dtype.names):
            raise DataError(f"{path.name}: {name} must be a structure of x, t, train, test; got {found.dtype}")
        one = found.reshape(-1)[0]
        X, t = np.asarray(one["x"], dtype=np.float64), np.asarray(one["t"], dtype=np.float64).reshape(-1, 1)
        train, test = (np.atleast_2d(np.asarray(one[key], dtype=np.int64)) - 1 for key in ("train", "test"))
    if X.ndim != 2 or len(X) != len(t) or len(train) != len(test):
        raise DataError(
            f"{path.name}: {name}: x {X.shape}, t {t.shape}, train {train.shape} and test {test.shape} do not fit"
        )
    for split in (train, test):
        if split.min() < 0 or split.max() >= len(X):
            raise DataError(f"{path.name}: {name}: splits must count rows from 1 to {len(X)}")
    splits = tuple((np.sort(a), np.sort(b)) for a, b in zip(train, test, strict=True))
    return _table(np.concatenate([X, t], axis=1), f"{path.name}!{name}"), splits


def halves(path: Path, *, train: list[str], test: list[str]) -> Table:
    """Rows and the one split of a .mat file that holds training and test rows under names of their own.

    Parameters
    ----------
    path : Path
    train, test : [inputs, labels]
        Names of the variables.
    """
    arrays = read_mat_arrays(path, [*train, *test])
    rows = [
        np.concatenate([np.asarray(arrays[x], np.float64), np.asarray(arrays[y], np.float64).reshape(-1, 1)], axis=1)
        for x, y in (train, test)
    ]
    cut, n = len(rows[0]), len(rows[0]) + len(rows[1])
    split = (np.arange(cut, dtype=np.int64), np.arange(cut, n, dtype=np.int64))
    return _table(np.concatenate(rows), path.name), (split,)
