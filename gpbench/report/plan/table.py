"""``render = "table"``: rows and columns as a paper lays them out, printed numbers and verdicts beneath ours.

A row for each data set (and swept value) and metric, a column for each method; ``table.txt``, ``table.md`` and
``table.csv``, which has every number in full with its standard error, verdict and reason.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from gpbench.bench.plan.blocks import swept_words
from gpbench.report.files import write_atomically
from gpbench.report.plan.claim_tables import claim_words
from gpbench.report.plan.numbers import Entry, Result, entries_of
from gpbench.report.plan.words import cell_words, head_notes, verdict_notes
from gpbench.report.tables.display import NONE, Display, Line
from gpbench.report.tables.table import ENDINGS, RENDERERS
from gpbench.report.text import escape_markdown, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpbench.bench.plan.plan import Plan

__all__ = ["HEADS", "head_words", "plan_csv", "plan_display", "render", "table_words"]

#: Metric -> head of its rows.
HEADS = {
    "nll": "NLL",
    "error": "error",
    "accuracy": "accuracy",
    "brier": "Brier",
    "ece": "ECE",
    "train_seconds": "time (s)",
    "bound": "bound",
}


def render(plan: Plan, cells: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write the table as text, Markdown and csv; see :mod:`gpbench.report.plan.renderers`."""
    results = entries_of(plan, cells)
    written = []
    for form in ("text", "markdown"):
        path = folder / f"table{ENDINGS[form]}"
        write_atomically(path, table_words(plan, results, form))
        written.append(path)
    path = folder / f"table{ENDINGS['csv']}"
    write_atomically(path, plan_csv(plan, results))
    return [*written, path]


def table_words(plan: Plan, results: Sequence[Result], form: str) -> str:
    """The table in a format of tables other than csv: its head, itself, and the paper's claims that it decides.

    Raises
    ------
    UsageError
        The claims cannot be read.
    """
    pieces = [head_words(plan, form) + "\n", RENDERERS[form](plan_display(plan, results)), claim_words(plan, form)]
    return "\n".join(filter(None, pieces))


def head_words(plan: Plan, form: str) -> str:
    """The head above a table, in a format of tables: safe to print, and in LaTeX a comment as its notes are."""
    lines = head_notes(plan)
    if form == "markdown":
        return "\n".join(f"> {escape_markdown(line)}  " for line in lines)
    return "\n".join(f"% {printable(line)}" if form == "latex" else printable(line) for line in lines)


def plan_display(plan: Plan, results: Sequence[Result]) -> Display:
    """The table in the paper's layout.

    Parameters
    ----------
    plan : Plan
    results : sequence of Result
        From :func:`gpbench.report.plan.numbers.entries_of`.
    """
    columns = list(dict.fromkeys(result.block.variant for result in results))
    timed = len({cpu for result in results for cpu in result.processors}) <= 1
    lines = []
    for head, by_method in _rows(plan, results):
        name = head
        for metric in plan.metrics:
            lines += _lines(plan, name, metric, [by_method.get(column) for column in columns], timed=timed)
            name = ""
    return Display(
        word_heads=("data set", "", *columns),
        number_heads=(),
        lines=tuple(lines),
        best="",
        notes=tuple(verdict_notes(plan, results, timed=timed)),
    )


def _rows(plan: Plan, results: Sequence[Result]) -> list[tuple[str, dict[str, Result]]]:
    """The results of each data set and choice of swept values; a method that is not swept stands in every row."""
    rows = []
    for dataset in plan.datasets:
        own = [result for result in results if result.block.dataset == dataset]
        sweeps = [dict(pairs) for pairs in dict.fromkeys(tuple(result.block.sweep.items()) for result in own)]
        for sweep in sweeps:
            if not any(sweep.items() < other.items() for other in sweeps):
                words = swept_words(sweep)
                head = plan.dataset_label(dataset) + (f", {words}" if words else "")
                inside = {each.block.variant: each for each in own if each.block.sweep.items() <= sweep.items()}
                rows.append((head, inside))
    return rows


def _lines(plan: Plan, head: str, metric: str, results: Sequence[Result | None], *, timed: bool) -> list[Line]:
    """Our row, and where the paper prints anything here, its own and the verdicts'."""
    found = [None if result is None else result.entries[metric] for result in results]
    best = _best(found, results, metric)
    ours = [
        NONE if result is None else cell_words(plan, result, metric, best=place == best, timed=timed)
        for place, result in enumerate(results)
    ]
    lines = [Line((head, HEADS[metric], *ours), ())]
    if any(entry is not None and entry.printed is not None for entry in found):
        printed = [NONE if entry is None or entry.printed is None else entry.printed.text for entry in found]
        lines.append(Line(("", "  printed", *printed), ()))
        if metric != "train_seconds":
            words = [NONE if entry is None or not entry.verdict.word else entry.verdict.word for entry in found]
            lines.append(Line(("", "  verdict", *words), ()))
    return lines


def _best(found: Sequence[Entry | None], results: Sequence[Result | None], metric: str) -> int | None:
    """The column with the lowest NLL or error among those that have all splits of the first one's protocol."""
    if metric not in {"nll", "error"}:
        return None
    split = next((result.block.split for result in results if result is not None), "")
    known = [
        (entry.centre, place)
        for place, (entry, result) in enumerate(zip(found, results, strict=True))
        if entry is not None
        and entry.centre is not None
        and result is not None
        and not result.note
        and result.block.split == split
    ]
    return min(known)[1] if len(known) > 1 else None


def plan_csv(plan: Plan, results: Sequence[Result]) -> str:
    """Every number in full: a line for each block and metric."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        [
            *("dataset", "dataset_label", "method", "label", "swept", "split", "metric", "cells", "failed", "centre"),
            *(f"spread_{plan.spread}", "standard_error", "printed", "printed_spread", "verdict", "why", "processors"),
            *("quick",),
        ]
    )
    for result in results:
        block = result.block
        for metric, entry in result.entries.items():
            printed = entry.printed
            writer.writerow(
                [
                    *(block.dataset, plan.dataset_label(block.dataset), block.table.method.id, block.label),
                    *("; ".join(f"{name}={value}" for name, value in block.sweep.items()), block.split, metric),
                    *(result.finished + result.failed, result.failed, entry.centre, entry.spread, entry.error),
                    None if printed is None else "large" if printed.value is None else printed.value,
                    None if printed is None else printed.spread,
                    *(entry.verdict.word, entry.verdict.why or result.absent, "; ".join(result.processors)),
                    bool(plan.reduction.words),
                ]
            )
    return file.getvalue()
