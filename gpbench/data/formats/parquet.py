"""Parquet files, one batch of rows at a time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpbench.data.formats.frames import Frames, frame, unique_names
from gpbench.data.formats.source import open_seekable, reading
from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["read_parquet"]

_BATCH_VALUES = 1 << 21
_EXACT = 2**53
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def read_parquet(path: str | Path, *, member: str | None = None, needed: Collection[str] | None = None) -> Frames:
    """Rows of a parquet file: numbers and booleans as they are, text and categories as text, and so dates, durations.

    ``needed`` are the names of the columns that count, where not all do: others need not differ, and are empty where
    their type is none of these.

    A block's ``attrs["index"]`` names the columns that pandas' metadata, or else their names, say are an index of rows.

    Raises
    ------
    DataError
        Damaged, empty, or columns of other types (lists, structs).
    """
    with open_seekable(path, member=member) as (file, name), reading(f"{name}, row 1"):
        total = Path(path).stat().st_size
        table = pq.ParquetFile(file)
        rows = int(table.metadata.num_rows)
        schema = table.schema_arrow
        names = unique_names(list(schema.names), source=name, needed=needed)
        if not rows or not names:
            raise DataError(f"{name}, row 1: expected rows; got {rows} rows of {len(names)} columns")
        index = _index(schema, names)
        declared = frozenset(name for j, name in enumerate(names) if pa.types.is_dictionary(schema.field(j).type))
        done = 0
        for batch in table.iter_batches(batch_size=max(1, _BATCH_VALUES // len(names)), use_threads=False):
            columns = {}
            for j, key in enumerate(names):
                found = _column(batch.column(j))
                if found is None and (needed is None or key in needed):
                    raise DataError(
                        f"{name}, row {done + 1}: column {key!r} must hold numbers, booleans or text; "
                        f"it holds {batch.column(j).type}"
                    )
                columns[key] = np.full(batch.num_rows, np.nan) if found is None else found
            made = frame(
                pd.DataFrame(columns, copy=False),
                numbers=range(done + 1, done + batch.num_rows + 1),
                source=name,
                unit="row",
                read=total * (done + batch.num_rows) // rows,
                total=total,
            )
            made.attrs["index"] = index
            made.attrs["inexact"] = _inexact(batch, names)
            made.attrs["declared"] = declared
            yield made
            done += batch.num_rows


def _inexact(batch: Any, names: list[str]) -> dict[str, int]:
    """Columns of integers beyond 2^53, each with the first row of the batch that holds one."""
    found = {}
    for j, name in enumerate(names):
        column = batch.column(j)
        if pa.types.is_int64(column.type) or pa.types.is_uint64(column.type):
            ends = pc.min_max(column).as_py()
            if ends["max"] is not None and (ends["max"] > _EXACT or ends["min"] < -_EXACT):
                values = column.to_pylist()
                found[name] = next(row for row, value in enumerate(values) if abs(value or 0) > _EXACT)
    return found


def _index(schema: Any, names: list[str]) -> tuple[str, ...]:
    """Columns that hold pandas' index; ``__index_level_0__`` is one even where the metadata are gone."""
    found = {name for name in names if re.fullmatch(r"__index_level_\d+__", name)}
    try:
        said = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        listed = said.get("index_columns", []) if isinstance(said, dict) else []
    except (ValueError, RecursionError):
        listed = []
    found |= {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    return tuple(name for name in names if name in found)


def _column(array: Any) -> Any:
    """A column as pandas has it; None where it holds neither numbers nor booleans nor text."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = array.cast(kind.value_type)
        kind = array.type
    if pa.types.is_null(kind):
        return pd.Series([float("nan")] * len(array), dtype="float64")
    if pa.types.is_boolean(kind):
        return array.to_pandas() if array.null_count else array.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind) and not array.null_count:
        return array.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        # Integers beyond 2^53 lose digits here; beside missing values there is no other way.
        return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if pa.types.is_duration(kind):
        return _durations(array)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_temporal(kind):
        return array.cast(pa.string()).to_pandas()
    return None


def _durations(array: Any) -> pd.Series:
    """Durations as pandas writes them, ``2 days 03:04:05.5``: their integers mean nothing without the unit."""
    found = array.dictionary_encode()
    ticks = _TICKS[array.type.unit]
    words = []
    for value in found.dictionary.cast(pa.int64()).to_pylist():
        seconds, rest = divmod(value, ticks)
        days, seconds = divmod(seconds, 86_400)
        fraction = f"{rest / ticks:.9f}".rstrip("0")[1:] if rest else ""
        words.append(f"{days} days {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}")
    made: pd.Series = pa.array(words, pa.string()).take(found.indices).to_pandas()
    return made
