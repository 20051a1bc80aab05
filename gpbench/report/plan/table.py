"""``render = "table"``: rows and columns as a paper lays them out, printed numbers and verdicts beneath ours.

A row for each data set (and swept value) and metric, a column for each method; ``table.txt``, ``table.md``,
``table.tex`` and ``table.csv``, which has every number in full with its standard error, verdict and reason. Where the
paper prints numbers, ``differences.csv`` beside it holds the differences between methods on the same splits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpbench.bench.plan.blocks import swept_words
from gpbench.report.files import write_atomically
from gpbench.report.groups import disturbance_words
from gpbench.report.notes import plan_notes
from gpbench.report.plan.claims import Judged, judge_claims_of
from gpbench.report.plan.claims_shown import claim_words
from gpbench.report.plan.differences import PlannedDifference, differences, differences_csv, differences_note
from gpbench.report.plan.numbers import BlockNumbers, Entry, entries_of, swept_text
from gpbench.report.plan.verdicts import NOT_COMPARABLE, RULE, tally
from gpbench.report.tables.lines import head_words, text
from gpbench.report.tables.table import ENDINGS, NONE, RENDERERS, Display, Line, write_tables
from gpbench.report.text import csv_text
from gpbench.report.traces import SPREADS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.plan.plan import Plan

__all__ = [
    "HEADS",
    "cell_words",
    "hangs_on_rows",
    "plan_csv",
    "plan_display",
    "render",
    "rounded",
    "table_words",
    "verdict_notes",
    "write_table",
]

#: Metric -> head of its rows.
HEADS = {
    "nll": "NLL",
    "error": "error",
    "accuracy": "accuracy",
    "brier": "Brier",
    "ece": "ECE",
    "overconfidence": "overconfidence",
    "auc": "AUC",
    "average_precision": "AP",
    "worst": "worst row (nats)",
    "train_seconds": "time (s)",
    "bound": "bound",
}

#: A share of a mean over splits above which a single test row is named.
ONE_ROW = 0.1


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write the table in every format, and the differences between methods where the paper prints numbers."""
    plan, results = found.plan, entries_of(found.plan, found.results)
    paired = differences(plan, results, found.results)
    written = write_table(plan, results, folder, paired=paired, claims=judge_claims_of(found))
    if paired:
        written.append(folder / "differences.csv")
        write_atomically(written[-1], differences_csv(paired))
    return written


def write_table(
    plan: Plan,
    results: Sequence[BlockNumbers],
    folder: Path,
    *,
    paired: Sequence[PlannedDifference] = (),
    claims: Sequence[Judged] = (),
) -> list[Path]:
    """Write ``table.txt``, ``table.md``, ``table.tex`` and ``table.csv``.

    Parameters
    ----------
    plan : Plan
    results : sequence of BlockNumbers
    folder : Path
    paired : sequence of PlannedDifference
        For the note beneath the table.
    claims : sequence of Judged
        That the plan decides.
    """
    written = write_tables(folder, lambda form: table_words(plan, results, form, paired=paired, claims=claims))
    written.append(folder / f"table{ENDINGS['csv']}")
    write_atomically(written[-1], plan_csv(plan, results))
    return written


def table_words(
    plan: Plan,
    results: Sequence[BlockNumbers],
    form: str,
    *,
    paired: Sequence[PlannedDifference] = (),
    claims: Sequence[Judged] = (),
    width: int | None = None,
) -> str:
    """The table in a format of tables other than csv: its head, itself, and the paper's claims that it decides.

    Text fits the width where one is given.
    """
    shown = plan_display(plan, results, paired=paired)
    pieces = [
        head_words(plan, form, width=width) + "\n",
        text(shown, width) if form == "text" else RENDERERS[form](shown),
        claim_words(claims, form, width=width),
    ]
    return "\n".join(filter(None, pieces))


def plan_display(plan: Plan, results: Sequence[BlockNumbers], *, paired: Sequence[PlannedDifference] = ()) -> Display:
    """The table in the paper's layout.

    Parameters
    ----------
    plan : Plan
    results : sequence of BlockNumbers
        From :func:`gpbench.report.plan.numbers.entries_of`.
    paired : sequence of PlannedDifference
        From :func:`gpbench.report.plan.differences.differences`.
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
        notes=tuple(verdict_notes(plan, results, timed=timed, paired=paired)),
        keys=2,
    )


def _rows(plan: Plan, results: Sequence[BlockNumbers]) -> list[tuple[str, dict[str, BlockNumbers]]]:
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


def _lines(plan: Plan, head: str, metric: str, results: Sequence[BlockNumbers | None], *, timed: bool) -> list[Line]:
    """Our row, and where the paper prints anything here, its own and the verdicts'."""
    found = [None if result is None else result.entries[metric] for result in results]
    best = _best(found, results, metric)
    ours = [
        NONE if result is None else cell_words(plan, result, metric, best=index == best, timed=timed)
        for index, result in enumerate(results)
    ]
    lines = [Line((head, HEADS.get(metric, metric), *ours), ())]
    if any(entry is not None and entry.printed is not None for entry in found):
        printed = [NONE if entry is None or entry.printed is None else entry.printed.text for entry in found]
        lines.append(Line(("", "  printed", *printed), ()))
        if metric != "train_seconds":
            words = [NONE if entry is None or not entry.verdict.word else entry.verdict.word for entry in found]
            lines.append(Line(("", "  verdict", *words), ()))
    return lines


def _best(found: Sequence[Entry | None], results: Sequence[BlockNumbers | None], metric: str) -> int | None:
    """The column with the lowest NLL or error among those that have all splits of the first one's protocol."""
    if metric not in {"nll", "error"}:
        return None
    split = next((result.block.split for result in results if result is not None), "")
    known = [
        (entry.centre, index)
        for index, (entry, result) in enumerate(zip(found, results, strict=True))
        if entry is not None
        and entry.centre is not None
        and result is not None
        and not result.note
        and result.block.split == split
    ]
    return min(known)[1] if len(known) > 1 else None


def plan_csv(plan: Plan, results: Sequence[BlockNumbers]) -> str:
    """Every number in full: a line for each block and metric."""
    rows: list[list[object]] = [
        [
            *("dataset", "dataset_label", "method", "label", "swept", "split", "metric", "cells", "failed"),
            *("expected", "cut_short", "centre"),
            *(f"spread_{plan.spread}", "standard_error", "printed", "printed_spread", "verdict", "why", "processors"),
            *("quick",),
        ]
    ]
    for result in results:
        block = result.block
        for metric, entry in result.entries.items():
            printed = entry.printed
            rows.append(
                [
                    *(block.dataset, plan.dataset_label(block.dataset), block.table.method.id, block.label),
                    *(swept_text(block), block.split, metric, result.finished + result.failed, result.failed),
                    *(result.expected or None, result.cut, entry.centre, entry.spread, entry.error),
                    None if printed is None else "large" if printed.value is None else printed.value,
                    None if printed is None else printed.spread,
                    *(entry.verdict.word, entry.verdict.why or result.absent, "; ".join(result.processors)),
                    bool(plan.reduction.words),
                ]
            )
    return csv_text(rows)


def verdict_notes(
    plan: Plan, results: Sequence[BlockNumbers], *, timed: bool, paired: Sequence[PlannedDifference] = ()
) -> list[str]:
    """Notes beneath a table: the verdicts counted, why numbers do not compare, what the spread is, times, failures."""
    notes = []
    counting = [result for result in results if result.block.table.counted]
    if counted := tally(entry.verdict for result in counting for entry in result.entries.values()):
        notes += [counted, RULE, *filter(None, [differences_note(paired)])]
    if aside := sorted({result.block.variant for result in results if not result.block.table.counted}):
        notes.append(f"Judged and not counted: {', '.join(aside)}.")
    reasons = {
        plan.dataset_label(result.block.dataset): entry.verdict.why
        for result in results
        for metric, entry in result.entries.items()
        if entry.verdict.word == NOT_COMPARABLE and entry.verdict.why != "quick form"
    }
    notes += [f"{dataset}: not comparable: {why}." for dataset, why in reasons.items()]
    if any(entry.spread is not None for result in results for entry in result.entries.values()):
        centre = "Mean" if plan.centre == "mean" else "Median"
        notes.append(f"{centre} ± {SPREADS[plan.spread]} over splits. * lowest of the row.")
    notes += one_row_notes(plan, results)
    if "train_seconds" in plan.metrics:
        cpus = sorted({cpu for result in results for cpu in result.processors})
        if not timed:
            notes.append(f"No times are shown: the cells ran on different processors ({'; '.join(cpus)}).")
        elif cpus:
            notes.append(f"Times were taken on {cpus[0]}.")
            notes += [f"{words[:1].upper()}{words[1:]}." for words in _disturbed(plan, results)]
    return notes + plan_notes(plan)


def _disturbed(plan: Plan, results: Sequence[BlockNumbers]) -> list[str]:
    """What the clocks say against the times, over all cells, and on which data sets."""
    ratios = [ratio for result in results for ratio in result.disturbances]
    sets = [each.block.dataset for each in results if any(ratio is not None for ratio in each.disturbances)]
    return disturbance_words(ratios, where=", ".join(dict.fromkeys(map(plan.dataset_label, sets))))


def hangs_on_rows(plan: Plan) -> bool:
    """Whether the table shows mean NLLs, of which a single test row may carry much."""
    return plan.centre == "mean" and "nll" in plan.metrics


def one_row_notes(plan: Plan, results: Sequence[BlockNumbers]) -> list[str]:
    """Which mean NLLs hang on a single test row, and by how much; none where medians are shown."""
    if not hangs_on_rows(plan):
        return []
    hanging = [
        f"{plan.dataset_label(each.block.dataset)}, {each.block.label} ({100 * each.one_row:.0f} %)"
        for each in results
        if each.one_row is not None and each.one_row > ONE_ROW
    ]
    words = f"One test row carries more than {100 * ONE_ROW:.0f} % of the mean NLL over splits"
    return [f"{words}: {'; '.join(hanging)}."] if hanging else []


def cell_words(plan: Plan, result: BlockNumbers, metric: str, *, best: bool, timed: bool) -> str:
    """A number as the table shows it, with what went wrong beside it."""
    if result.absent:
        return result.absent
    entry = result.entries[metric]
    if metric == "train_seconds" and not timed:
        return "–"
    if entry.centre is None:
        return result.note or "–"
    digits = _digits(metric, entry.centre)
    words = rounded(entry.centre, digits)
    if entry.spread is not None:
        words += f" ± {rounded(entry.spread, digits)}"
    if plan.centre == "median" and metric == "nll" and entry.centre > 1.0:
        words = f"large ({words})"
    return words + (" *" if best else "") + (f" ({result.note})" if result.note else "")


def rounded(value: float, digits: int) -> str:
    """A number with so many decimals."""
    return f"{value:.{digits}f}"


def _digits(metric: str, centre: float) -> int:
    if metric == "bound":
        return 1
    if metric != "train_seconds":
        return 3
    return min(max(2 - math.floor(math.log10(centre)), 0), 4) if centre > 0 else 2
