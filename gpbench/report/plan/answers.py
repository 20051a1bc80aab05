"""Measures of findings: what gpbench's own plans ask; see :mod:`gpbench.report.plan.checks`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError
from gpbench.report.compare.attainment import attained
from gpbench.report.compare.significance import correction, unpaired_interval
from gpbench.report.plan.checks import (
    Check,
    difference,
    each_group,
    missing,
    mixed_times,
    shared_splits,
    shown,
    told,
    unusable,
)
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.verdicts import AGREES, DECIDED, LOWER, Evidence, judge
from gpbench.report.tables.summary import value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.report.plan.checks import At, Group
    from gpbench.report.plan.numbers import Entry

    Array = npt.NDArray[np.float64]

__all__ = [
    "above",
    "as_printed",
    "below",
    "below_calibrated",
    "comes_to_its_end",
    "nearer_printed",
    "nearer_printed_on",
    "passes_printed",
    "spans_printed",
]


def comes_to_its_end(
    found: PlanCells,
    *,
    first: str,
    second: str,
    quantity: str = "iterations",
    at_least: float = 0.0,
    at_most: float = math.inf,
    factor: float = 1.02,
    datasets: Sequence[str] | None = None,
) -> list[Check]:
    """What the second takes to ``factor`` of its own end is ``at_least`` to ``at_most`` times what the first takes.

    ``quantity`` is iterations or seconds; the median of the ratios over common splits decides.
    """
    if quantity not in {"iterations", "seconds"}:
        raise UsageError(f"quantity must be iterations or seconds; got {quantity!r}")
    column = 0 if quantity == "iterations" else 1
    checks = []
    for group in each_group(found, (first, second), datasets=datasets):
        splits = shared_splits(group.cells[first], group.cells[second])
        if gap := unusable(group, splits):
            checks.append(gap)
            continue
        if quantity == "seconds" and (gap := mixed_times(group.label, group.all())):
            checks.append(gap)
            continue
        taken = np.array([[attained(cell, factor=factor)[column] for cell in cells] for cells in splits])
        one, other = (float(np.median(taken[:, k])) for k in (0, 1))
        ratio = float(np.median(taken[:, 1] / taken[:, 0])) if np.isfinite(taken[:, 0]).all() else math.nan
        unit = " s" if quantity == "seconds" else " iterations"
        words = (
            f"{group.label}: {first} {shown(one)}{unit}, {second} {shown(other)}{unit}, {shown(ratio)} times by splits"
        )
        holds = at_least <= ratio <= at_most if math.isfinite(ratio) else None
        checks.append(Check(words, holds, group.all()))
    return checks


def as_printed(
    found: PlanCells,
    *,
    methods: Sequence[str],
    metric: str = "nll",
    datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:
    """The numbers of some tables of [methods] agree with the printed ones, by the rule of verdicts."""
    checks = []
    for where, _, entry, cells in _printed(found, methods, metric=metric, datasets=datasets, at=at):
        if not cells or entry.centre is None or entry.printed is None:
            checks.append(Check(f"{where}: not run", None, measured=False))
            continue
        word = entry.verdict.word
        words = f"{where}: {shown(entry.centre)}, printed {entry.printed.text}, {word}"
        checks.append(Check(words, word == AGREES if word in DECIDED else None, cells))
    return checks


def nearer_printed(
    found: PlanCells,
    *,
    pairs: Sequence[tuple[str, str]],
    metric: str = "nll",
    datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:
    """Of two tables of [methods] the first's number lies nearer to the printed one, where the two are told apart.

    The interval of their difference tells them apart: of the paired differences, or of means where they have other
    splits. Where nothing is printed for both, or ``large``, there is no check; nothing is decided where both lie within
    the tolerance of the printed number, or one of them is of other data, or of a part of folds in file order.
    """
    entries = {each.block.position: each.entries.get(metric) for each in entries_of(found.plan, found.results)}
    checks = []
    for first, second in pairs:
        for group in each_group(found, (first, second), datasets=datasets, at=at):
            if gap := missing(group):
                checks.append(gap)
                continue
            one, other = (entries[group.cells[name][0].shown.position] for name in (first, second))
            if one is None or other is None or one.printed is None or one.printed.value is None:
                continue
            nearer = _nearer(one, other)
            holds = nearer if nearer is not None and _told_apart(group, first, second, metric) else None
            words = f"{group.label_of(metric)}: {first} {shown(one.centre)}, {second} {shown(other.centre)}"
            checks.append(Check(f"{words}, printed {one.printed.text}", holds, group.all()))
    return checks


def nearer_printed_on(
    found: PlanCells,
    *,
    datasets: tuple[str, str],
    methods: Sequence[str],
    metric: str = "nll",
    at: At | None = None,
) -> list[Check]:
    """A number that is printed for one of two data sets, which one is open, lies nearer to ours on the first of them.

    Asked where the interval of the difference of the two means tells them apart, and not both lie within the tolerance
    of the printed number.
    """
    sides = [
        {each.label: each for each in _printed(found, methods, metric=metric, datasets=[dataset], at=at)}
        for dataset in datasets
    ]
    names = [found.plan.dataset_label(dataset) for dataset in datasets]
    checks = []
    for label, first in sides[0].items():
        second = sides[1].get(label)
        if second is None or first.entry.printed is None or first.entry.printed.value is None:
            continue
        one, other = first.entry, second.entry
        if one.centre is None or other.centre is None:
            checks.append(Check(f"{label}: not run", None, measured=False))
            continue
        holds = _nearer(one, other) if _means_apart([first.cells, second.cells], metric) else None
        words = f"{label}: {names[0]} {shown(one.centre)}, {names[1]} {shown(other.centre)}"
        checks.append(Check(f"{words}, printed {first.entry.printed.text}", holds, (*first.cells, *second.cells)))
    return checks


def _nearer(one: Entry, other: Entry) -> bool | None:
    """Whether the first number lies nearer to what is printed for it; None where that says nothing.

    That is where one is missing or not comparable, and where both are as near as a number can be asked to be.
    """
    if one.centre is None or other.centre is None or one.beside is None or other.beside is None:
        return None
    if one.verdict.within and other.verdict.within and one.printed == other.printed:
        return None
    return abs(one.centre - one.beside) < abs(other.centre - one.beside)


def _told_apart(group: Group, first: str, second: str, metric: str) -> bool:
    """Whether the interval of the difference between two methods' means leaves 0 out."""
    if not shared_splits(group.cells[first], group.cells[second]):
        return _means_apart([group.cells[first], group.cells[second]], metric)
    return _leaves_out_0(*difference(group, first, second, metric)[:2])


def _means_apart(pair: Sequence[Sequence[PlanResult]], metric: str) -> bool:
    """The same of cells that have no splits in common, or whose splits are not to be paired."""
    known = [[number for cell in cells if (number := value_of(cell, metric)) is not None] for cells in pair]
    rho = max(correction(cells[0].split.protocol, cells) or 0.0 for cells in pair)
    return _leaves_out_0(*unpaired_interval(*known, rho=rho))


def _leaves_out_0(low: float | None, high: float | None) -> bool:
    """Whether there is an interval, and 0 is not in it."""
    return low is not None and high is not None and (low > 0.0 or high < 0.0)


def passes_printed(found: PlanCells, *, methods: Sequence[str], datasets: Sequence[str] | None = None) -> list[Check]:
    """On its way to a lower NLL a method passes the printed NLL, and there its error agrees with the printed one.

    The way is the mean over splits, from where every split has been looked at, straight over log iterations between
    looks; a split that has ended keeps its last numbers. Asked where a verdict is ``lower`` and our NLL is below the
    printed one; a method that is below it from its first look on does not pass it.
    """
    errors = {
        where: entry for where, _, entry, _ in _printed(found, methods, metric="error", datasets=datasets, at=None)
    }
    checks = []
    for where, _, nll, cells in _printed(found, methods, metric="nll", datasets=datasets, at=None):
        error = errors.get(where)
        if not cells:
            checks.append(Check(f"{where}: not run", None, measured=False))
            continue
        if error is None or LOWER not in {nll.verdict.word, error.verdict.word}:
            continue
        printed, theirs = nll.printed, error.printed
        value = None if printed is None else printed.value
        if theirs is None or value is None or nll.centre is None or nll.centre >= value:
            continue
        words = f"{where}: printed {shown(value)} at error {theirs.text}"
        passed = _passed(cells, value)
        if passed is None:
            checks.append(Check(f"{words}, ours does not pass it", False, cells))
            continue
        iteration, there = passed
        spread = float(np.std(there, ddof=1)) / math.sqrt(len(there)) if len(there) > 1 else None
        ours = Evidence(centre=float(np.mean(there)), error=spread, finished=len(there))
        word = judge(theirs, ours, paper=found.plan.paper).word
        words += f", ours passes it at error {shown(ours.centre)} ± {shown(spread)} by iteration {iteration:,}"
        checks.append(Check(words, word == AGREES if word in DECIDED else None, cells))
    return checks


def _passed(cells: Sequence[PlanResult], nll: float) -> tuple[int, Array] | None:
    """Where the mean curve over splits first falls to an NLL: the iteration, and the error of each split (n,)."""
    curves = [{name: np.asarray(cell.trace[name]) for name in ("iteration", "nll", "error")} for cell in cells]
    looks = np.unique(np.concatenate([curve["iteration"] for curve in curves]))
    looks = looks[looks >= max(curve["iteration"][0] for curve in curves)]

    def along(name: str) -> Array:
        return np.array([np.interp(np.log(looks), np.log(each["iteration"]), each[name]) for each in curves])

    mean, errors = along("nll").mean(axis=0), along("error")
    below = np.flatnonzero(mean <= nll)
    if not below.size or below[0] == 0:
        return None
    k = below[0]
    part = (mean[k - 1] - nll) / (mean[k - 1] - mean[k])
    iteration = math.ceil(math.exp((1.0 - part) * math.log(looks[k - 1]) + part * math.log(looks[k])))
    return iteration, (1.0 - part) * errors[:, k - 1] + part * errors[:, k]


def below_calibrated(found: PlanCells, *, methods: Sequence[str], datasets: Sequence[str] | None = None) -> list[Check]:
    """A printed NLL of two classes is lower than a calibrated predictor's with the printed error can be; ours is not.

    A calibrated predictor that gives the likelier class probability 1 - p errs with probability p and has expected NLL
    h(p) >= 2 p log 2; over all rows NLL >= 2 log 2 times error. (Without calibration it is log 2 times error.)
    """
    errors = {
        where: entry for where, _, entry, _ in _printed(found, methods, metric="error", datasets=datasets, at=None)
    }
    checks = []
    for where, _, nll, cells in _printed(found, methods, metric="nll", datasets=datasets, at=None):
        error = errors.get(where)
        if error is None or error.printed is None or nll.printed is None:
            continue
        numbers = (nll.printed.value, error.printed.value, nll.centre, error.centre)
        known = [number for number in numbers if number is not None]
        if not cells or len(known) < len(numbers):
            checks.append(Check(f"{where}: not run", None, measured=False))
            continue
        pairs = [(known[0], known[1]), (known[2], known[3])]
        theirs, ours = (f"{shown(one)} at error {shown(other)}, least {shown(_least(other))}" for one, other in pairs)
        holds = [one < _least(other) for one, other in pairs] == [True, False]
        checks.append(Check(f"{where}: printed {theirs}; ours {ours}", holds, cells))
    return checks


def _least(error: float) -> float:
    """Least expected NLL (nats) of a calibrated predictor for two classes."""
    return 2.0 * math.log(2.0) * error


def spans_printed(
    found: PlanCells,
    *,
    methods: Sequence[str],
    metric: str = "nll",
    datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:
    """Each printed number lies between the lowest and the highest of the splits."""
    checks = []
    for where, _, entry, cells in _printed(found, methods, metric=metric, datasets=datasets, at=at):
        known = [number for cell in cells if (number := value_of(cell, metric)) is not None]
        if not known or entry.printed is None or entry.printed.value is None:
            checks.append(Check(f"{where}: not run", None, measured=False))
            continue
        words = f"{where}: {shown(min(known))} to {shown(max(known))}, printed {entry.printed.text}"
        holds = min(known) <= entry.printed.value <= max(known) if len(known) > 1 else None
        checks.append(Check(words, holds, cells))
    return checks


class _Told(NamedTuple):
    """A number for which something is printed: where, the same without the data set, the number, and its cells."""

    where: str
    label: str
    entry: Entry
    cells: tuple[PlanResult, ...]


def _printed(
    found: PlanCells, names: Sequence[str], *, metric: str, datasets: Sequence[str] | None, at: At | None
) -> list[_Told]:
    """The numbers of some methods for which something is printed."""
    cells: dict[tuple[int, int], list[PlanResult]] = {}
    for name in names:
        for group in each_group(found, (name,), datasets=datasets, at=at):
            for cell in group.all():
                cells.setdefault(cell.shown.position, []).append(cell)
    printed = []
    for each in entries_of(found.plan, found.results):
        block, entry = each.block, each.entries.get(metric)
        chosen = block.table.name in names and (datasets is None or block.dataset in datasets)
        if chosen and (at or {}).items() <= dict(block.sweep).items() and entry is not None and entry.printed:
            words = [found.plan.dataset_label(block.dataset)] if len(found.plan.datasets) > 1 else []
            printed.append(
                _Told(", ".join([*words, block.label]), block.label, entry, tuple(cells.get(block.position, ())))
            )
    return printed


def above(
    found: PlanCells, *, method: str, metric: str, value: float, datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:  # fmt: skip
    """The median over splits of a method's metric is above a value."""
    return [
        check if check.holds is None else replace(check, holds=not check.holds)
        for check in below(found, method=method, metric=metric, value=value, datasets=datasets, at=at)
    ]


def below(
    found: PlanCells, *, method: str, metric: str, value: float, datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:  # fmt: skip
    """The median over splits of a method's metric is at most a value."""
    checks = []
    for group in each_group(found, (method,), datasets=datasets, at=at):
        known = [number for cell in group.cells[method] if (number := value_of(cell, metric)) is not None]
        middle = float(np.median(known)) if known else math.nan
        words = f"{group.label}: {method} {metric} {shown(middle)}"
        checks.append(told(group, words, middle, holds=middle <= value))
    return checks
