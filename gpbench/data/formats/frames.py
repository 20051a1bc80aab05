"""Blocks of rows as data frames: the currency between the readers and preparation.

A block's index holds the line (or row) number of each row in its file; ``attrs`` holds ``source`` (the file, for
messages), ``unit`` ("line" or "row"), ``read`` and ``total`` (bytes of the file on disk). Where values are written as
text, ``written`` gives a column as it stands there: ask :func:`as_written`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpbench.errors import DataError

__all__ = [
    "MAX_COLUMNS",
    "Frames",
    "Reread",
    "as_written",
    "bare",
    "beside",
    "column_names",
    "frame",
    "one_after_another",
    "place",
    "renamed",
    "too_wide",
    "unique_names",
]

MAX_COLUMNS = 100_000
"""Wider data do not suit a Gaussian process, and rows are kept dense here."""

_LONGEST_NAME = 10_000

Frames = Iterator[pd.DataFrame]


class Reread:
    """A table that can be read again and again, and whose first block can be looked at without reading it twice.

    Parameters
    ----------
    tables : callable
        Opens the table's blocks anew at each call.
    """

    def __init__(self, tables: Callable[[], Frames]) -> None:
        self._open = tables
        self._held: tuple[pd.DataFrame | None, Frames] | None = None

    def first(self) -> pd.DataFrame | None:
        """The first block; None if there is none."""
        if self._held is None:
            rest = self._open()
            self._held = next(rest, None), rest
        return self._held[0]

    def __call__(self) -> Frames:
        """The blocks, from the beginning."""
        held, self._held = self._held, None
        if held is None:
            yield from self._open()
        elif held[0] is not None:
            yield held[0]
            yield from held[1]

    def close(self) -> None:
        """Close what is open."""
        held, self._held = self._held, None
        if held is not None:
            getattr(held[1], "close", lambda: None)()


def bare(block: pd.DataFrame) -> pd.DataFrame:
    """The block without its attributes, which pandas copies, deeply, whenever a column is taken."""
    view = block.copy(deep=False)
    view.attrs = {}
    return view


def as_written(block: pd.DataFrame, name: str) -> pd.Series:
    """A column as the text that stands in the file: ``"01"``, though the reader took the block's values for numbers.

    The column itself where it is none of numbers, or the reader does not tell. The rows may be some of the block's.
    """
    column = bare(block)[name]
    written: Callable[[str], pd.Series | None] | None = block.attrs.get("written")
    text = written(name) if written is not None and column.dtype.kind in "iuf" else None
    if text is None:
        return column
    return text if text.index.equals(block.index) else text.loc[block.index]


def renamed(block: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The block with other names for its columns, in their order."""
    before = dict(zip(names, map(str, block.columns), strict=True))
    attrs = dict(block.attrs)
    if (written := attrs.get("written")) is not None:
        attrs["written"] = lambda name: written(before[name])
    made = block.set_axis(list(names), axis=1)
    made.attrs = attrs
    return made


def frame(
    columns: Any,
    *,
    numbers: npt.NDArray[np.int64] | range,
    names: Sequence[str] | None = None,
    source: str,
    unit: str = "line",
    read: int = 0,
    total: int = 0,
) -> pd.DataFrame:
    """A block from columns (data frame, mapping, or (n, d) array with ``names``) and where its rows stand."""
    index = (
        pd.RangeIndex(numbers.start, numbers.stop) if isinstance(numbers, range) else pd.Index(numbers, dtype=np.int64)
    )
    if isinstance(columns, pd.DataFrame):
        made = columns
        made.index = index
    else:
        made = pd.DataFrame(columns, index=index, columns=None if names is None else list(names), copy=False)
    made.attrs = {"source": source, "unit": unit, "read": read, "total": total}
    return made


def place(block: pd.DataFrame, row: int) -> str:
    """Where the row of a block stands: ``"iris.csv, line 17"``."""
    source, unit = block.attrs.get("source", "table"), block.attrs.get("unit", "row")
    return f"{source}, {unit} {block.index[row]}"


def too_wide(count: int, *, where: str, unit: str = "columns") -> None:
    """Refuse a table that is too wide, before anything is made for it.

    Raises
    ------
    DataError
        More than :data:`MAX_COLUMNS`.
    """
    if count > MAX_COLUMNS:
        raise DataError(f"{where}: expected at most {MAX_COLUMNS:,} {unit}; got {count:,}")


def column_names(count: int) -> list[str]:
    """Names of columns that have none: x1, x2, ..."""
    return [f"x{j + 1}" for j in range(count)]


def unique_names(names: Sequence[str], *, source: str, needed: Collection[str] | None = None) -> list[str]:
    """The names, if they differ.

    Parameters
    ----------
    names : sequence of str
    source : str
        For messages.
    needed : collection of str, optional
        The names that count: of others, those that come again are told apart by a number. By default all count.

    Raises
    ------
    DataError
        A name that counts occurs twice.
    """
    too_wide(len(names), where=f"{source}, line 1")
    if long := next((name for name in names if len(name) > _LONGEST_NAME), None):
        raise DataError(
            f"{source}, line 1: expected names of at most {_LONGEST_NAME:,} characters; "
            f"got {len(long):,}, beginning with {long[:20]!r}"
        )
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    counted = [name for name in twice if needed is None or name in needed]
    if counted:
        raise DataError(f"{source}, line 1: column names must differ; more than one is named {', '.join(counted)}")
    return _numbered(names, twice, seen.union(needed or ())) if twice else list(names)


def _numbered(names: Sequence[str], twice: Collection[str], taken: set[str]) -> list[str]:
    """The names with a number behind each of those that come again: ``x (2)``, or a higher one where that is taken."""
    numbers, found = dict.fromkeys(twice, 0), []
    for name in names:
        own = name
        if name in numbers:
            numbers[name] += 1
            while numbers[name] > 1 and (own := f"{name} ({numbers[name]})") in taken:
                numbers[name] += 1
        found.append(own)
    return found


def one_after_another(parts: Iterable[tuple[int, Callable[[], Frames]]]) -> Frames:
    """Rows of several files in turn; progress counts over all of them.

    Parameters
    ----------
    parts : iterable of (size, open)
        Bytes on disk of each file, and what opens it.

    Raises
    ------
    DataError
        A file's columns are not those of the first.
    """
    parts = list(parts)
    total = sum(size for size, _ in parts)
    done = 0
    names: list[str] | None = None
    for size, open_frames in parts:
        for block in open_frames():
            here = [str(name) for name in block.columns]
            names = here if names is None else names
            if here != names:
                raise DataError(
                    f"{block.attrs.get('source', 'table')}: expected the {len(names)} columns of the file before it; "
                    f"got {len(here)} ({', '.join(here[:5])}, ...)"
                )
            block.attrs["read"], block.attrs["total"] = done + block.attrs.get("read", 0), total
            yield block
        done += size


def beside(left: Frames, right: Frames) -> Frames:
    """Columns of two files side by side (inputs and labels), row by row; the left file's place counts.

    Raises
    ------
    DataError
        One has fewer rows, or they share a column name.
    """
    waiting: pd.DataFrame | None = None
    last = None
    for block in left:
        last = block
        start = 0
        while start < len(block):
            if waiting is None or not len(waiting):
                waiting = next(right, None)
                if waiting is None:
                    raise DataError(f"{place(block, start)}: no row is left in the file beside it")
                continue
            both = set(map(str, block.columns)) & set(map(str, waiting.columns))
            if both:
                raise DataError(f"{place(block, 0)}: both files have a column {', '.join(sorted(both))}")
            count = min(len(block) - start, len(waiting))
            here = block.iloc[start : start + count]
            there = waiting.iloc[:count]
            joined = pd.concat([here, there.set_axis(here.index)], axis=1)
            joined.attrs = {**block.attrs, "written": _written_in(here, there)}
            yield joined
            waiting = waiting.iloc[count:]
            start += count
    if waiting is None or not len(waiting):
        waiting = next((block for block in right if len(block)), None)
    if waiting is not None:
        source = "the file beside it" if last is None else last.attrs.get("source", "the file beside it")
        raise DataError(f"{place(waiting, 0)}: {source} has no row for it")


def _written_in(left: pd.DataFrame, right: pd.DataFrame) -> Callable[[str], pd.Series]:
    """The columns of two blocks side by side, as written; the left one's index counts."""

    def written(name: str) -> pd.Series:
        return as_written(left, name) if name in left.columns else as_written(right, name).set_axis(left.index)

    return written
