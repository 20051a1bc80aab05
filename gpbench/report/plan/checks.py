"""What a claim's measure is given and gives: a plan's cells in groups, and checks whose words carry their numbers.

A measure is a function ``measure(found, **options) -> list of Check``; ``found`` is a plan with its cells, the options
stand in the claim's file. Methods are named by their tables of [methods].
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gpbench.bench.plan.blocks import blocks, swept_words
from gpbench.errors import UsageError, unknown_name
from gpbench.report.compare.significance import correction, paired_interval
from gpbench.report.groups import processors_of
from gpbench.report.scores import MORE_IS_BETTER
from gpbench.report.tables.summary import value_of
from gpbench.report.traces import Trace, trace_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpbench.bench.plan.blocks import Block
    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.bench.plan.plan import Plan

__all__ = [
    "At",
    "Check",
    "Group",
    "blocks_of",
    "difference",
    "each_group",
    "loss_trace",
    "missing",
    "mixed_times",
    "paired",
    "shared_splits",
    "shown",
    "told",
    "unusable",
]

At = dict[str, Any]
"""Values of a sweep, by name."""


@dataclass(frozen=True)
class Check:
    """One thing that a claim says, and whether it is so.

    Attributes
    ----------
    words : str
        With the numbers.
    holds : bool or None
        None where the numbers do not decide, or there are none.
    cells : tuple of PlanResult
        That it rests on.
    measured : bool
        False where there are no numbers.
    """

    words: str
    holds: bool | None
    cells: tuple[PlanResult, ...] = field(default=(), repr=False)
    measured: bool = True


@dataclass(frozen=True)
class Group:
    """The finished cells of some methods on one data set, with the same swept values.

    Attributes
    ----------
    label : str
        Data set and swept values; without the data set where the plan has but one.
    sweep : mapping
        Swept name -> value.
    cells : mapping
        Table of [methods] -> its cells, in the order of splits.
    """

    label: str
    sweep: Mapping[str, Any]
    cells: Mapping[str, tuple[PlanResult, ...]]

    def all(self) -> tuple[PlanResult, ...]:
        """Every cell."""
        return tuple(cell for own in self.cells.values() for cell in own)

    def label_of(self, metric: str) -> str:
        """The label, and which metric where that is not the NLL."""
        return self.label if metric == "nll" else f"{self.label}, {metric}"


@lru_cache(maxsize=64)
def blocks_of(plan: Plan) -> tuple[Block, ...]:
    """The blocks of a plan, made once: a claim's measures ask for them many times over."""
    return tuple(blocks(plan))


def each_group(
    found: PlanCells,
    names: Sequence[str],
    *,
    datasets: Sequence[str] | None = None,
    at: Mapping[str, Any] | None = None,
) -> Iterator[Group]:
    """The groups of some methods, data set by data set; those that the plan does not run together are passed over.

    Parameters
    ----------
    found : PlanCells
    names : sequence of str
        Tables of [methods].
    datasets : sequence of str, optional
        As they stand in the plan; all by default.
    at : mapping, optional
        Swept name -> the only value that counts.

    Raises
    ------
    UsageError
        A name that the plan does not know.
    """
    plan = found.plan
    for kind, given, known in (
        ("table of [methods]", names, [each.name for each in plan.methods]),
        ("data set of the plan", datasets or (), plan.datasets),
        ("swept name", at or (), plan.sweep),
    ):
        for name in given:
            if name not in known:
                raise UsageError(f"{plan.id}: {unknown_name(kind, name, known)}")
    own: dict[tuple[int, int], list[PlanResult]] = defaultdict(list)
    for cell in found.results:
        if cell.finished:
            own[cell.shown.position].append(cell)
    everything = blocks_of(plan)
    for dataset in plan.datasets:
        if datasets is not None and dataset not in datasets:
            continue
        here = [block for block in everything if block.dataset == dataset and block.table.name in names]
        if {block.table.name for block in here} != set(names):
            continue
        for sweep in _sweeps(here, at or {}):
            members = [block for block in here if block.sweep.items() <= sweep.items()]
            words = [plan.dataset_label(dataset)] if len(plan.datasets) > 1 else []
            yield Group(
                ", ".join([*words, *([swept_words(sweep)] if sweep else [])]) or plan.dataset_label(dataset),
                sweep,
                {block.table.name: tuple(own.get(block.position, ())) for block in members},
            )


def _sweeps(here: Sequence[Block], at: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The choices of swept values, each once; that of a method which is swept over fewer is part of others'."""
    known = [dict(pairs) for pairs in dict.fromkeys(tuple(block.sweep.items()) for block in here)]
    full = [each for each in known if not any(each.items() < other.items() for other in known)]
    return [each for each in full if at.items() <= each.items()]


def missing(group: Group) -> Check | None:
    """The check that says which methods have no cells in a group; None where all have."""
    lacking = [name for name, cells in group.cells.items() if not cells]
    return Check(f"{group.label}: {' '.join(lacking)} not run", None, measured=False) if lacking else None


def unusable(group: Group, splits: Sequence[object]) -> Check | None:
    """The check that says that some methods have no cells, or none on one split."""
    return missing(group) or (
        None if splits else Check(f"{group.label}: no split in common", None, group.all(), measured=False)
    )


def told(group: Group, words: str, *numbers: float, holds: bool | None) -> Check:
    """What the numbers of a group say: nothing where a method has no cells in it, or one of the numbers is none."""
    known = not any(map(math.isnan, numbers))
    decided = None if holds is None or not known else bool(holds)
    return missing(group) or Check(words, decided, group.all(), measured=known)


def mixed_times(label: str, cells: Sequence[PlanResult]) -> Check | None:
    """The check that says that times were taken on different processors, by which nothing is decided."""
    mixed = len(processors_of(cells)) > 1
    return Check(f"{label}: times of different processors", None, tuple(cells)) if mixed else None


def shared_splits(*cells: Sequence[PlanResult]) -> list[tuple[PlanResult, ...]]:
    """The cells of several methods on each split that all of them finished."""
    units = [{cell.unit: cell for cell in own} for own in cells]
    common = set(units[0]).intersection(*units[1:])
    return [tuple(own[unit] for own in units) for unit in sorted(common)]


def paired(
    first: Sequence[PlanResult], second: Sequence[PlanResult], metric: str
) -> tuple[list[PlanResult], np.ndarray[Any, np.dtype[np.float64]]]:
    """The first's cells on the splits that both finished, and the numbers of both (n, 2), where both are finite."""
    kept, rows = [], []
    for one, other in shared_splits(first, second):
        values = value_of(one, metric), value_of(other, metric)
        if values[0] is not None and values[1] is not None:
            kept.append(one)
            rows.append(values)
    return kept, np.array(rows, dtype=np.float64).reshape(len(rows), 2)


def loss_trace(cell: PlanResult, metric: str) -> Trace:
    """A cell's curve with the sign that makes less the better."""
    trace = trace_of(cell, metric)
    return Trace(trace.seconds, -trace.values) if metric in MORE_IS_BETTER else trace


def shown(value: float | None) -> str:
    """A number in a claim's words: three significant digits; a dash for none."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def difference(group: Group, first: str, second: str, metric: str) -> tuple[float | None, float | None, float, str]:
    """Interval and mean of first less second, as losses, and both means in words."""
    cells, values = paired(group.cells[first], group.cells[second], metric)
    if not cells:
        return None, None, math.nan, f"{group.label}: no split in common"
    sign = -1.0 if metric in MORE_IS_BETTER else 1.0
    d = sign * (values[:, 0] - values[:, 1])
    low, high, _ = paired_interval(d, rho=correction(cells[0].split.protocol, cells) or 0.0)
    a, b = values.mean(axis=0)
    return low, high, float(d.mean()), f"{group.label}: {first} {shown(a)}, {second} {shown(b)}"
