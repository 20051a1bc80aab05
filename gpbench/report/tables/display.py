"""What a table says, before it is said in text, Markdown or LaTeX: words, rounded numbers, marks and notes.

A new kind of table (medians, printed numbers and verdicts beside ours) is another function that makes a
:class:`Display`; the renderers of :mod:`gpbench.report.tables.table` then write it in every format.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpbench.report.tables.summary import Row, Statistics, processors

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["METRICS", "NONE", "SHOWN", "Display", "Line", "Number", "display"]

#: Shown where there is no number (an en dash).
NONE = "–"

#: Metric -> head of its column.
METRICS = {"nll": "NLL", "error": "error", "brier": "Brier", "ece": "ECE", "train_seconds": "train (s)"}
#: The metrics that are shown unless others are asked for.
SHOWN = ("nll", "error", "train_seconds")

_MEANINGS = {
    "nll": "NLL: mean negative log predictive probability of the test targets, in nats.",
    "brier": "Brier: mean squared distance of the probabilities from the targets; two classes: of the second class.",
    "ece": "ECE: expected calibration error of the predicted class, in 15 bins of equal width.",
}

#: What ends training short of convergence.
_LIMITS = ("iterations", "seconds")


@dataclass(frozen=True)
class Number:
    """A mean and its standard deviation as they are printed; ``best`` among its data set's."""

    mean: str
    sd: str | None = None
    best: bool = False


@dataclass(frozen=True)
class Line:
    """A row as it is printed: names and counts, then numbers."""

    words: tuple[str, ...]
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class Display:
    """A table as it is printed.

    Attributes
    ----------
    word_heads, number_heads : tuple of str
        Heads of the columns.
    lines : tuple of Line
    best : str
        What the mark means; empty where no number bears it.
    notes : tuple of str
        What a reader must know to read the numbers, one sentence each. Neither they nor the words are escaped.
    """

    word_heads: tuple[str, ...]
    number_heads: tuple[str, ...]
    lines: tuple[Line, ...]
    best: str
    notes: tuple[str, ...]


def display(summary: Sequence[Row], *, metrics: Sequence[str] = SHOWN) -> Display:
    """The table of a summary. There is no column of times where they come from several processors.

    Parameters
    ----------
    summary : list of dict
        From :func:`gpbench.report.tables.summary.summarise`.
    metrics : sequence of str
        Of :data:`METRICS`, in the order of the columns.
    """
    winners = _best(summary) if "nll" in metrics else set()
    timed = len(processors(summary)) <= 1
    shown = [name for name in metrics if timed or name != "train_seconds"]
    lines = []
    for place, row in enumerate(summary):
        numbers = [_number(row, name, best=place in winners) for name in shown]
        lines.append(Line((row["dataset_label"], row["method_label"], _split(row), _count(row)), tuple(numbers)))
    return Display(
        word_heads=("data set", "method", "split", "cells"),
        number_heads=tuple(METRICS[name] for name in shown),
        lines=tuple(lines),
        best="lowest mean NLL of the data set" if winners else "",
        notes=(*(_MEANINGS[name] for name in shown if name in _MEANINGS), *_notes(summary, metrics)),
    )


def _best(summary: Sequence[Row]) -> set[int]:
    """Positions of the rows with the lowest mean NLL, as printed, of their data set.

    Only rows that rest on the same splits compete: one that failed on the hard splits has not won.
    """
    rivals: dict[tuple[str, str, tuple[int, ...], int], list[tuple[float, int]]] = defaultdict(list)
    for place, row in enumerate(summary):
        mean = row["nll"]["mean"]
        if not row["failed"] and mean is not None:
            same = (row["dataset_label"], row["split"], tuple(row["seeds"]), row["cells"])
            rivals[same].append((round(mean, 4), place))
    winners: set[int] = set()
    for numbers in rivals.values():
        if len(numbers) > 1:
            lowest = min(numbers)[0]
            winners.update(place for mean, place in numbers if mean == lowest)
    return winners


def _split(row: Row) -> str:
    seeds = row["seeds"]
    if seeds == [0]:
        return row["split"]
    return f"{row['split']} seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _count(row: Row) -> str:
    """Number of cells, or ``failed k/n``; a kind of failure is named where it is not a plain one."""
    if not row["failed"]:
        return str(row["cells"])
    kinds = [f"{status} {count}" for status, count in row["outcomes"].items() if status not in {"ok", "failed"}]
    return f"failed {row['failed']}/{row['cells']}" + (f" ({', '.join(kinds)})" if kinds else "")


def _seconds(values: Statistics) -> Number:
    """Three significant digits of the mean, and the standard deviation to the same place."""
    mean = values["mean"]
    decimals = 2 - math.floor(math.log10(mean)) if mean else 2
    return _rounded(values, min(max(decimals, 0), 6))


def _rounded(values: Statistics, decimals: int, *, best: bool = False) -> Number:
    mean, sd = values["mean"], values["sd"]
    if mean is None:
        return Number(NONE)
    return Number(f"{mean:.{decimals}f}", None if sd is None else f"{sd:.{decimals}f}", best)


def _number(row: Row, metric: str, *, best: bool) -> Number:
    if metric == "train_seconds":
        return _seconds(row["train_seconds"])
    values: dict[str, Statistics] = {name: row[name] for name in ("nll", "error", "brier", "ece")}
    return _rounded(values[metric], 4, best=best and metric == "nll")


def _notes(summary: Sequence[Row], metrics: Sequence[str]) -> list[str]:
    notes = []
    if any(row["nll"]["sd"] is not None for row in summary):
        notes.append("Mean ± standard deviation over splits.")
    notes += _time_notes(summary) if "train_seconds" in metrics else []
    if limited := [f"{_where(row)} ({words})" for row in summary if (words := _limits(row))]:
        notes.append(f"Training ended at a limit, not by convergence: {'; '.join(limited)}.")
    for row in summary:
        where = _where(row)
        notes += [f"{where}: {count} of {row['cells']} cells failed: {why}" for why, count in row["problems"].items()]
    return notes


def _time_notes(summary: Sequence[Row]) -> list[str]:
    notes = []
    names = processors(summary)
    if len(names) > 1:
        notes.append(f"No times are shown: the cells ran on different processors ({'; '.join(names)}).")
    elif names:
        notes.append(f"Times were taken on {names[0]}.")
        jobs = max(row["jobs"] for row in summary)
        if jobs > 1:
            notes.append(f"Up to {jobs} cells ran at once and may have disturbed one another's times.")
        notes += _thread_notes(summary)
    return notes


def _thread_notes(summary: Sequence[Row]) -> list[str]:
    """Which times are missing, or do not compare, because cells ran with different numbers of threads."""
    notes = [
        f"{_where(row)}: no time is shown, since its cells ran with {_either(row['threads'])} threads."
        for row in summary
        if len(row["threads"]) > 1
    ]
    shown = sorted({row["threads"][0] for row in summary if len(row["threads"]) == 1})
    if len(shown) > 1:
        notes.append(f"Times do not compare between all rows: their cells ran with {_either(shown)} threads.")
        for number in shown[1:]:
            rows = [_where(row) for row in summary if row["threads"] == [number]]
            notes.append(f"With {number} threads: {'; '.join(rows)}.")
    return notes


def _limits(row: Row) -> str:
    """``"seconds 3/10"``: how many of the finished cells a limit ended, and which."""
    finished = sum(row["stopped_by"].values())
    return ", ".join(
        f"{limit} {row['stopped_by'][limit]}/{finished}" for limit in _LIMITS if limit in row["stopped_by"]
    )


def _where(row: Row) -> str:
    return f"{row['method_label']} on {row['dataset_label']}, {_split(row)}"


def _either(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))
