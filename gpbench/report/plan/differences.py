"""The stronger test beside a table: differences between methods on the same splits, ours against the printed ones.

Splits are hard or easy for all methods alike, so that the difference of two methods varies far less over them than
either number does. For each pair of methods that the paper prints, d_i is the metric of the first less that of the
second on split i; its mean (or median, as the plan has it) and interval (:func:`paired_interval`) are set against the
difference of the two printed numbers, which is known to half a unit of either one's last digit.

======  =============================================================================================================
sign    ``same`` or ``opposite`` where both differences are told from 0, ours by its interval and the printed one by its
        rounding; else ``open``
size    ``within`` where the printed difference, give or take its rounding, meets our interval; else ``outside``
======  =============================================================================================================
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from gpbench.report.compare.significance import correction, paired_interval
from gpbench.report.plan.numbers import BlockNumbers, centre_of, swept_text
from gpbench.report.plan.verdicts import DECIDED, UNDECIDED
from gpbench.report.tables.summary import value_of
from gpbench.report.text import csv_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.plan.cells import PlanResult
    from gpbench.bench.plan.plan import Plan
    from gpbench.report.plan.numbers import Entry

__all__ = ["PlannedDifference", "differences", "differences_csv", "differences_note"]

_SIGNS = ("same", "opposite", "open")


@dataclass(frozen=True, kw_only=True)
class PlannedDifference:
    """First less second, on the splits that both finished.

    Attributes
    ----------
    dataset, swept : str
        Label of the data set, and the swept values that both share.
    metric, first, second : str
    splits : int
    ours, low, high : float
        Centre and interval.
    printed, rounding : float
        The printed difference, and by how much it may be off.
    """

    dataset: str
    swept: str
    metric: str
    first: str
    second: str
    splits: int
    ours: float
    low: float
    high: float
    printed: float
    rounding: float

    @property
    def sign(self) -> str:
        """``same``, ``opposite`` or ``open``."""
        is_told = (self.low > 0.0 or self.high < 0.0) and abs(self.printed) > self.rounding * (1.0 + 1e-9)
        return "open" if not is_told else "same" if (self.ours > 0.0) == (self.printed > 0.0) else "opposite"

    @property
    def size(self) -> str:
        """``within`` or ``outside``."""
        room = self.rounding * (1.0 + 1e-9)
        return "within" if self.low - room <= self.printed <= self.high + room else "outside"


def differences(plan: Plan, results: Sequence[BlockNumbers], cells: Sequence[PlanResult]) -> list[PlannedDifference]:
    """Each pair of counted methods that are printed for the same data set and swept values, and that may be compared.

    Parameters
    ----------
    plan : Plan
    results : sequence of BlockNumbers
        Of :func:`gpbench.report.plan.numbers.entries_of`, from these cells.
    cells : sequence of PlanResult
    """
    own: dict[tuple[int, int], list[PlanResult]] = {}
    for cell in cells:
        if cell.finished:
            own.setdefault(cell.shown.position, []).append(cell)
    found = []
    for one, other in combinations([each for each in results if each.block.table.counted], 2):
        if one.block.dataset == other.block.dataset and _meet(one, other):
            for metric, entry in one.entries.items():
                if _is_judged(entry) and _is_judged(rival := other.entries[metric]):
                    pairs = _pairs(own.get(one.block.position, []), own.get(other.block.position, []), metric)
                    if made := _difference(plan, one, other, metric=metric, entries=(entry, rival), pairs=pairs):
                        found.append(made)
    return found


def _meet(one: BlockNumbers, other: BlockNumbers) -> bool:
    """Whether two blocks stand in one row of the table: their swept values agree where both have them."""
    shared = one.block.sweep.keys() & other.block.sweep.keys()
    return one.block.split == other.block.split and all(
        one.block.sweep[name] == other.block.sweep[name] for name in shared
    )


def _is_judged(entry: Entry) -> bool:
    return entry.verdict.word in {*DECIDED, UNDECIDED} and entry.printed is not None and entry.printed.value is not None


def _pairs(first: Sequence[PlanResult], second: Sequence[PlanResult], metric: str) -> list[tuple[PlanResult, float]]:
    """The first's cells that meet one of the second's, and the differences."""
    rivals = {cell.unit: cell for cell in second}
    found = []
    for cell in first:
        rival = rivals.get(cell.unit)
        values = None if rival is None else (value_of(cell, metric), value_of(rival, metric))
        if values is not None and values[0] is not None and values[1] is not None:
            found.append((cell, values[0] - values[1]))
    return found


def _difference(
    plan: Plan,
    one: BlockNumbers,
    other: BlockNumbers,
    *,
    metric: str,
    entries: tuple[Entry, Entry],
    pairs: Sequence[tuple[PlanResult, float]],
) -> PlannedDifference | None:
    d = [value for _, value in pairs]
    low, high, _ = paired_interval(d, rho=correction(one.block.split, [cell for cell, _ in pairs]) or 0.0)
    printed = [entry.printed for entry in entries]
    if low is None or high is None or printed[0] is None or printed[1] is None:
        return None
    shared = one if set(one.block.sweep) <= set(other.block.sweep) else other
    return PlannedDifference(
        dataset=plan.dataset_label(one.block.dataset),
        swept=swept_text(shared.block),
        metric=metric,
        first=one.block.label,
        second=other.block.label,
        splits=len(d),
        ours=centre_of(plan, d),
        low=low,
        high=high,
        printed=float(printed[0].value or 0.0) - float(printed[1].value or 0.0),
        rounding=0.5 * (printed[0].unit + printed[1].unit),
    )


def differences_note(found: Sequence[PlannedDifference]) -> str:
    """The test in a sentence; empty where there are no differences."""
    if not found:
        return ""
    signs = Counter(each.sign for each in found)
    within = sum(each.size == "within" for each in found)
    return (
        f"Differences between methods on the same splits, {len(found)} pairs: sign "
        + ", ".join(f"{word} {signs[word]}" for word in _SIGNS)
        + f"; the printed difference lies within our 95 % interval in {within}."
    )


def differences_csv(found: Sequence[PlannedDifference]) -> str:
    """Every difference in full."""
    heads = ("dataset", "swept", "metric", "first", "second", "splits", "ours", "low", "high", "printed", "rounding")
    rows: list[list[object]] = [[*heads, "sign", "size"]]
    rows += [[*(getattr(each, name) for name in heads), each.sign, each.size] for each in found]
    return csv_text(rows)
