"""The numbers of a plan: centre, spread and standard error of each block and metric, printed numbers and verdicts."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from gpbench.bench.plan.blocks import Block, blocks
from gpbench.report.groups import OK
from gpbench.report.plan.published import find_printed, read_published
from gpbench.report.plan.verdicts import Verdict, judge
from gpbench.report.tables.summary import statistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.plan import Plan
    from gpbench.report.plan.published import Printed

__all__ = ["Entry", "Result", "entries_of"]

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
class Result:
    """A block with its numbers.

    Attributes
    ----------
    block : Block
    expected, finished, failed : int
        Cells that the block has (0 where that is not known), and those that ended well or not.
    absent : str
        Why there are no numbers at all: the data cannot be had, or nothing has been run.
    entries : mapping
        Metric -> its number.
    processors : tuple of str
        Where its finished cells ran.
    """

    block: Block
    expected: int
    finished: int
    failed: int
    absent: str
    entries: Mapping[str, Entry]
    processors: tuple[str, ...]

    @property
    def note(self) -> str:
        """What a reader must know of the number of cells: ``failed 1/10``, ``3 of 10 splits``; else empty."""
        words = []
        if self.failed:
            words.append(f"failed {self.failed}/{self.finished + self.failed}")
        if 0 < self.finished + self.failed < self.expected:
            words.append(f"{self.finished + self.failed} of {self.expected} splits")
        return ", ".join(words)


def entries_of(plan: Plan, cells: Sequence[Mapping[str, Any]]) -> list[Result]:
    """Every block of a plan with its numbers, in the plan's order.

    Parameters
    ----------
    plan : Plan
    cells : sequence of dict
        Stored results as renderers get them.

    Raises
    ------
    UsageError
        The printed numbers cannot be read.
    """
    printed = read_published(plan)
    own: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
    for cell in cells:
        row, column = cell["shown"]["place"]
        own[row, column].append(cell)
    return [_result(plan, block, own[block.position], printed) for block in blocks(plan)]


def _result(plan: Plan, block: Block, cells: Sequence[Mapping[str, Any]], printed: Sequence[Printed]) -> Result:
    finished = [cell for cell in cells if cell["status"] == OK]
    failed = len(cells) - len(finished)
    count = cells[0]["split"]["count"] if cells else 0
    absent = "" if cells else "no data" if block.dataset in plan.missing else "not run"
    incomparable = (
        ("quick form" if plan.reduction.words else "")
        or (plan.override(block.dataset).incomparable or "")
        or absent
        or (f"failed {failed}/{len(cells)}" if failed else "")
    )
    entries = {}
    for metric in plan.metrics:
        centre, spread, error = _numbers(plan, [_value(cell, metric) for cell in finished])
        one = find_printed(printed, plan, block, metric)
        verdict = judge(one, centre=centre, error=error, paper=plan.paper, incomparable=incomparable)
        entries[metric] = Entry(centre, spread, error, one, verdict)
    return Result(
        block=block,
        expected=min(count, block.splits or count),
        finished=len(finished),
        failed=failed,
        absent=absent,
        entries=entries,
        processors=tuple(sorted({str(cell["provenance"].get("cpu", "unknown")) for cell in finished})),
    )


def _value(cell: Mapping[str, Any], metric: str) -> float | None:
    metrics = cell["metrics"]
    if metric == "accuracy":
        return None if metrics["error"] is None else 1.0 - metrics["error"]
    found: float | None = metrics.get(metric)
    return found


def _numbers(plan: Plan, values: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    known = statistics(values)
    mean, sd = known["mean"], known["sd"]
    if mean is None:
        return None, None, None
    centre = mean if plan.centre == "mean" else median(value for value in values if value is not None)
    if sd is None:
        return centre, None, None
    error = sd / math.sqrt(len(values))
    return centre, _WIDTHS[plan.spread] * (error if plan.spread.endswith("se") else sd), error
