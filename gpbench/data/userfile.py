"""The user's own files as data sets: csv, tsv, parquet, ARFF, LIBSVM, npz, also compressed."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbench.data.dataset import TASKS, Dataset
from gpbench.data.formats import Frames, read_table
from gpbench.data.preparation import Progress, open_prepared, prepare
from gpbench.data.prepared import PREPARED_FORMAT
from gpbench.data.recipe import Column, Recipe
from gpbench.errors import DataError, DataUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

__all__ = ["SUFFIXES", "file_format", "load_file"]

SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".data": "csv",
    ".dat": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arff": "arff",
    ".libsvm": "libsvm",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".npz": "npz",
}
"""Suffix to format; a second suffix .gz, .bz2, .xz, .Z or .zip says that the file is compressed."""

_PACKED = (".gz", ".bz2", ".xz", ".z", ".zip")
_HASH_BLOCK = 1 << 20


def file_format(path: str | Path) -> str | None:
    """Format of a file by its suffix; None if it is none of :data:`SUFFIXES`.

    >>> file_format("iris.csv.gz"), file_format("iris")
    ('csv', None)
    """
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def load_file(
    path: str | Path,
    *,
    target: str | None = None,
    task: str | None = None,
    impute: str | None = None,
    cache: Path,
    progress: Progress | None = None,
) -> Dataset:
    """Data set from a file; prepared once for each content and set of options.

    Parameters
    ----------
    path : path
        The file; its suffix says the format.
    target : str, optional
        Name of the target's column, names of one-hot columns with commas between, or a position from 0 (-1: last).
        Default: the last column.
    task : str, optional
        binary, multiclass, count or ordinal. Default: what the targets tell (two labels: binary; texts or few integers:
        multiclass).
    impute : {"median"}, optional
        What becomes of missing values, which are an error otherwise.
    cache : path
        The data folder; prepared files go to its folder ``files``.
    progress : callable, optional
        Told how far reading has come.

    Raises
    ------
    DataUnavailable
        No such file.
    DataError
        The file cannot be used as it is; the message names columns and lines.
    UsageError
        Unknown suffix, column or task, or a task that must be said.
    """
    path = Path(path).expanduser()
    kind = file_format(path)
    if kind is None:
        raise UsageError(f"{path.name}: unknown kind of file; expected {', '.join(SUFFIXES)}, plain or compressed")
    if not path.is_file():
        found = "it is a folder" if path.is_dir() else "there is no such file"
        raise DataUnavailable(f"data set {path}: {found}; give the path of an existing file")
    if task is not None and task not in TASKS:
        raise UsageError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
    if impute not in (None, "median"):
        raise UsageError(f"--impute must be median; got {impute!r}")
    tables = _tables(path, kind)
    first = _first(tables)
    drop, notes = _row_numbers(first)
    recipe = Recipe(
        task=task or "auto",
        target=_target(first, target),
        drop=drop,
        categorical="auto",
        impute=impute,
    )
    key = _key(path, recipe)
    folder = Path(cache) / "files" / f"{path.name}-{key[:16]}"
    if folder.is_dir():
        try:
            return open_prepared(folder)
        except DataError:  # damaged: the file itself is here, so it is prepared again
            shutil.rmtree(folder, ignore_errors=True)
    try:
        return prepare(tables, recipe, id=path.name, title=path.name, folder=folder, notes=notes, progress=progress)
    except DataError as error:
        if path.name in str(error):
            raise
        raise DataError(f"{path.name}: {error}") from error  # what concerns the file as a whole names no line


def _tables(path: Path, kind: str) -> Callable[[], Frames]:
    options: dict[str, Any] = {}
    if kind == "csv" and ".tsv" in [suffix.lower() for suffix in path.suffixes]:
        options["delimiter"] = "\t"
    return lambda: read_table(path, format=kind, **options)


def _first(tables: Callable[[], Frames]) -> pd.DataFrame:
    frames = tables()
    for block in frames:
        frames.close()  # type: ignore[attr-defined] # the readers are generators
        return block
    raise DataError("expected rows; the file holds none")


def _target(first: pd.DataFrame, target: str | None) -> Column | tuple[Column, ...]:
    """The target as the user gave it: a name, else several names with commas between (one-hot), else a position."""
    names = [str(name) for name in first.columns]
    if target is None:
        _refuse_one_hot(first, names)
        return -1
    if target in names:
        return target
    several = tuple(name.strip() for name in target.split(","))
    if len(several) > 1 and set(several) <= set(names):
        return several
    return int(target) if target.removeprefix("-").isdigit() else target


def _refuse_one_hot(first: pd.DataFrame, names: list[str]) -> None:
    """Last columns of which each row sets exactly one are one target: the others would give it away as inputs."""
    total = np.zeros(len(first))
    for k in range(1, len(names)):
        column = first.iloc[:, -k]
        if column.dtype.kind not in "biuf" or not column.isin([0, 1]).all():
            return
        total += column.to_numpy(dtype=np.float64)
        if k > 1 and (total == 1.0).all():
            last = ",".join(names[-k:])
            raise UsageError(
                f"the last {k} columns look like one-hot targets (each row sets exactly one): "
                f"expected --target {last}, or --target {names[-1]} if the others are inputs; got no --target"
            )


def _row_numbers(first: pd.DataFrame) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """A nameless first column that counts the rows, as pandas' ``to_csv`` writes it, is no input."""
    names = [str(name) for name in first.columns]
    named = len(names) > 2 and names[0] in ("Unnamed: 0", "__index_level_0__")
    if named and first.iloc[:, 0].dtype.kind == "i" and len(first) > 1:
        values = first.iloc[:, 0].to_numpy()
        if values[0] in (0, 1) and (np.diff(values) == 1).all():
            return (0,), ("the nameless first column counts the rows and was dropped",)
    return (), ()


def _key(path: Path, recipe: Recipe) -> str:
    """Hash of the content and of everything that decides what preparation makes of it."""
    whole = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_HASH_BLOCK):
                whole.update(block)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    options = json.dumps([PREPARED_FORMAT, path.name, asdict(recipe)], sort_keys=True)
    return hashlib.sha256(whole.digest() + options.encode()).hexdigest()
