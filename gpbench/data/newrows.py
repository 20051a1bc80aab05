"""New raw rows, prepared as the training rows of a model were: by the record that it was trained with.

Columns go by their names; others that the file has beside them, the target among them, play no part. A file whose
columns had no names is taken by positions. A category that the record does not know becomes zeros in all columns of its
code, and is counted. A missing value becomes what it became in training where missing values were filled there, and is
an error otherwise.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpbench.data.census import word
from gpbench.data.columns import Layout, NoNumberError
from gpbench.data.formats.dialect import MISSING
from gpbench.data.formats.frames import place, renamed
from gpbench.data.formats.libsvm import TARGET, libsvm_extent
from gpbench.data.options import FileOptions
from gpbench.data.userfile import table_file
from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt
    import pandas as pd

    from gpbench.data.record import Preparation
    from gpbench.data.userfile import TableFile

__all__ = ["NewRows", "new_rows", "read_new_rows"]

_NAMED = 8


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows that a model can predict.

    Attributes
    ----------
    X : (n, d) float64
        Filled, scaled, without the columns that did not vary in training.
    numbers : (n,) int64
        Line (or row) of each in its file.
    counts : mapping of str to int
        What was done to values that should be said (filled, unknown categories), and to how many.
    remarks : tuple of str
        What was decided on how the file is read.
    """

    X: npt.NDArray[np.float64]
    numbers: npt.NDArray[np.int64]
    counts: Mapping[str, int]
    remarks: tuple[str, ...] = ()

    @property
    def notes(self) -> list[str]:
        """The remarks, and the counts in words."""
        return [*self.remarks, *(f"{words}: {count}" for words, count in self.counts.items())]


def read_new_rows(path: str | Path, record: Preparation, *, options: FileOptions | None = None) -> NewRows:
    """Prepare the rows of a file.

    Parameters
    ----------
    path : path
        A file of any kind that ``gpbench run`` takes.
    record : Preparation
        With the scaling of the training rows.
    options : FileOptions, optional
        How the file is read. Words for missing values are the record's and those given here, which may also take some
        of the record's away (``-WORD``).

    Raises
    ------
    DataUnavailable
        No such file.
    DataError
        It cannot be read, lacks columns, or holds values that are no numbers or missing.
    UsageError
        Unknown kind of file.
    """
    options = options or FileOptions()
    file = table_file(path, replace(options, missing=_missing(record, options.missing)))
    if file.kind in ("csv", "tsv") and file.header is None:
        file = replace(file, header=record.named)
    if file.kind not in ("csv", "tsv") and any("" in feature.categories for feature in record.features):
        file = replace(file, missing=tuple(word for word in file.missing if word))  # likewise
    remarks: tuple[str, ...] = ()
    if file.kind == "libsvm":
        features = len(record.columns) - len(record.target)
        zero_based, remarks = _base(file, record, features)
        file = replace(file, features=features, zero_based=zero_based)
    inputs = tuple(feature.column for feature in record.features)
    # A model may predict another column from the array of targets; without names, columns go by their places.
    file = replace(file, labelled=TARGET in inputs, needed=inputs if record.named else ())
    parts = [new_rows(block, record) for block in file.tables()]
    totals: Counter[str] = Counter()
    for part in parts:
        totals.update(part.counts)
    return NewRows(
        np.concatenate([part.X for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        dict(totals),
        remarks,
    )


def _base(file: TableFile, record: Preparation, features: int) -> tuple[bool, tuple[str, ...]]:
    """Whether indices of sparse text count from 0, and what should be said of it."""
    if record.zero_based is not None:
        return record.zero_based, ()
    lowest, highest = libsvm_extent(file.path, member=file.member)
    if lowest == 0 or highest >= features:
        return lowest == 0, ()
    return False, ("indices are taken to count from 1, of which the model does not tell; one that is fitted anew does",)


def _missing(record: Preparation, more: Sequence[str]) -> tuple[str, ...]:
    """Words for missing values as ``--missing`` has them: those that the record was made with, and more."""
    own = [word for word in record.missing if word not in MISSING and f"-{word}" not in more]
    # A category is one: earlier versions took words in parquet for categories.
    known = {category for feature in record.features for category in feature.categories}
    words = record.missing or MISSING  # none stand in the record of rows that are no file of the user's own
    kept = [f"-{word}" for word in MISSING if word and (word in known or word not in words)]
    return (*own, *kept, *more)


def new_rows(block: pd.DataFrame, record: Preparation) -> NewRows:
    """Prepare the rows of a table in memory.

    Parameters
    ----------
    block : data frame
        Raw rows: the columns of the file that the record was made from, by name, in any order.
    record : Preparation
        With the scaling of the training rows.

    Raises
    ------
    DataError
        A column is missing, or a value is no number, infinite, or missing without being filled.
    """
    if record.scaling is None:
        raise DataError("expected the record of a preparation with the scaling of its training rows; got none")
    source = block.attrs.get("source", "table")
    table = _by_name(block, record, source)
    layout = Layout(tuple(map(str, table.columns)), (), None, record.features)
    unseen: Counter[str] = Counter()
    try:
        raw = layout.encode(table, "float64", unseen=unseen)
    except NoNumberError as error:
        raise DataError(f"{error}; {_remedy(error.value, filled=record.scaling.fill is not None)}") from error
    owners = [feature.column for feature in record.features for _ in feature.names]
    if np.isinf(raw).any():
        row, j = np.argwhere(np.isinf(raw))[0].tolist()
        raise DataError(
            f"{place(table, row)}: column {owners[j]!r} holds an infinite value; correct it, or leave the row out"
        )
    gone = np.isnan(raw)
    counts = {f"unknown categories of column {name}, coded as none of the known": n for name, n in unseen.items()}
    if gone.any():
        row, j = np.argwhere(gone)[0].tolist()
        if record.scaling.fill is None:
            raise DataError(
                f"{place(table, row)}: column {owners[j]!r} has no value; the training rows had none missing "
                "(or were not filled by --impute median); leave the row out, or fit with --impute median"
            )
        filled = {owners[j]: int(gone[:, j].sum()) for j in np.flatnonzero(gone.any(axis=0)).tolist()}
        counts |= {f"missing values of column {name}, filled as in training": n for name, n in filled.items()}
    return NewRows(record.scaling.apply(raw), np.asarray(table.index, dtype=np.int64), counts)


def _remedy(value: str, *, filled: bool) -> str:
    """What can be done about a value that is no number."""
    missing = f"--missing {word(value)} reads it as missing"
    if filled:
        return f"{missing}, which is filled as in training"
    return f"correct it, or leave the row out ({missing}, and a model of `gpbench fit --impute median` fills it)"


def _by_name(block: pd.DataFrame, record: Preparation, source: str) -> pd.DataFrame:
    """The block with the record's inputs among its columns."""
    names = [str(name) for name in block.columns]
    wanted = [feature.column for feature in record.features]
    if not record.named and set(names) != set(record.columns):
        # Positions count: all columns, or all but the target.
        inputs = [name for name in record.columns if name not in record.target]
        if len(names) == len(inputs):
            return renamed(block, inputs)
        if len(names) != len(record.columns):
            raise DataError(
                f"{source}: expected {len(inputs)} columns without names, or {len(record.columns)} with the target's; "
                f"got {len(names)}"
            )
        return renamed(block, record.columns)
    found = set(names)
    absent = [name for name in wanted if name not in found]
    if absent:
        raise DataError(f"{source}: expected the columns {_some(wanted)}; {_some(absent)} not among {_some(names)}")
    needed = set(wanted)
    twice = [name for name, count in Counter(names).items() if count > 1 and name in needed]
    if twice:
        raise DataError(f"{source}: column names must differ; more than one is named {_some(twice)}")
    return renamed(block, names)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
