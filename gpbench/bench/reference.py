"""Results as data: cells as one tidy table, and the reference results that come with gpbench.

``results/reference/PAPER/ITEM.parquet`` holds a row for each cell of a plan, sorted by key: what the cell is, how it
ended, its metrics, and its trace, thinned to :data:`POINTS` points of float32. Columns bear the names that a stored
cell gives them; what is a table there is JSON here (settings, limits, origin, problem, provenance), but for the split,
the metrics and the trace, which are columns of their own. Posteriors and predictions are not kept. Arrays that the
plan's picture needs beyond cells stand beside it in ``ITEM.npz`` (see :mod:`gpbench.bench.derived.stored`).
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbench.bench.cell import CONTENT, canonical
from gpbench.bench.result import COLUMNS, Result
from gpbench.config import shipped
from gpbench.errors import StoreError, UsageError, reason
from gpbench.leases import remove_unfinished, replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

__all__ = [
    "POINTS",
    "arrow_of",
    "is_of_changes",
    "merged",
    "read_reference",
    "reference_file",
    "reference_files",
    "stands_in",
    "tidy",
    "write_reference",
]

#: The most points of a trace.
POINTS = 100

#: What is a table in a stored cell, and JSON in a column.
_AS_JSON = ("settings", "limits", "origin", "problem", "provenance")
_SPLIT = ("protocol", "index", "count", "seed")
#: Parts of the provenance that differ from cell to cell; the rest is the same text for many, which parquet keeps once.
_OWN = ("start", "end", "calibration")
#: Columns of whole numbers, and of text; what is neither, nor of a trace, is a metric.
_WHOLE = ("format", "version", "seed", "split_index", "split_count", "split_seed")
_TEXTS = (
    "key", "status", "dataset", "checksum", "method", "likelihood", "scaling", "source", "changes", "stopped_by",
    "clock", "arrays_sha256", "split_protocol", "place", *_AS_JSON, *_OWN,
)  # fmt: skip
#: Parts of a description in which a cell may differ from a later one that takes its place.
_REPLACED = (*CONTENT, "version", "source", "origin.version", "origin.source")


def reference_file(plan: str) -> Path:
    """Where the reference results of a plan stand, ``PAPER/ITEM``, or would stand."""
    return shipped("reference") / f"{plan}.parquet"


def reference_files() -> list[Path]:
    """All files of reference results."""
    return sorted(shipped("reference").rglob("*.parquet"))


def tidy(results: Iterable[Result], *, traces: bool = True) -> pd.DataFrame:
    """Cells as a table, one row each, sorted by key.

    Parameters
    ----------
    results : iterable of Result
    traces : bool
        With their traces: a list in each of five columns.

    Returns
    -------
    DataFrame
        As the module says.
    """
    import pandas as pd  # noqa: PLC0415  # heavy, and only this needs it

    rows = sorted((_row(result, traces=traces) for result in results), key=lambda row: row["key"])
    return pd.DataFrame(rows, columns=_names(rows))


def arrow_of(results: Iterable[Result], *, traces: bool = True) -> pa.Table:
    """The same as an Arrow table, whose columns are of one type each."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    rows = sorted((_row(result, traces=traces) for result in results), key=lambda row: row["key"])
    columns = {}
    for name in _names(rows):
        columns[name] = pa.array([row.get(name) for row in rows], type=_type(name))
    return pa.table(columns)


def write_reference(path: Path, results: Iterable[Result]) -> None:
    """Write cells as a file of reference results.

    Raises
    ------
    UsageError
        A cell was made by code that is not committed.
    StoreError
        The file cannot be written.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415  # as above

    cells = list(results)
    if dirty := [cell for cell in cells if is_of_changes(cell)]:
        raise UsageError(
            f"{len(dirty)} of {len(cells)} cells were made by a checkout with changes ({dirty[0].label}); "
            "reference results are of committed code: commit, and run them again"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(path.parent)
        with replacing(path) as partial:
            pq.write_table(arrow_of(cells), partial, compression="zstd")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {reason(error)}") from error


def stands_in(cell: Result, own: Mapping[str, Result]) -> bool:
    """Whether a reference result is shown for its key: the store lacks it, or has not finished it as this one has.

    Parameters
    ----------
    cell : Result
        Of the reference.
    own : mapping
        Key -> what the store has.
    """
    mine = own.get(cell.key)
    return mine is None or (cell.finished and not mine.finished)


def is_of_changes(cell: Result) -> bool:
    """Whether a cell was made by code that is not committed."""
    return cell.changes is not None or cell.provenance.get("dirty") is True


def read_reference(path: Path) -> list[Result]:
    """The cells of a file of reference results; none where there is no such file.

    Raises
    ------
    StoreError
        It cannot be read, or is none.
    """
    try:
        about = path.stat()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{path} cannot be read as reference results: {error}") from error
    return list(_cells(path, about.st_ino, about.st_mtime_ns, about.st_size))


@lru_cache(maxsize=128)
def _cells(path: Path, *_: int) -> tuple[Result, ...]:
    """The cells of a file that is known by more than its name: who makes all pages reads each file once."""
    import pyarrow as pa  # noqa: PLC0415  # as above
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{path} cannot be read as reference results: {error}") from error
    try:
        return tuple(_result(row) for row in rows)
    except (StoreError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path} holds something that is no cell: {error}") from error


def merged(old: Iterable[Result], new: Iterable[Result]) -> list[Result]:
    """Earlier cells with later ones, which take the place of those that differ in versions and content alone."""
    added = {cell.key: cell for cell in new}
    replaced = {cell.identity().but_for(*_REPLACED) for cell in added.values()}
    kept = [cell for cell in old if cell.key not in added and cell.identity().but_for(*_REPLACED) not in replaced]
    return sorted([*kept, *added.values()], key=lambda cell: cell.key)


def _row(result: Result, *, traces: bool) -> dict[str, Any]:
    content = result.to_json()
    del content["digest"]  # of the whole trace
    split, metrics, trace = (content.pop(name) for name in ("split", "metrics", "trace"))
    provenance = dict(content["provenance"])
    own = {name: provenance.pop(name) for name in _OWN if name in provenance}
    content["provenance"] = provenance
    for name in _AS_JSON:
        content[name] = None if content.get(name) is None else canonical(content[name])
    row = {**content, **{f"split_{name}": split[name] for name in _SPLIT}}
    row |= {name: value if isinstance(value, str) else canonical(value) for name, value in own.items()}
    clash = row.keys() & metrics.keys()
    assert not clash, f"metrics are called as other columns: {clash}"
    row |= {name: None if value is None else float(value) for name, value in metrics.items()}
    if traces:
        kept = _points(len(trace["seconds"]))
        row |= {f"trace_{name}": [trace[name][index] for index in kept] for name in COLUMNS}
    return row


def _points(number: int) -> Sequence[int]:
    """Which points of a trace are kept: all, or evenly some of them, the first and the last among them."""
    if number <= POINTS:
        return range(number)
    return [int(index) for index in np.unique(np.linspace(0, number - 1, POINTS).round())]


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every column's name: in the order of the first row that has it; without rows, what every cell has."""
    return list(dict.fromkeys(name for row in rows for name in row)) or [*_WHOLE, *_TEXTS]


def _type(name: str) -> pa.DataType:
    """A column's type by its name alone, so that files of many plans can be read as one table."""
    import pyarrow as pa  # noqa: PLC0415  # as above

    if name.startswith("trace_"):
        return pa.list_(pa.float32())
    return pa.int64() if name in _WHOLE else pa.string() if name in _TEXTS else pa.float64()


def _result(row: Mapping[str, Any]) -> Result:
    content = {name: value for name, value in row.items() if value is not None or name in {"stopped_by", "problem"}}
    for name in _AS_JSON:
        if isinstance(content.get(name), str):
            content[name] = json.loads(content[name])
    content["split"] = {name: content.pop(f"split_{name}") for name in _SPLIT}
    content["trace"] = {name: content.pop(f"trace_{name}") for name in COLUMNS}
    own = {name: content.pop(name) for name in _OWN if name in content}
    content["provenance"] |= {
        name: json.loads(value) if name == "calibration" else value for name, value in own.items()
    }
    described = {"format", "key", "status", "arrays_sha256", *Result.__dataclass_fields__}
    content["metrics"] = {name: row[name] for name in row if _is_metric(name, described)}
    return Result.from_json({name: value for name, value in content.items() if name in described})


def _is_metric(name: str, described: set[str]) -> bool:
    return name not in described and name not in _OWN and not name.startswith(("split_", "trace_"))
