"""Preparation: from blocks of a table to a data set on disk, streamed, so that memory does not grow with X.

One pass over the file suffices for tables of numbers. Categories that are not known beforehand take a pass that counts
them. Sorting and removal of duplicates work on the written matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gpbench.data.columns import Layout, TextFoundError, layout_of, survey, with_categories
from gpbench.data.dataset import Dataset, GivenSplits, content_checksum
from gpbench.data.formats.frames import Frames, Reread
from gpbench.data.prepared import MatrixWriter, open_prepared, partial_folder, save_rest
from gpbench.data.recipe import Recipe
from gpbench.data.record import Preparation
from gpbench.data.targets import MixedTargetsError, Targets
from gpbench.data.values import Values
from gpbench.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from gpbench.data.census import Census

__all__ = ["Progress", "Recipe", "open_prepared", "prepare"]

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and those to read in all (of the files on disk, over all passes)."""

Tables = Callable[[], Frames]
Ints = npt.NDArray[np.int64]

_BLOCK_BYTES = 8 << 20
_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


def prepare(
    tables: Tables,
    recipe: Recipe,
    *,
    id: str,  # noqa: A002 - the field of the data set bears this name
    title: str,
    folder: Path,
    given: Sequence[tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]] = (),
    notes: Sequence[str] = (),
    index: Sequence[str] = (),
    named: bool = True,
    missing: Sequence[str] = (),
    zero_based: bool | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Prepare a data set and open it.

    Parameters
    ----------
    tables : callable
        Opens the table's blocks anew at each call.
    recipe : Recipe
        What to do with the columns and rows.
    id, title : str
        Of the data set.
    folder : path
        Where the prepared form goes; what stands there is replaced.
    given : sequence of (train, test)
        The publisher's splits, as row numbers of the table; not together with sorting or removal of rows.
    notes : sequence of str
        Remarks that come before those of preparation.
    index : sequence of str
        Columns that number or name the rows; left out.
    named : bool
        Whether the file names its columns; for the record.
    missing : sequence of str
        Words that the tables' reader takes for missing values; for the record.
    zero_based : bool, optional
        Of sparse text: whether its indices count from 0; for the record.
    progress : callable, optional
        Told how far reading has come.

    Raises
    ------
    DataError
        Values that are missing, infinite or no numbers, targets that do not fit the task, or a disk that is full; the
        message names columns and the first line. Nothing half-made is left.
    UsageError
        The recipe does not fit the table.
    """
    meter = _Meter(progress)
    tables = tables if isinstance(tables, Reread) else Reread(tables)
    with closing(tables), partial_folder(Path(folder)) as partial:
        layout, targets, values = _read(tables, recipe, partial, meter, index=index)
        task, classes, y = targets.finish()
        remarks = [*notes, *targets.notes(), *values.notes()]
        digest, y = _finish_rows(partial, recipe, values=values, y=y, remarks=remarks)
        splits = _given(given, targets.parts(), n=len(y), read=values.rows, changed=recipe.sort or recipe.deduplicate)
        checksum = content_checksum(
            digest, y, task=task, dtype=recipe.dtype, classes=classes, features=layout.names, given=splits
        )
        header = {
            "id": id,
            "title": title,
            "task": task,
            "n": len(y),
            "d": len(layout.names),
            "dtype": recipe.dtype,
            "classes": list(classes),
            "features": list(layout.names),
            "checksum": checksum,
            "notes": remarks,
            "decisions": remarks if layout.auto else [],
            "preparation": Preparation(
                columns=layout.columns,
                named=named,
                target=layout.target,
                features=layout.features,
                dropped=_dropped(layout),
                task=task,
                classes=tuple(classes),
                missing=tuple(missing),
                impute=recipe.impute,
                zero_based=zero_based,
            ).to_json(),
        }
        save_rest(partial, header, y=y, given=splits)
    return open_prepared(folder)


def _dropped(layout: Layout) -> dict[str, str]:
    """Columns that are no inputs, each with the reason."""
    used = {*layout.target, *(item.column for item in layout.features)}
    found = {name: "dropped" for name in layout.columns if name not in used}
    found |= {name: "an index of the rows" for name in layout.index if name in found}
    return found | ({layout.part: "names training and test rows"} if layout.part is not None else {})


class _Meter:
    """Progress over several passes through the same files."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._before = 0
        self.passes_left = 1

    def pass_over(self, frames: Frames) -> Iterator[pd.DataFrame]:
        total = 0
        for block in frames:
            yield block
            total = int(block.attrs.get("total", 0))
            if self._progress is not None and total:
                read = int(block.attrs.get("read", 0))
                self._progress(self._before + read, self._before + total * self.passes_left)
        self._before += total
        self.passes_left = max(1, self.passes_left - 1)


def _read(
    tables: Reread, recipe: Recipe, partial: Path, meter: _Meter, *, index: Sequence[str]
) -> tuple[Layout, Targets, Values]:
    """Read the whole table; anew where text further down says that the numbers before it were none."""
    text: set[str] = set()
    written = False
    layout = _layout(tables, recipe, meter, index=index)
    while True:
        try:
            return layout, *_stream(tables, recipe, layout, partial, meter, written=written)
        except TextFoundError as found:
            text.add(found.column)
            layout = _layout(tables, recipe, meter, index=index, text=text)
        except MixedTargetsError:
            written = True


def _layout(
    tables: Reread, recipe: Recipe, meter: _Meter, *, index: Sequence[str], text: Collection[str] = ()
) -> Layout:
    """The layout; categories that nobody told are looked for in the whole file."""
    first = tables.first()
    if first is None:
        raise DataError("expected a table with rows; there are none")
    layout = layout_of(first, recipe, also_text=text, index=index)
    written: set[str] = set()
    while wanted := layout.open:
        counts: dict[str, Census] = {}
        meter.passes_left = 2
        late = set()
        if layout.auto:  # categories because of their text; those that a recipe names may be numbers
            written |= {item.column for item in wanted}
        for block in meter.pass_over(tables()):
            survey(counts, block, wanted, written=written)
            late |= layout.late_text(block)
        mixed = {name for name, count in counts.items() if count.mixed}
        if not late and not mixed:
            return with_categories(layout, counts)
        written |= mixed
        layout = layout_of(first, recipe, also_text=[*late, *(item.column for item in wanted)], index=index)
    return layout


def _stream(
    tables: Tables, recipe: Recipe, layout: Layout, partial: Path, meter: _Meter, *, written: bool
) -> tuple[Targets, Values]:
    targets, values = Targets(layout, recipe, written=written), Values(layout, recipe)
    with MatrixWriter(partial / "raw.npy", d=len(layout.names), dtype=recipe.dtype) as writer:
        for block in meter.pass_over(tables()):
            if tuple(map(str, block.columns)) != layout.columns:
                raise DataError(f"{block.attrs.get('source', 'table')}: the columns change within the table")
            wanted = targets.wanted(block)
            kept = block if wanted is None else block[wanted]
            if layout.auto:
                layout.refuse_inexact(block)
            X = layout.encode(kept, recipe.dtype)
            whole = values.check(X, kept, target=targets.present(kept))
            if whole is not None:
                X, kept = X[whole], kept[whole]
            if not values.failed:
                targets.add(kept)
                writer.write(X)
    values.raise_if_failed()
    if not writer.n:
        raise DataError("no row is left; all were left out or had missing values")
    values.refuse_empty()
    values.digest = writer.digest()
    return targets, values


def _finish_rows(
    partial: Path,
    recipe: Recipe,
    *,
    values: Values,
    y: npt.NDArray[np.int64],
    remarks: list[str],
) -> tuple[bytes, npt.NDArray[np.int64]]:
    """Remove duplicates, sort; leaves X.npy in place and returns its digest and the targets."""
    raw, final = partial / "raw.npy", partial / "X.npy"
    if not (recipe.deduplicate or recipe.sort):
        raw.replace(final)
        return values.digest, y
    X: Any = np.load(raw, mmap_mode="r", allow_pickle=False)
    rows = np.arange(len(X))
    if recipe.deduplicate:
        rows = _first_occurrences(X, y)
        remarks.append(f"duplicates of (target, inputs) removed: {len(X) - len(rows)} of {len(X)} rows")
    if recipe.sort:
        rows = _sorted_order(X, rows)
        remarks.append("rows sorted by their inputs")
    with MatrixWriter(final, d=X.shape[1], dtype=recipe.dtype) as writer:
        for part in _blocks_of(len(rows), X.shape[1]):
            writer.write(X[rows[part]])
    del X
    raw.unlink()
    return writer.digest(), y[rows]


def _given(
    given: Sequence[tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]],
    parts: npt.NDArray[np.bool_] | None,
    *,
    n: int,
    read: int,
    changed: bool,
) -> GivenSplits:
    splits = [(np.asarray(train, dtype=np.int64), np.asarray(test, dtype=np.int64)) for train, test in given]
    if splits and (changed or n != read):
        raise DataError(f"given splits count the table's {read} rows; preparation changed them to {n}")
    if parts is not None:
        splits.append((np.flatnonzero(~parts), np.flatnonzero(parts)))
    for train, test in splits:
        if not len(train) or not len(test):
            raise DataError("a given split has no training or no test rows")
        if min(train.min(), test.min()) < 0 or max(train.max(), test.max()) >= n or len(np.intersect1d(train, test)):
            raise DataError(f"a given split must hold separate row numbers in 0..{n - 1}")
    return tuple(splits)


# Work on all rows of a memory-mapped matrix, with a few numbers for each row.


def _blocks_of(n: int, d: int) -> Iterator[slice]:
    """Slices that cut n rows of d numbers into blocks of a few megabytes."""
    step = max(1, _BLOCK_BYTES // (8 * max(d, 1)))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _row_hashes(X: npt.NDArray[Any], y: Ints) -> npt.NDArray[np.uint64]:
    """Two independent 64-bit hashes of each (target, inputs), shape (2, n); 0.0 and -0.0 are equal.

    With 128 bits the chance that two of 1e7 different rows meet is below 1e-24.
    """
    hashes = np.empty((2, len(X)), dtype=np.uint64)
    for rows in _blocks_of(*X.shape):
        block = np.asarray(X[rows]) + 0.0
        words = block.view(np.uint64 if block.dtype == np.float64 else np.uint32).astype(np.uint64)
        for k, multiplier in enumerate(_MULTIPLIERS):
            state = _mix(y[rows].astype(np.uint64) + np.uint64(k + 1), multiplier)
            for j in range(words.shape[1]):
                state = _mix(state ^ words[:, j], multiplier)
            hashes[k, rows] = state
    return hashes


def _mix(state: npt.NDArray[np.uint64], multiplier: int) -> npt.NDArray[np.uint64]:
    """One round of multiplication and shift; wraps around."""
    state = state * np.uint64(multiplier)
    state ^= state >> np.uint64(29)
    state *= np.uint64(0xBF58476D1CE4E5B9)
    state ^= state >> np.uint64(32)
    return state


def _first_occurrences(X: npt.NDArray[Any], y: Ints) -> Ints:
    """Numbers of the rows whose (target, inputs) did not occur before, rising."""
    first, second = _row_hashes(X, y)
    order = np.lexsort((second, first))  # stable: of equal rows the earliest comes first
    new = np.ones(len(order), dtype=bool)
    new[1:] = (first[order[1:]] != first[order[:-1]]) | (second[order[1:]] != second[order[:-1]])
    return np.sort(order[new])


def _sorted_order(X: npt.NDArray[Any], rows: Ints) -> Ints:
    """The rows sorted by their inputs, first column first; equal rows keep their order."""
    order = rows
    for j in range(X.shape[1] - 1, -1, -1):
        order = order[np.argsort(np.asarray(X[:, j])[order], kind="stable")]
    return order
