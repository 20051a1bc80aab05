"""Tables, for a terminal, a page, a paper or a program: first what a table says, then how it is said in each format.

What it says is a :class:`Display`: words, rounded numbers, marks and notes. A new kind of table (printed numbers and
verdicts beside ours) is another function that makes one; :data:`RENDERERS` then write it as text, Markdown and LaTeX.
The table of a summary shows mean ± standard deviation over splits and marks the best mean NLL of each data set; csv
holds every number in full. Times are left out where they come from different processors, and the table says so.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gpbench.bench.metrics import metric_problems
from gpbench.bench.metrics import metrics as third_party
from gpbench.errors import unknown_name
from gpbench.plugins import unknown
from gpbench.report.files import write_atomically
from gpbench.report.tables.latex import latex
from gpbench.report.tables.lines import text
from gpbench.report.tables.summary import Row, Statistics, processors
from gpbench.report.text import csv_text, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

__all__ = [
    "ENDINGS",
    "METRICS",
    "NONE",
    "RENDERERS",
    "SHOWN",
    "Display",
    "Line",
    "Number",
    "best_rows",
    "display",
    "table",
    "write_tables",
]

#: Format -> the ending of its files.
ENDINGS = {"text": ".txt", "csv": ".csv", "markdown": ".md", "latex": ".tex"}

#: Shown where there is no number (an en dash).
NONE = "–"

#: Metric -> head of its column.
METRICS = {
    "nll": "NLL",
    "error": "error",
    "brier": "Brier",
    "ece": "ECE",
    "auc": "AUC",
    "average_precision": "AP",
    "train_seconds": "train (s)",
}
#: The metrics that are shown unless others are asked for.
SHOWN = ("nll", "error", "train_seconds")

_MEANINGS = {
    "nll": "NLL: mean negative log predictive probability of the test targets, in nats.",
    "brier": "Brier: mean squared distance of the probabilities from the targets; two classes: of the second class.",
    "ece": "ECE: expected calibration error of the predicted class, in 15 bins of equal width.",
    "auc": "AUC: area under the ROC curve of the second class; more is better.",
    "average_precision": "AP: average precision of the second class; more is better.",
}

#: Of these, what is no time.
_SCORES: tuple[Literal["nll", "error", "brier", "ece", "auc", "average_precision"], ...] = (
    "nll", "error", "brier", "ece", "auc", "average_precision",
)  # fmt: skip

#: Rows about whose times there is a sentence each.
_MANY = 4
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
    """A row as it is printed: names and counts, then numbers; ``busy`` where clocks speak against its times."""

    words: tuple[str, ...]
    numbers: tuple[Number, ...]
    busy: bool = False


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
    keys : int or None
        How many of the word columns name the row; the others are numbers with words about them. None: all do.
    notes : tuple of str
        What a reader must know to read the numbers, one sentence each. Neither they nor the words are escaped.
    """

    word_heads: tuple[str, ...]
    number_heads: tuple[str, ...]
    lines: tuple[Line, ...]
    best: str
    notes: tuple[str, ...]
    keys: int | None = None


def display(summary: Sequence[Row], *, metrics: Sequence[str] = SHOWN) -> Display:
    """The table of a summary. There is no column of times where they come from several processors.

    Parameters
    ----------
    summary : list of dict
        From :func:`gpbench.report.tables.summary.summarise`.
    metrics : sequence of str
        Of :data:`METRICS`, in the order of the columns.
    """
    winners = best_rows(summary) if "nll" in metrics else set()
    timed = len(processors(summary)) <= 1
    shown = [name for name in metrics if timed or name != "train_seconds"]
    meanings = {**_MEANINGS, **{name: metric.meaning for name, metric in third_party().items()}}
    lines = []
    for index, row in enumerate(summary):
        numbers = [_number(row, name, best=index in winners) for name in shown]
        words = (row["dataset_label"], row["method_label"], _split(row), _count(row))
        lines.append(Line(words, tuple(numbers), busy="train_seconds" in shown and bool(row["disturbed"])))
    return Display(
        word_heads=("data set", "method", "split", "cells"),
        number_heads=tuple(METRICS.get(name, name) for name in shown),
        lines=tuple(lines),
        best=_best(summary) if winners else "",
        notes=(*(meanings[name] for name in shown if name in meanings), *_notes(summary, metrics)),
    )


def best_rows(summary: Sequence[Row]) -> set[int]:
    """Positions of the rows with the lowest mean NLL, as printed, of their data set.

    Only rows that rest on the same splits compete: one that failed on the hard splits has not won.
    """
    rivals: dict[tuple[str, str, tuple[tuple[int, int], ...]], list[tuple[float, int]]] = defaultdict(list)
    for index, row in enumerate(summary):
        mean = row["nll"]["mean"]
        if not row["failed"] and mean is not None:
            same = (row["dataset_label"], row["split"], tuple(row["splits"]))
            rivals[same].append((round(mean, 4), index))
    winners: set[int] = set()
    for numbers in rivals.values():
        if len(numbers) > 1:
            lowest = min(numbers)[0]
            winners.update(index for mean, index in numbers if mean == lowest)
    return winners


def _best(summary: Sequence[Row]) -> str:
    """What the mark of the best rows means."""
    splits: dict[str, set[tuple[tuple[int, int], ...]]] = defaultdict(set)
    for row in summary:
        splits[row["dataset_label"]].add(tuple(row["splits"]))
    apart = ", of those with the same splits" if any(len(found) > 1 for found in splits.values()) else ""
    return f"lowest mean NLL of the data set{apart}"


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
    """Three significant digits of the mean, and the standard deviation to the same decimal."""
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
    values: dict[str, Statistics] = {name: row[name] for name in _SCORES}
    values |= row.get("more", {})
    return _rounded(values[metric], 4, best=best and metric == "nll")


def _notes(summary: Sequence[Row], metrics: Sequence[str]) -> list[str]:
    notes = []
    if any(row["nll"]["sd"] is not None for row in summary):
        notes.append("Mean ± standard deviation over splits.")
    notes += _time_notes(summary) if "train_seconds" in metrics else []
    if limited := _limited(summary):
        notes.append(f"Training ended at a limit, not by convergence: {'; '.join(limited)}.")
    notes += _setting_notes(summary)
    if {"auc", "average_precision"} & set(metrics):
        notes += [
            f"{_where(row)}: neither AUC nor average precision, since the test rows of {row['one_class']} of "
            f"{row['cells'] - row['failed']} cells are of one class; fewer folds hold more rows each."
            for row in summary
            if row["one_class"]
        ]
    for row in summary:
        where = _where(row)
        notes += [f"{where}: {count} of {row['cells']} cells failed: {why}" for why, count in row["problems"].items()]
    # What was done to the data, once for each data set.
    done = {row["dataset_label"]: row["decisions"] for row in summary if row["decisions"]}
    notes += [f"{name}: {words}." for name, said in done.items() for words in said]
    return notes


def _setting_notes(summary: Sequence[Row]) -> list[str]:
    """What labels do not say: settings that all rows have alike, and those that differ beside the ones in a label."""
    values: dict[str, set[str]] = defaultdict(set)
    owners: dict[str, set[str]] = defaultdict(set)
    for row in summary:
        for name, value in row["settings"].items():
            values[name].add(value)
            owners[name].add(row["method"])
    several = len({row["method"] for row in summary if row["settings"]}) > 1
    shared = [
        f"{name}={min(known)}"
        for name, known in sorted(values.items())
        if len(known) == 1 and (len(owners[name]) > 1 or not several)
    ]
    notes = [f"The same in all rows that have it: {', '.join(shared)}."] if shared else []
    for label, details in {row["method_label"]: row["details"] for row in summary if row["details"]}.items():
        notes.append(f"{label} also has {', '.join(details)}.")
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
        notes += _clock_notes(summary)
    return notes


def _clock_notes(summary: Sequence[Row]) -> list[str]:
    """What clocks have against times: a sentence a row, but of many rows which they are."""
    spoken = [row for row in summary if row["disturbed"]]
    if len(spoken) <= _MANY:
        return [f"{_where(row)}: {words}." for row in spoken for words in row["disturbed"]]
    which = "of all rows" if len(spoken) == len(summary) else f"of {'; '.join(map(_where, spoken))}"
    words = (
        f"The clocks speak against the times {which}: wall and processor seconds differ by more than a fifth, so that "
        "the machine was busy or waited for its disk, or more threads ran than were asked for."
    )
    return [words]


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


def _limited(summary: Sequence[Row]) -> list[str]:
    """Rows that a limit ended, and how often: each of a few, but of many those together that say the same."""
    spoken = [(row, words) for row in summary if (words := _limits(row))]
    if len(spoken) <= _MANY:
        return [f"{_where(row)} ({words})" for row, words in spoken]
    found = []
    for words in dict.fromkeys(words for _, words in spoken):
        same = [row for row, each in spoken if each == words]
        if len(same) == len(summary):
            return [f"all rows ({words})"]
        counts = Counter(row["method_label"] for row in same)
        whole = [name for name, count in counts.items() if count == sum(row["method_label"] == name for row in summary)]
        names = [f"all rows of {', '.join(whole)}"] if whole else []
        names += [_where(row) for row in same if row["method_label"] not in whole]
        found.append(f"{'; '.join(names)} ({words})")
    return found


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


def table(
    summary: Sequence[Row],
    *,
    format: str = "text",  # noqa: A002  # named as on the command line
    metrics: Sequence[str] = SHOWN,
    width: int | None = None,
) -> str:
    """A summary as a table, ending in a newline.

    Parameters
    ----------
    summary : list of dict
        From :func:`gpbench.report.tables.summary.summarise`; the rows keep their order.
    format : str
        One of :data:`ENDINGS`.
    metrics : sequence of str
        Columns of numbers, of :data:`gpbench.report.tables.table.METRICS`; csv has them all.
    width : int, optional
        Of the terminal, for text: the table then fits it as well as can be.

    Raises
    ------
    UsageError
        An unknown format or metric.
    """
    for name in metrics:
        if name not in METRICS and name not in third_party():
            raise unknown("metric", name, [*METRICS, *third_party()], problems=metric_problems())
    if format not in ENDINGS:
        raise unknown_name("table format", format, ENDINGS)
    if format == "text":
        return text(display(summary, metrics=metrics), width)
    return _csv(summary) if format == "csv" else RENDERERS[format](display(summary, metrics=metrics))


def _markdown(shown: Display) -> str:
    written = [
        "| " + " | ".join((*map(escape_markdown, shown.word_heads), *shown.number_heads)) + " |",
        "|" + "---|" * len(shown.word_heads) + "---:|" * len(shown.number_heads),
    ]
    for line in shown.lines:
        cells = [escape_markdown(word) for word in line.words]
        for number in line.numbers:
            mean = f"**{number.mean}**" if number.best else number.mean
            cells.append(mean if number.sd is None else f"{mean} ± {number.sd}")
        written.append("| " + " | ".join(cells) + " |")
    best = [f"- Bold: {shown.best}."] if shown.best else []
    return "\n".join([*written, "", *best, *(f"- {escape_markdown(note)}" for note in shown.notes)]) + "\n"


def _csv(summary: Sequence[Row]) -> str:
    timed = len(processors(summary)) <= 1
    rows: list[list[object]] = [
        [
            *("dataset", "dataset_label", "method", "method_label", "split", "seeds", "cells", "failed", "stopped_by"),
            *(f"{name}_{part}" for name in _SCORES for part in ("mean", "sd")),
            *("train_seconds_mean", "train_seconds_sd"),
            *("processors", "threads", "jobs"),
        ]
    ]
    for row in summary:
        seconds: Statistics = row["train_seconds"] if timed else {"mean": None, "sd": None}
        stopped_by = "; ".join(f"{reason} {count}" for reason, count in row["stopped_by"].items())
        statistics = (*(row[name] for name in _SCORES), seconds)
        rows.append(
            [
                *(row["dataset"], row["dataset_label"], row["method"], row["method_label"], row["split"]),
                *(" ".join(map(str, row["seeds"])), row["cells"], row["failed"], stopped_by),
                *(number for values in statistics for number in (values["mean"], values["sd"])),
                *("; ".join(row["processors"]), "; ".join(map(str, row["threads"])), row["jobs"]),
            ]
        )
    return csv_text(rows)


#: Format -> how a display is written in it. Tables of every kind share these.
RENDERERS: dict[str, Callable[[Display], str]] = {"text": text, "markdown": _markdown, "latex": latex}


def write_tables(folder: Path, words: Callable[[str], str]) -> list[Path]:
    """Write ``table.txt``, ``table.md`` and ``table.tex``.

    Parameters
    ----------
    folder : Path
    words : callable
        From a format to the whole text of its file.

    Raises
    ------
    StoreError
        One cannot be written.
    """
    written = []
    for form in ("text", "markdown", "latex"):
        written.append(folder / f"table{ENDINGS[form]}")
        write_atomically(written[-1], words(form))
    return written
