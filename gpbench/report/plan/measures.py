"""The measures that decide the papers' claims, from numbers and curves of cells; see :mod:`gpbench.report.plan.checks`.

Less is better for every metric but those of :data:`gpbench.report.scores.MORE_IS_BETTER`, whose sign is turned. Medians
and means are over the splits that all methods of a comparison finished; intervals are paired
(:func:`gpbench.report.compare.significance.paired_interval`); curves end and arrive as in
:mod:`gpbench.report.compare.attainment`.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gpbench.report.compare.attainment import arrival, end_of, median_time
from gpbench.report.plan.checks import (
    Check,
    difference,
    each_group,
    loss_trace,
    missing,
    mixed_times,
    paired,
    shared_splits,
    shown,
    told,
    unusable,
)
from gpbench.report.plan.published import unit_of
from gpbench.report.scores import MORE_IS_BETTER
from gpbench.report.tables.summary import value_of
from gpbench.report.traces import common_grid, hold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.report.plan.checks import At

__all__ = [
    "at_or_below",
    "beats_in_time",
    "best",
    "costs",
    "equivalent",
    "falls_short",
    "frontier",
    "gains_nothing",
    "lower",
    "no_higher",
    "passes",
    "reaches",
    "rises_again",
    "settles",
    "sooner",
    "unsteady",
    "unsteady_below",
    "within_seconds",
]


def lower(
    found: PlanCells,
    *,
    first: str,
    second: str,
    metric: str = "nll",
    by: float = 0.0,
    datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:
    """The first is lower than the second by at least ``by`` on each data set, told from no difference.

    The interval of the paired differences decides; of a single split the difference does.
    """
    checks = []
    for group in each_group(found, (first, second), datasets=datasets, at=at):
        low, high, mean, words = difference(group, first, second, metric)
        holds: bool | None = None
        if low is None or high is None:
            holds = mean <= -by and mean < 0.0
        elif high < 0.0:
            holds = mean <= -by
        elif low > 0.0:
            holds = False
        checks.append(told(group, words, mean, holds=holds))
    return checks


def no_higher(
    found: PlanCells,
    *,
    first: str,
    second: str,
    metric: str = "nll",
    datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:
    """The first is not higher than the second on each data set: the interval of the difference reaches down to 0."""
    checks = []
    for group in each_group(found, (first, second), datasets=datasets, at=at):
        low, _, mean, words = difference(group, first, second, metric)
        checks.append(told(group, words, mean, holds=(mean if low is None else low) <= 0.0))
    return checks


def at_or_below(
    found: PlanCells,
    *,
    first: str,
    second: str,
    slack: float = 0.0,
    metric: str = "nll",
    of_curves: bool = False,
    datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:
    """The first's mean over common splits is at most 1 + ``slack`` times the second's, whatever the intervals are.

    For metrics of which less is better. ``of_curves``: where curves of the NLL end, by the median of their last looks.
    """
    checks = []
    for group in each_group(found, (first, second), datasets=datasets, at=at):
        if of_curves:
            pairs = shared_splits(group.cells[first], group.cells[second])
            values = np.array([[end_of(loss_trace(cell, metric).values) for cell in pair] for pair in pairs]).reshape(
                -1, 2
            )
        else:
            _, values = paired(group.cells[first], group.cells[second], metric)
        one, other = values.mean(axis=0) if len(values) else (math.nan, math.nan)
        unit = " s" if metric.endswith("seconds") else ""
        words = f"{group.label}: {first} {shown(one)}{unit}, {second} {shown(other)}{unit}"
        gap = mixed_times(group.label, group.all()) if unit else None
        checks.append(gap or told(group, words, one, other, holds=one <= (1.0 + slack) * other))
    return checks


def equivalent(
    found: PlanCells,
    *,
    first: str,
    second: str,
    within: float,
    metric: str = "nll",
    datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:
    """The mean difference of two methods is at most ``within`` on each data set."""
    checks = []
    for group in each_group(found, (first, second), datasets=datasets, at=at):
        _, _, mean, words = difference(group, first, second, metric)
        checks.append(told(group, words, mean, holds=abs(mean) <= within))
    return checks


def best(
    found: PlanCells,
    *,
    method: str,
    among: Sequence[str],
    metric: str = "nll",
    datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:
    """A method has the lowest mean of several on each data set."""
    names = [method, *among]
    sign = -1.0 if metric in MORE_IS_BETTER else 1.0
    checks = []
    for group in each_group(found, names, datasets=datasets, at=at):
        means = [
            _mean(cells, metric) for cells in zip(*shared_splits(*(group.cells[name] for name in names)), strict=True)
        ]
        words = ", ".join(f"{name} {shown(mean)}" for name, mean in zip(names, means, strict=False))
        if gap := unusable(group, means):
            checks.append(gap)
            continue
        holds = all(sign * means[0] < sign * other for other in means[1:])
        checks.append(told(group, f"{group.label}: {words}", *means, holds=holds))
    return checks


def settles(
    found: PlanCells,
    *,
    method: str,
    sweep: str,
    value: float,
    within: float = 0.02,
    tolerance: float = 0.0,
    metric: str = "nll",
    datasets: Sequence[str] | None = None,
) -> list[Check]:
    """With more of what is swept a method gets better, and at ``value`` it is near its best.

    Falling from the smallest value until ``value``, and there at most (1 + within) times the best plus ``tolerance``.
    """
    checks = []
    for label, curve, cells in _curves(found, method, sweep, metric, datasets):
        if not curve or value not in curve:
            checks.append(Check(f"{label}: {method} not run", None, measured=False))
            continue
        until = [curve[each] for each in sorted(curve) if each <= value]
        near = curve[value] <= (1.0 + within) * min(curve.values()) + tolerance
        falls = all(after <= before + tolerance for before, after in pairwise(until))
        checks.append(Check(f"{label}: {_along(method, sweep, curve)}", near and falls, cells))
    return checks


def gains_nothing(
    found: PlanCells,
    *,
    method: str,
    sweep: str,
    start: float,
    end: float,
    metric: str = "nll",
    datasets: Sequence[str] | None = None,
) -> list[Check]:
    """A method is no better at the swept value ``end`` than at ``start``."""
    checks = []
    for label, curve, cells in _curves(found, method, sweep, metric, datasets):
        if start in curve and end in curve:
            checks.append(Check(f"{label}: {_along(method, sweep, curve)}", curve[end] >= curve[start], cells))
        else:
            checks.append(Check(f"{label}: {method} not run", None, measured=False))
    return checks


def _curves(
    found: PlanCells, method: str, sweep: str, metric: str, datasets: Sequence[str] | None
) -> list[tuple[str, dict[float, float], tuple[PlanResult, ...]]]:
    """For each data set a method's mean loss by the swept value."""
    sign = -1.0 if metric in MORE_IS_BETTER else 1.0
    rows: list[tuple[str, dict[float, float], tuple[PlanResult, ...]]] = []
    for dataset in found.plan.datasets if datasets is None else datasets:
        curve: dict[float, float] = {}
        cells: list[PlanResult] = []
        for group in each_group(found, (method,), datasets=(dataset,)):
            own = group.cells[method]
            if own and not math.isnan(mean := _mean(own, metric)):
                curve[float(group.sweep[sweep])] = sign * mean
                cells += own
        rows.append((found.plan.dataset_label(dataset), curve, tuple(cells)))
    return rows


def _along(method: str, sweep: str, curve: Mapping[float, float]) -> str:
    values = sorted(curve)
    return (
        f"{method} {' '.join(shown(abs(curve[each])) for each in values)} with {sweep} "
        f"{' '.join(shown(each) for each in values)}"
    )


def sooner(
    found: PlanCells,
    *,
    first: str | Sequence[str],
    second: str,
    metric: str = "nll",
    factor: float = 1.0,
    goal: str = "both",
    within: float = 0.02,
    tolerance: float = 0.0,
    datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:
    """The first, or the best of several, reaches a goal at least ``factor`` times sooner than the second.

    The goal lies ``within`` of |end| plus ``tolerance`` above the best end of all (``goal = "both"``) or the second's
    end (``"second"``). Medians over splits; one that does not arrive is censored at its end: what took longer than it
    ran can decide for the first, and never against a factor that it has not been seen to miss.
    """
    firsts = [first] if isinstance(first, str) else list(first)
    checks = []
    for group in each_group(found, [*firsts, second], datasets=datasets, at=at):
        splits = shared_splits(*(group.cells[name] for name in (*firsts, second)))
        if gap := unusable(group, splits):
            checks.append(gap)
            continue
        if gap := mixed_times(group.label, group.all()):
            checks.append(gap)
            continue
        times = np.array([_arrivals(cells, metric, goal, within, tolerance) for cells in splits])
        ran = np.array(
            [float(cells[-1].trace["seconds"][-1] if cells[-1].trace["seconds"] else 0.0) for cells in splits]
        )
        medians = [median_time(times[:, column]) for column in range(len(firsts))]
        quickest = int(np.argmin(medians))
        one, other = medians[quickest], median_time(times[:, -1])
        known = (
            other if math.isfinite(other) else float(np.median(np.where(np.isfinite(times[:, -1]), times[:, -1], ran)))
        )
        checks.append(
            Check(
                f"{group.label}: {firsts[quickest]} {_time(one)}, {second} {_time(other, known)}",
                _is_sooner(one, other, known, factor),
                group.all(),
            )
        )
    return checks


def _is_sooner(one: float, other: float, known: float, factor: float) -> bool | None:
    if not math.isfinite(one):
        return None if not math.isfinite(other) else False
    if known >= factor * one or (factor <= 1.0 and not math.isfinite(other)):
        return True
    return False if math.isfinite(other) else None


def _time(seconds: float, known: float | None = None) -> str:
    if math.isfinite(seconds):
        return f"{shown(seconds)} s"
    return "never" if known is None else f"more than {shown(known)} s"


def _arrivals(cells: Sequence[PlanResult], metric: str, goal: str, within: float, tolerance: float) -> list[float]:
    """Seconds at which each of the cells of one split arrives at the goal."""
    traces = [loss_trace(cell, metric) for cell in cells]
    ends = [end_of(trace.values) for trace in traces]
    end = ends[-1] if goal == "second" else min(ends)
    return [arrival(trace, end + within * abs(end) + tolerance) for trace in traces]


def frontier(
    found: PlanCells, *, methods: Sequence[str], rivals: Sequence[str], metric: str = "nll",
    datasets: Sequence[str] | None = None,
) -> list[Check]:  # fmt: skip
    """One of some methods, whatever the swept values, has the lowest mean curve for most of the time.

    The times are evenly spaced in their logarithm, from where the first of all curves has begun to where the last ends;
    a curve that has not begun does not compete, and one that has ended keeps its value.
    """
    checks = []
    names = [*methods, *rivals]
    for dataset in found.plan.datasets if datasets is None else datasets:
        groups = list(each_group(found, names, datasets=(dataset,)))
        series = [(name, group.cells[name]) for group in groups for name in names if group.cells[name]]
        label = found.plan.dataset_label(dataset)
        if {name for name, _ in series} != set(names):
            checks.append(Check(f"{label}: not all run", None, measured=False))
            continue
        cells = tuple(cell for _, own in series for cell in own)
        if gap := mixed_times(label, cells):
            checks.append(gap)
            continue
        traces = [[loss_trace(cell, metric) for cell in own] for _, own in series]
        grid = common_grid([each for own in traces for each in own])
        start = min(max(float(each.seconds[0]) for each in own) for own in traces)
        grid = np.concatenate([np.geomspace(start, grid[0], 20)[:-1], grid]) if start < grid[0] else grid
        means = np.array([np.mean([hold(each, grid) for each in own], axis=0) for own in traces])
        leaders = np.nanargmin(np.where(np.isnan(means), np.inf, means), axis=0)
        share = np.mean([series[leader][0] in methods for leader in leaders])
        words = f"{label}: {' or '.join(methods)} lowest at {100 * share:.0f} % of the times"
        checks.append(Check(words, bool(share > 0.5), cells))
    return checks


def passes(
    found: PlanCells, *, method: str, over: str, seconds: float, metric: str = "nll",
    datasets: Sequence[str] | None = None,
) -> list[Check]:  # fmt: skip
    """A method's curve passes where another one ended, within so many seconds."""
    checks = []
    for group in each_group(found, (method, over), datasets=datasets):
        times = [
            arrival(loss_trace(one, metric), end_of(loss_trace(other, metric).values))
            for one, other in shared_splits(group.cells[method], group.cells[over])
        ]
        if gap := unusable(group, times) or mixed_times(group.label, group.all()):
            checks.append(gap)
            continue
        median = median_time(np.array(times))
        words = f"{group.label}: {method} passes {over} after {_time(median)}"
        checks.append(Check(words, median <= seconds, group.all()))
    return checks


def rises_again(
    found: PlanCells, *, method: str, by: float = 0.02, metric: str = "nll", datasets: Sequence[str] | None = None
) -> list[Check]:
    """A method's curve ends above its lowest stretch of three looks by a share ``by`` of that."""
    checks = []
    for group in each_group(found, (method,), datasets=datasets):
        lows, ends = [], []
        for cell in group.cells[method]:
            values = loss_trace(cell, metric).values
            ends.append(end_of(values))
            lows.append(min(np.median(values[start : start + 3]) for start in range(max(len(values) - 2, 1))))
        low, end = (float(np.mean(each)) if each else math.nan for each in (lows, ends))
        words = f"{group.label}: {method} {shown(low)} at its lowest, {shown(end)} at its end"
        checks.append(told(group, words, low, end, holds=end > low + by * abs(low)))
    return checks


def unsteady(
    found: PlanCells,
    *,
    method: str,
    others: Sequence[str],
    metric: str = "nll",
    factor: float = 2.0,
    datasets: Sequence[str] | None = None,
) -> list[Check]:
    """Over the second half of its looks a method's curve ranges ``factor`` times as far as any other's, or more."""
    checks = []
    for group in each_group(found, (method, *others), datasets=datasets):
        if gap := missing(group):
            checks.append(gap)
            continue
        ranges = {name: _range(cells, metric) for name, cells in group.cells.items()}
        holds = all(ranges[method] >= factor * ranges[name] for name in others) and ranges[method] > 0.0
        words = ", ".join(f"{name} ranges over {shown(each)}" for name, each in ranges.items())
        checks.append(told(group, f"{group.label}: {words}", *ranges.values(), holds=holds))
    return checks


def unsteady_below(
    found: PlanCells,
    *,
    method: str,
    sweep: str,
    value: float,
    metric: str = "error",
    factor: float = 2.0,
    datasets: Sequence[str] | None = None,
) -> list[Check]:
    """At each swept value below ``value`` a method's curve ranges ``factor`` times as far as at it, or more."""
    checks = []
    for dataset in found.plan.datasets if datasets is None else datasets:
        groups = list(each_group(found, (method,), datasets=(dataset,)))
        ranges = {
            float(group.sweep[sweep]): _range(group.cells[method], metric) for group in groups if group.cells[method]
        }
        cells = tuple(cell for group in groups for cell in group.all())
        label = found.plan.dataset_label(dataset)
        below = [each for each in sorted(ranges) if each < value]
        if value not in ranges or not below:
            checks.append(Check(f"{label}: {method} not run", None, measured=False))
            continue
        words = f"{label}: {method} ranges over {_along('', sweep, ranges).strip()}"
        checks.append(Check(words, all(ranges[each] >= factor * ranges[value] for each in below), cells))
    return checks


def _range(cells: Sequence[PlanResult], metric: str) -> float:
    """Largest less smallest value of the second half of the looks, the mean over splits."""
    halves = [values[len(values) // 2 :] for cell in cells for values in (loss_trace(cell, metric).values,)]
    return float(np.mean([np.ptp(half) for half in halves]))


def falls_short(
    found: PlanCells,
    *,
    method: str,
    others: Sequence[str],
    metric: str = "nll",
    by: float = 0.02,
    tolerance: float = 0.0,
    datasets: Sequence[str] | None = None,
) -> list[Check]:
    """A method ends above each of the others, by a share ``by`` of |theirs| plus ``tolerance``."""
    checks = []
    names = [method, *others]
    for group in each_group(found, names, datasets=datasets):
        splits = shared_splits(*(group.cells[name] for name in names))
        ends = np.array([[end_of(loss_trace(cell, metric).values) for cell in cells] for cells in splits])
        if gap := unusable(group, splits):
            checks.append(gap)
            continue
        means = ends.mean(axis=0)
        worst = float(means[1:].max())
        words = ", ".join(f"{name} {shown(abs(float(each)))}" for name, each in zip(names, means, strict=True))
        checks.append(
            told(group, f"{group.label}: {words}", *means, holds=means[0] > worst + by * abs(worst) + tolerance)
        )
    return checks


def reaches(
    found: PlanCells, *, method: str, values: Mapping[str, float | str], datasets: Sequence[str] | None = None
) -> list[Check]:
    """A method's mean is as good as each printed value, give or take half a unit of its last digit.

    A value that is printed with a 0 at its end is given as text, ``"0.070"``: a number would lose it.
    """
    checks = []
    for group in each_group(found, (method,), datasets=datasets):
        for metric, printed in values.items():
            ours = _mean(group.cells[method], metric)
            room, value = 0.5 * unit_of(str(printed)), float(printed)
            holds = ours >= value - room if metric in MORE_IS_BETTER else ours <= value + room
            text = printed if isinstance(printed, str) else f"{value:g}"
            checks.append(
                told(group, f"{group.label}: {method} {metric} {shown(ours)}, printed {text}", ours, holds=holds)
            )
    return checks


def within_seconds(
    found: PlanCells, *, method: str, seconds: float, converged: bool = False, datasets: Sequence[str] | None = None
) -> list[Check]:
    """A method ends within so many training seconds (median), and by its own rule if it must have converged."""
    checks = []
    for group in each_group(found, (method,), datasets=datasets):
        cells = group.cells[method]
        median = float(np.median([_value(cell, "train_seconds") for cell in cells])) if cells else math.nan
        done = sum(cell.stopped_by == "converged" for cell in cells)
        words = f"{group.label}: {method} {shown(median)} s" + (
            f", {done} of {len(cells)} converged" if converged else ""
        )
        holds = median <= seconds and (not converged or done == len(cells))
        checks.append(told(group, words, median, holds=holds))
    return checks


def costs(
    found: PlanCells,
    *,
    first: str,
    second: str,
    quantity: str,
    at_least: float = 0.0,
    at_most: float = math.inf,
    datasets: Sequence[str] | None = None,
    at: At | None = None,
) -> list[Check]:
    """What the second costs is between ``at_least`` and ``at_most`` times what the first does (medians over splits).

    ``quantity`` is a metric of the cells (train_seconds, cpu_seconds, peak_rss_mb) or ``seconds_per_iteration``.
    """
    checks = []
    for group in each_group(found, (first, second), datasets=datasets, at=at):
        splits = shared_splits(group.cells[first], group.cells[second])
        if gap := unusable(group, splits):
            checks.append(gap)
            continue
        if "seconds" in quantity and (gap := mixed_times(group.label, group.all())):
            checks.append(gap)
            continue
        one, other = (float(np.median([_value(cell, quantity) for cell in own])) for own in zip(*splits, strict=True))
        ratio = other / one if one else math.nan
        words = f"{group.label}: {first} {shown(one)}, {second} {shown(other)}, {shown(ratio)} times"
        holds = None if math.isnan(ratio) else at_least <= ratio <= at_most
        checks.append(Check(words, holds, group.all()))
    return checks


def beats_in_time(
    found: PlanCells,
    *,
    first: str,
    second: str,
    sweep: str,
    metric: str = "error",
    quantity: str = "cpu_seconds",
    factor: float = 2.0,
    datasets: Sequence[str] | None = None,
) -> list[Check]:
    """At some size the first is no worse than the second at ``factor`` times that size or more, in no more time."""
    checks = []
    for dataset in found.plan.datasets if datasets is None else datasets:
        points: dict[str, list[tuple[float, float, float]]] = {first: [], second: []}
        cells: list[PlanResult] = []
        for group in each_group(found, (first, second), datasets=(dataset,)):
            for name, own in group.cells.items():
                if own:
                    time = float(np.median([_value(cell, quantity) for cell in own]))
                    points[name].append((float(group.sweep[sweep]), _mean(own, metric), time))
                    cells += own
        label = found.plan.dataset_label(dataset)
        if not points[first] or not points[second]:
            checks.append(Check(f"{label}: not all run", None, measured=False))
            continue
        if gap := mixed_times(label, cells):
            checks.append(gap)
            continue
        wins = [
            (large[0] / small[0], small, large)
            for small in points[first]
            for large in points[second]
            if large[0] >= factor * small[0] and small[1] <= large[1] and small[2] <= large[2]
        ]
        words = f"{label}: {first} is at no size as good in the time of a larger {second}"
        if wins:
            _, small, large = max(wins)
            words = (
                f"{label}: {first} {shown(small[1])} after {shown(small[2])} s at {shown(small[0])}, "
                f"{second} {shown(large[1])} after {shown(large[2])} s at {shown(large[0])}"
            )
        checks.append(Check(words, bool(wins), tuple(cells)))
    return checks


def _value(cell: PlanResult, quantity: str) -> float:
    """A cell's number; NaN where there is none."""
    if quantity == "seconds_per_iteration":
        iterations = cell.metrics.get("iterations")
        return _value(cell, "train_seconds") / iterations if iterations else math.nan
    value = value_of(cell, quantity)
    return math.nan if value is None else value


def _mean(cells: Sequence[PlanResult], metric: str) -> float:
    return float(np.mean([_value(cell, metric) for cell in cells])) if cells else math.nan
