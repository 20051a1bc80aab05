"""A plan's numbers: for each block and metric a centre over splits, its spread and standard error, and the verdict.

They are made of cells, and judged by :mod:`gpbench.report.plan.verdicts`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpbench.bench.plan.blocks import Block, blocks
from gpbench.data.splits import Protocol
from gpbench.report.groups import is_cut_short, processors_of
from gpbench.report.plan.published import find_printed, read_published
from gpbench.report.plan.verdicts import FAILED, NOT_COMPARABLE, NOT_RUN, Evidence, Verdict, judge
from gpbench.report.tables.summary import middle, over_splits, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.cells import PlanResult
    from gpbench.bench.plan.plan import Plan
    from gpbench.report.plan.published import Printed

__all__ = ["BlockNumbers", "Entry", "centre_of", "entries_of", "swept_text"]


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

    @property
    def beside(self) -> float | None:
        """The printed value where ours may be set beside it: of the same data, with every fold that it takes."""
        if self.printed is None or self.verdict.word in {NOT_COMPARABLE, NOT_RUN, FAILED}:
            return None
        return self.printed.value


@dataclass(frozen=True)
class BlockNumbers:
    """A block with its numbers.

    Attributes
    ----------
    block : Block
    expected, finished, failed : int
        Cells that the plan states (0 where that is not known), and those that ended well or not.
    cut : int
        Of the finished ones, those that were cut short.
    absent : str
        Why there are no numbers at all: the data cannot be had, or nothing has been run.
    entries : mapping
        Metric -> its number.
    processors : tuple of str
        Where its finished cells ran.
    disturbances : tuple
        What the clock of each finished cell says against its time: a ratio or None.
    one_row : float or None
        The largest share of the mean NLL over splits that one test row carries; None where that is not known.
    """

    block: Block
    expected: int
    finished: int
    failed: int
    cut: int
    absent: str
    entries: Mapping[str, Entry]
    processors: tuple[str, ...]
    disturbances: tuple[float | None, ...] = ()
    one_row: float | None = None

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
    failed = len(cells) - len(finished)
    count = cells[0].split.count if cells else Protocol.parse(block.split).parts
    expected = min(count, block.planned or count) or block.planned or 0
    cut = sum(is_cut_short(cell, plan.paper_limits) for cell in finished)
    absent = "" if cells else "no data" if block.dataset in plan.missing else "not run"
    entries = {}
    for metric in plan.metrics:
        values = [value_of(cell, metric) for cell in finished]
        centre, spread, error = over_splits(values, centre=plan.centre, spread=plan.spread)
        one = find_printed(printed, plan, block, metric)
        ours = Evidence(
            centre=centre,
            error=error,
            finished=len(finished),
            failed=failed,
            expected=expected,
            cut=cut,
            in_order=Protocol.parse(block.split).kind == "contiguous",
            apart="quick form" if plan.reduction.words else plan.override(block.dataset).incomparable or "",
            absent=absent,
        )
        entries[metric] = Entry(centre, spread, error, one, judge(one, ours, paper=plan.paper))
    return BlockNumbers(
        block=block,
        expected=expected,
        finished=len(finished),
        failed=failed,
        cut=cut,
        absent=absent,
        entries=entries,
        processors=tuple(processors_of(finished)),
        disturbances=tuple(cell.disturbance for cell in finished),
        one_row=_one_row(finished),
    )


def _one_row(cells: Sequence[PlanResult]) -> float | None:
    """The largest share of a single test row in the mean NLL over the cells' splits."""
    pairs = [(value_of(cell, "nll"), value_of(cell, "worst_share")) for cell in cells]
    known = [(nll, share) for nll, share in pairs if nll is not None and share is not None]
    whole = math.fsum(nll for nll, _ in known)
    if len(known) < len(pairs) or not whole > 0:
        return None
    return max(nll * share for nll, share in known) / whole


def centre_of(plan: Plan, values: Sequence[float]) -> float:
    """Mean or median of some numbers, as the plan asks for it."""
    return middle(values, plan.centre)


def swept_text(block: Block) -> str:
    """A block's swept values as a table's csv has them: ``inducing=5%; rate=0.1``."""
    return "; ".join(f"{name}={value}" for name, value in block.sweep.items())
