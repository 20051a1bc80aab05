"""``render = "attainment"``: how many iterations and seconds each method takes to within 2 % of its own end.

Where a curve ends and when it arrives is said in :mod:`gpbench.report.compare.attainment`; the goal here is a method's
own end on the same split, so that what is compared is how fast a scheme comes to what it will come to. The ratios are
to the method that stands first in the plan's [methods], paired over the splits that both finished.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from gpbench.errors import UsageError
from gpbench.report.compare.attainment import FACTOR, attained
from gpbench.report.files import write_atomically
from gpbench.report.groups import processors_of
from gpbench.report.notes import plan_notes
from gpbench.report.plan.checks import blocks_of
from gpbench.report.plan.claims import judge_claims_of
from gpbench.report.plan.claims_shown import claim_words
from gpbench.report.tables.lines import head_words
from gpbench.report.tables.table import ENDINGS, NONE, RENDERERS, Display, Line, write_tables
from gpbench.report.text import csv_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpbench.bench.plan.blocks import Block
    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.bench.plan.plan import Plan

__all__ = ["Attained", "attainments", "displays", "render"]


@dataclass(frozen=True)
class Attained:
    """How soon a method comes to its own end on a data set.

    Attributes
    ----------
    dataset, method : str
        Labels.
    splits, failed : int
        Cells that ended well or not.
    iterations, seconds, end : float or None
        Medians over splits of the first two, the mean of the NLL at the end; None where no cell ended well, and no
        seconds where the data set's cells ran on several processors.
    fewer, sooner : float or None
        Median over common splits of its iterations and seconds over those of the plan's first method; None where
        there are none, since that has not run there.
    """

    dataset: str
    method: str
    splits: int
    failed: int
    iterations: float | None
    seconds: float | None
    end: float | None
    fewer: float | None
    sooner: float | None


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write ``table.txt``, ``table.md``, ``table.tex`` and ``table.csv``; see :mod:`gpbench.report.plan.renderers`."""
    plan = found.plan
    rows = attainments(plan, found.results)
    shown, claims = _display(plan, rows), judge_claims_of(found)

    def words(form: str) -> str:
        pieces = [head_words(plan, form) + "\n", RENDERERS[form](shown), claim_words(claims, form)]
        return "\n".join(filter(None, pieces))

    written = write_tables(folder, words)
    written.append(folder / f"table{ENDINGS['csv']}")
    heads = list(Attained.__dataclass_fields__)
    write_atomically(written[-1], csv_text([heads, *(vars(row).values() for row in rows)]))
    return written


def displays(found: PlanCells) -> list[Display]:
    """The table.

    Raises
    ------
    UsageError
        As :func:`attainments`.
    """
    return [_display(found.plan, attainments(found.plan, found.results))]


def attainments(plan: Plan, cells: Sequence[PlanResult]) -> list[Attained]:
    """A row for each data set and method of which there are cells, in the plan's order.

    Raises
    ------
    UsageError
        [figure] factor is no number above 1.
    """
    factor = plan.figure.get("factor", FACTOR)
    if not isinstance(factor, int | float) or factor <= 1.0:
        raise UsageError(f"{plan.path}: [figure]: factor must be a number above 1; got {factor!r}")
    own: dict[tuple[int, int], list[PlanResult]] = {}
    for cell in sorted(cells, key=lambda cell: cell.shown.position):
        own.setdefault(cell.shown.position, []).append(cell)
    known = {
        position: {cell.unit: attained(cell, factor=float(factor)) for cell in several if cell.finished}
        for position, several in own.items()
    }
    first = {block.position[0]: block.position for block in reversed(_firsts(plan))}
    ran: dict[int, list[PlanResult]] = defaultdict(list)
    for cell in cells:
        if cell.finished:
            ran[cell.shown.position[0]].append(cell)
    rows = []
    for position, several in own.items():
        here = known[position]
        timed = len(processors_of(ran[position[0]])) == 1
        rival = known.get(first.get(position[0], (-1, -1)), {})
        common = [(one, rival[key]) for key, one in here.items() if key in rival]
        # one that never comes is infinitely slower, and the median stands that; where the first never comes, how much
        # faster another is cannot be said, and that split is of no account
        ratios = [[_ratio(one[k], other[k]) for one, other in common] for k in (0, 1)]
        rows.append(
            Attained(
                dataset=several[0].shown.dataset,
                method=several[0].shown.method,
                splits=len(here),
                failed=len(several) - len(here),
                iterations=_middle([one[0] for one in here.values()]),
                seconds=_middle([one[1] for one in here.values()]) if timed else None,
                end=fmean(one[2] for one in here.values()) if here else None,
                fewer=_middle(ratios[0]),
                sooner=_middle(ratios[1]) if timed else None,
            )
        )
    return rows


def _firsts(plan: Plan) -> list[Block]:
    """The blocks of the plan's first method, data set by data set."""
    return [block for block in blocks_of(plan) if block.table == plan.methods[0]]


def _ratio(one: float, other: float) -> float:
    return one / other if math.isfinite(other) and other > 0.0 else math.nan


def _middle(values: Sequence[float]) -> float | None:
    """The median of what is known; None of nothing."""
    known = [value for value in values if not math.isnan(value)]
    return median(known) if known else None


def _display(plan: Plan, rows: Sequence[Attained]) -> Display:
    first = next((block.label for block in _firsts(plan)), "")
    lines = []
    for index, row in enumerate(rows):
        same = index > 0 and rows[index - 1].dataset == row.dataset
        count = str(row.splits) + (f", failed {row.failed}" if row.failed else "")
        numbers = (
            *(_words(value, 0) for value in (row.iterations,)),
            *(_words(value, None) for value in (row.seconds, row.fewer, row.sooner)),
            NONE if row.end is None else f"{row.end:.3f}",
        )
        lines.append(Line(("" if same else row.dataset, row.method, count, *numbers), ()))
    untimed = any(row.iterations is not None and row.seconds is None for row in rows)
    mixed = ["No seconds are shown of data sets whose cells ran on several processors."] if untimed else []
    ratios = [f"Ratios: to {first}, medians over common splits. Iterations and seconds: medians; NLL at the end: mean."]
    return Display(
        word_heads=("data set", "method", "splits", "iterations", "seconds", "iterations ×", "seconds ×", "NLL at end"),
        number_heads=(),
        lines=tuple(lines),
        best="",
        notes=(*(ratios if rows else ["No cells."]), *mixed, *plan_notes(plan)),
        keys=3,
    )


def _words(value: float | None, digits: int | None) -> str:
    if value is None:
        return NONE
    if not math.isfinite(value):
        return "not reached"
    return f"{value:,.{digits}f}" if digits is not None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
