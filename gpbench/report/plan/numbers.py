"""A plan's numbers: for each block and metric a centre over splits, its spread and standard error, and the verdict.

They are made of cells (:func:`entries_of`), or of a table that was written from cells which are no longer here
(:func:`entries_of_table`): its numbers are then judged by today's rule, and nothing else of it is believed.
"""

from __future__ import annotations

import csv
import io
import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpbench.bench.plan.blocks import Block, blocks
from gpbench.data.splits import Protocol
from gpbench.errors import UsageError
from gpbench.report.groups import disturbed_words, processors_of
from gpbench.report.plan.published import find_printed, read_published
from gpbench.report.plan.verdicts import Evidence, Verdict, is_cut_short, judge
from gpbench.report.tables.summary import statistics, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.plan.run import PlanResult
    from gpbench.report.plan.published import Printed

__all__ = ["BlockNumbers", "Entry", "centre_of", "entries_of", "entries_of_table", "swept_text"]

_WIDTHS = {"sd": 1.0, "2sd": 2.0, "se": 1.0, "2se": 2.0}


@dataclass(frozen=True)
class Entry:
    """One number and what is printed for it.

    Attributes
    ----------
    centre, spread, error : float or None
        Ours; the spread as the plan asks for it, and the standard error. None where there is none.
    printed : Printed or None
    verdict : Verdict
    """

    centre: float | None
    spread: float | None
    error: float | None
    printed: Printed | None
    verdict: Verdict


@dataclass(frozen=True)
class BlockNumbers:
    """A block with its numbers.

    Attributes
    ----------
    block : Block
    expected, finished, failed : int
        Cells that the plan states (0 where that is not known), and those that ended well or not.
    cut : int or None
        Of the finished ones, those that were cut short; None where that is not recorded.
    absent : str
        Why there are no numbers at all: the data cannot be had, or nothing has been run.
    entries : mapping
        Metric -> its number.
    processors : tuple of str
        Where its finished cells ran.
    split : str
        The protocol that they ran under: the block's, but in a table of earlier runs.
    disturbed : tuple of str
        What their clocks say against their times.
    """

    block: Block
    expected: int
    finished: int
    failed: int
    cut: int | None
    absent: str
    entries: Mapping[str, Entry]
    processors: tuple[str, ...]
    split: str
    disturbed: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """What a reader must know of the cells: ``failed 1/4``, ``3 of 10 splits``, ``cut short 2/3``; else empty."""
        words = []
        if self.failed:
            words.append(f"failed {self.failed}/{self.finished + self.failed}")
        if 0 < self.finished + self.failed < self.expected:
            words.append(f"{self.finished + self.failed} of {self.expected} splits")
        if self.cut:
            words.append(f"cut short {self.cut}/{self.finished}")
        return ", ".join(words)


def entries_of(plan: Plan, cells: Sequence[PlanResult]) -> list[BlockNumbers]:
    """Every block of a plan with its numbers, in the plan's order.

    Parameters
    ----------
    plan : Plan
    cells : sequence of PlanResult

    Raises
    ------
    UsageError
        The printed numbers cannot be read.
    """
    printed = read_published(plan)
    own: dict[tuple[int, int], list[PlanResult]] = defaultdict(list)
    for cell in cells:
        own[cell.shown.position].append(cell)
    return [_of_cells(plan, block, own[block.position], printed) for block in blocks(plan)]


def _of_cells(plan: Plan, block: Block, cells: Sequence[PlanResult], printed: Sequence[Printed]) -> BlockNumbers:
    finished = [cell for cell in cells if cell.finished]
    count = cells[0].split.count if cells else Protocol.parse(block.split).parts
    return _judged(
        plan,
        block,
        printed,
        numbers={metric: _numbers(plan, [value_of(cell, metric) for cell in finished]) for metric in plan.metrics},
        expected=min(count, block.planned or count) or block.planned or 0,
        finished=len(finished),
        failed=len(cells) - len(finished),
        cut=sum(is_cut_short(cell, plan.paper_limits) for cell in finished),
        absent="" if cells else "no data" if block.dataset in plan.missing else "not run",
        processors=tuple(processors_of(finished)),
        split=block.split,
        disturbed=tuple(disturbed_words(finished)),
    )


def _judged(
    plan: Plan,
    block: Block,
    printed: Sequence[Printed],
    *,
    numbers: Mapping[str, tuple[float | None, float | None, float | None]],
    expected: int,
    finished: int,
    failed: int,
    cut: int | None,
    absent: str,
    processors: tuple[str, ...],
    split: str,
    disturbed: tuple[str, ...] = (),
    apart: str = "",
) -> BlockNumbers:
    """A block's numbers with their verdicts: the one place where they are judged."""
    if split != block.split:
        apart = f"splits {split}, the plan's are {block.split}"
    apart = apart or ("quick form" if plan.reduction.words else plan.override(block.dataset).incomparable or "")
    entries = {}
    for metric, (centre, spread, error) in numbers.items():
        one = find_printed(printed, plan, block, metric)
        ours = Evidence(
            centre=centre,
            error=error,
            finished=finished,
            failed=failed,
            expected=expected,
            cut=cut,
            in_order=Protocol.parse(block.split).kind == "contiguous",
            apart=apart,
            absent=absent,
        )
        entries[metric] = Entry(centre, spread, error, one, judge(one, ours, paper=plan.paper))
    return BlockNumbers(block, expected, finished, failed, cut, absent, entries, processors, split, disturbed)


def _numbers(plan: Plan, values: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    """Centre, spread and standard error over splits."""
    known = statistics(values)
    sd = known["sd"]
    if known["mean"] is None:
        return None, None, None
    centre = centre_of(plan, [value for value in values if value is not None])
    if sd is None:
        return centre, None, None
    error = sd / math.sqrt(len(values))
    return centre, _WIDTHS[plan.spread] * (error if plan.spread.endswith("se") else sd), error


def centre_of(plan: Plan, values: Sequence[float]) -> float:
    """Mean or median of some numbers, as the plan asks for it."""
    return median(values) if plan.centre == "median" else math.fsum(values) / len(values)


def swept_text(block: Block) -> str:
    """A block's swept values as a table's csv has them: ``inducing=5%; rate=0.1``."""
    return "; ".join(f"{name}={value}" for name, value in block.sweep.items())


def entries_of_table(plan: Plan, text: str) -> list[BlockNumbers]:
    """The numbers of a plan's ``table.csv`` judged anew; what the table says of verdicts and prints is passed over.

    Parameters
    ----------
    plan : Plan
    text : str
        The file's content, of this or an earlier form. Without the column ``cut_short`` it is not known which cells
        were cut short, and verdicts are given as if none had been.

    Raises
    ------
    UsageError
        It is no table of this plan, or holds something that is no number.
    """
    rows: dict[tuple[str, str, str], dict[str, dict[str, str]]] = defaultdict(dict)
    needed = {"dataset", "label", "swept", "split", "metric", "cells", "failed", "centre", "standard_error", "quick"}
    reader = csv.DictReader(io.StringIO(text))
    if lacking := sorted({*needed, f"spread_{plan.spread}"} - set(reader.fieldnames or ())):
        raise UsageError(f"this is no table of {plan.id}: it lacks the columns {', '.join(lacking)}")
    for row in reader:
        rows[row["dataset"], row["label"], row["swept"]][row["metric"]] = row
    printed = read_published(plan)
    return [
        _of_rows(plan, block, rows.get((block.dataset, block.label, swept_text(block)), {}), printed)
        for block in blocks(plan)
    ]


def _of_rows(
    plan: Plan, block: Block, rows: Mapping[str, Mapping[str, str]], printed: Sequence[Printed]
) -> BlockNumbers:
    first = next(iter(rows.values()), None)
    cells, failed = (0, 0) if first is None else (int(first["cells"]), int(first["failed"]))
    parts = Protocol.parse(block.split).parts
    expected = int(first["expected"]) if first is not None and first.get("expected") else block.planned or parts
    cut = 0 if first is None else int(first["cut_short"]) if first.get("cut_short") else None
    return _judged(
        plan,
        block,
        printed,
        numbers={
            metric: (_number(row, "centre"), _number(row, f"spread_{plan.spread}"), _number(row, "standard_error"))
            for metric, row in ((metric, rows.get(metric, {})) for metric in plan.metrics)
        },
        expected=expected,
        finished=cells - failed,
        failed=failed,
        cut=cut if cells else 0,
        absent="" if cells else "no data" if first is not None and "no data" in first["why"] else "not run",
        processors=() if first is None else tuple(filter(None, first["processors"].split("; "))),
        split=block.split if first is None or not cells else first["split"],
        apart="quick form" if first is not None and first["quick"] == "True" else "",
    )


def _number(row: Mapping[str, str], name: str) -> float | None:
    text = row.get(name, "")
    try:
        return float(text) if text else None
    except ValueError:
        raise UsageError(f"{name}: expected a number or nothing; got {text!r}") from None
