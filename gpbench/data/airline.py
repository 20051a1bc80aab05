"""Flights: eight inputs and the delay of arrival, from three tables that name their columns differently.

==============  ==========================  ==========================
input           data expo 2009, hflights    nycflights13
==============  ==========================  ==========================
month           Month                       month
day             DayofMonth                  day
weekday         DayOfWeek                   from the date
departure       DepTime                     dep_time
arrival         ArrTime                     arr_time
air time        AirTime                     air_time
distance        Distance                    distance
age             Year - year of manufacture of the aircraft, by its tail number
==============  ==========================  ==========================

Times are local, written HHMM without leading zeros (``754`` is 07:54, ``2400`` midnight); they become minutes. The year
of manufacture is unknown for many aircraft (empty, ``None``, ``0000``). Delays of cancelled and diverted flights are
missing.
Rows are made block by block, so that a year of seven million flights needs no more memory than a block.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gpbench.data.formats import Frames, one_after_another, open_bytes, read_table
from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["EXPO", "INPUTS", "TARGETS", "flights", "minutes", "years_of_manufacture"]

INPUTS = ("month", "day", "weekday", "departure", "arrival", "air_time", "distance", "age")
"""The eight inputs, in the order of the columns."""

EXPO = (
    "Year",
    "Month",
    "DayofMonth",
    "DayOfWeek",
    "DepTime",
    "CRSDepTime",
    "ArrTime",
    "CRSArrTime",
    "UniqueCarrier",
    "FlightNum",
    "TailNum",
    "ActualElapsedTime",
    "CRSElapsedTime",
    "AirTime",
    "ArrDelay",
    "DepDelay",
    "Origin",
    "Dest",
    "Distance",
    "TaxiIn",
    "TaxiOut",
    "Cancelled",
    "CancellationCode",
    "Diverted",
    "CarrierDelay",
    "WeatherDelay",
    "NASDelay",
    "SecurityDelay",
    "LateAircraftDelay",
)
"""The 29 columns of the data expo, for its files without a header."""

_EXPO_NAMES = {
    "year": "Year",
    "month": "Month",
    "day": "DayofMonth",
    "weekday": "DayOfWeek",
    "departure": "DepTime",
    "arrival": "ArrTime",
    "air_time": "AirTime",
    "distance": "Distance",
    "tail": "TailNum",
    "delay": "ArrDelay",
}
_NYC_NAMES = {
    "year": "year",
    "month": "month",
    "day": "day",
    "departure": "dep_time",
    "arrival": "arr_time",
    "air_time": "air_time",
    "distance": "distance",
    "tail": "tailnum",
    "delay": "arr_delay",
}

TARGETS: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {
    # A delay d belongs to the first class whose bound it does not exceed, else to the last.
    "punctual": (("on time", "delayed"), (0.0,)),
    "three": (("early", "on time", "late"), (-5.0 - 1e-9, 5.0)),
}
"""Targets: the classes from early to late, and the bounds between them in minutes."""


def flights(paths: Sequence[Path], planes: Path, *, target: str, months: Sequence[int] = ()) -> Frames:
    """Rows of flights: the eight inputs and ``target``, the class of the delay; missing values stay missing.

    Parameters
    ----------
    paths : sequence of Path
        Tables of flights, read in turn.
    planes : Path
        Table of aircraft with their year of manufacture.
    target : str
        One of :data:`TARGETS`.
    months : sequence of int
        The months to keep; empty for all.

    Raises
    ------
    DataError
        A column is missing or holds something else than numbers.
    """
    built = years_of_manufacture(planes)

    def one(path: Path) -> Frames:
        for block in _blocks(path):
            table = _inputs(block, built)
            table["target"] = _classes(_numbers(block, "delay"), target)
            if months:
                table = table[table["month"].isin(list(months))]
            table.attrs = block.attrs
            yield table

    return one_after_another((path.stat().st_size, lambda path=path: one(path)) for path in paths)  # type: ignore[misc] # mypy takes the default for a parameter


def _blocks(path: Path) -> Frames:
    """Blocks with the columns named as in the first column of the table above."""
    with open_bytes(path) as source:
        first = source.read(4096).partition(b"\n")[0].decode("utf-8", "replace")
    header = "tail" in first.lower()
    names = None if header or first.count(",") + 1 != len(EXPO) else EXPO
    if not header and names is None:
        raise DataError(
            f"{path.name}, line 1: expected a header or the {len(EXPO)} columns of the data expo; got {first[:80]!r}"
        )
    for block in read_table(path, format="csv", delimiter=",", header=header, names=names):
        wanted = _EXPO_NAMES if "TailNum" in block.columns else _NYC_NAMES
        missing = [name for name in wanted.values() if name not in block.columns]
        if missing:
            raise DataError(
                f"{path.name}, line 1: no column {', '.join(missing)}; it has {', '.join(map(str, block.columns))}"
            )
        table = block[list(wanted.values())].rename(columns={theirs: ours for ours, theirs in wanted.items()})
        table.attrs = block.attrs
        yield table


def _inputs(block: pd.DataFrame, built: Mapping[str, float]) -> pd.DataFrame:
    year, month, day = (_numbers(block, name) for name in ("year", "month", "day"))
    if "weekday" in block.columns:
        weekday = _numbers(block, "weekday")
    else:
        dates = pd.to_datetime({"year": year, "month": month, "day": day}, errors="coerce")
        weekday = dates.dt.day_of_week + 1.0  # Monday is 1, as in the data expo
    columns = {
        "month": month,
        "day": day,
        "weekday": weekday,
        "departure": minutes(_numbers(block, "departure")),
        "arrival": minutes(_numbers(block, "arrival")),
        "air_time": _numbers(block, "air_time"),
        "distance": _numbers(block, "distance"),
        "age": year - block["tail"].astype(object).map(built).astype(np.float64),
    }
    return pd.DataFrame(columns, index=block.index)


def minutes(times: pd.Series) -> pd.Series:
    """Minutes after midnight of times written HHMM: 754 becomes 474, 2400 becomes 1440."""
    return times // 100 * 60 + times % 100


def _classes(delay: pd.Series, target: str) -> pd.Series:
    labels, bounds = TARGETS[target]
    which = np.searchsorted(bounds, delay.to_numpy(), side="left")
    found = pd.Series(np.array(labels, dtype=object)[which], index=delay.index)
    return found.where(delay.notna(), None)


def _numbers(block: pd.DataFrame, name: str) -> pd.Series:
    try:
        return pd.to_numeric(block[name]).astype(np.float64)
    except (ValueError, TypeError) as error:
        raise DataError(f"{block.attrs.get('source', 'flights')}: column {name} must hold numbers: {error}") from error


def years_of_manufacture(path: Path) -> dict[str, float]:
    """Tail number -> year of manufacture, of the aircraft whose year is known.

    The file is ragged: aircraft of which nothing is known have a line with the tail number alone.

    Raises
    ------
    DataError
        No columns ``tailnum`` and ``year``.
    """
    with open_bytes(path) as source:
        text = source.read(1 << 28).decode("utf-8", "replace")
    lines = csv.reader(io.StringIO(text))
    header = next(lines, [])
    if not {"tailnum", "year"} <= set(header):
        raise DataError(f"{path.name}, line 1: expected columns tailnum and year; got {', '.join(header[:12])}")
    tail, year = header.index("tailnum"), header.index("year")
    known = {}
    for line in lines:
        if len(line) > max(tail, year) and line[year].strip().isdecimal() and int(line[year]) > 0:
            known[line[tail].strip()] = float(line[year])
    return known
