"""Time to 1.02 times the best NLL, and performance profiles made of it.

Curves of NLL are noisy, and one dip must decide nothing. Where a method ended is the median of its last three looks; on
each split the goal is 1.02 times the lowest of these ends, so that all run for the same one. A curve arrives at the
first look that is at the goal together with the median of three looks: its own, the one before and the one after (at
the ends the first or the last three). The method with the lowest end arrives, if its looks are finite. One that does
not is censored: it took longer than it ran, nothing is extrapolated, and it is dropped from nothing.

Dolan and Moré (2002): a method's profile is the share of the problems that it solves within tau times the time of the
fastest. A problem is a split, and data sets weigh the same, however many splits they have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpbench.report.groups import processors_of
from gpbench.report.traces import trace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.result import Result
    from gpbench.report.compare.pairs import Arena, Contender, Unit
    from gpbench.report.traces import Trace

__all__ = [
    "FACTOR",
    "Attainment",
    "Profile",
    "arrival",
    "attained",
    "attainment",
    "end_of",
    "goal_times",
    "median_time",
    "profiles",
    "stays",
    "timing_fault",
]

#: The goal as a multiple of the best NLL.
FACTOR = 1.02
#: Looks of which the median counts.
_LOOKS = 3

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Attainment:
    """How soon a method reaches the goal in an arena.

    Attributes
    ----------
    label : str
    splits, reached : int
        How many there are, and on how many the method arrived.
    median : float or None
        Median of the training seconds, a split where it is censored counting as infinite; None where that is infinite.
    at_least : float
        The median with the seconds that it ran in place of those that it would have taken: what the median is no less
        than.
    goal : float
        Mean of the goals (nats).
    """

    label: str
    splits: int
    reached: int
    median: float | None
    at_least: float
    goal: float


@dataclass(frozen=True, eq=False)
class Profile:
    """Share of problems solved within ``ratio`` times the fastest method's time: a step function.

    Attributes
    ----------
    label : str
    ratio : (r,)
        Rising, from 1.
    share : (r,)
        From there on.
    """

    label: str
    ratio: Array
    share: Array


def timing_fault(arena: Arena, contenders: Sequence[Contender]) -> str:
    """Why times in this arena do not compare; empty where they do."""
    cells = [cell for each in contenders for cell in arena.finished.get(each, {}).values()]
    threads = sorted({str(cell.threads) for cell in cells})
    for words, found in (("processors", processors_of(cells)), ("numbers of threads", threads)):
        if len(found) > 1:
            return f"times on {arena.name} are of different {words} ({'; '.join(found)}) and do not compare"
    return ""


def end_of(values: Array) -> float:
    """Where a curve ended: the median of its last three looks that are finite; infinite where there is none."""
    last = values[np.isfinite(values)][-_LOOKS:]
    return float(np.median(last)) if len(last) else math.inf


def arrival(trace: Trace, goal: float) -> float:
    """Seconds of the look at which a curve arrives at a goal, as the module says; infinite where it does not."""
    values = np.where(np.isfinite(trace.values), trace.values, np.inf)
    for look in np.flatnonzero(values <= goal):
        start = max(min(int(look) - 1, len(values) - _LOOKS), 0)
        if np.median(values[start : start + _LOOKS]) <= goal:
            return float(trace.seconds[look])
    return math.inf


def attained(cell: Result, *, factor: float = FACTOR) -> tuple[float, float, float]:
    """Iterations and seconds until a cell is within ``factor`` of its own end, and that end (nats).

    Infinite where it is not: of a curve that is not finite at its end.
    """
    trace = trace_of(cell, "nll")
    end = end_of(trace.values)
    seconds = arrival(trace, end + abs(end) * (factor - 1.0))
    if not math.isfinite(seconds):
        return math.inf, math.inf, end
    iterations = cell.trace["iteration"] or [cell.metrics.get("iterations") or math.nan]
    return float(iterations[int(np.searchsorted(trace.seconds, seconds))]), seconds, end


def stays(trace: Trace, goal: float) -> float:
    """Seconds of the first look at a goal after which no median of three looks is above it; infinite where none is."""
    values = np.where(np.isfinite(trace.values), trace.values, np.inf)
    starts = np.clip(np.arange(len(values)) - 1, 0, max(len(values) - _LOOKS, 0))
    above = np.flatnonzero([np.median(values[start : start + _LOOKS]) > goal for start in starts])
    kept = int(above[-1]) + 1 if len(above) else 0
    there = np.flatnonzero(values[kept:] <= goal)
    return float(trace.seconds[kept + there[0]]) if len(there) else math.inf


def goal_times(arena: Arena, contenders: Sequence[Contender], *, factor: float = FACTOR) -> tuple[Array, Array]:
    """Seconds to the goal, and the goals.

    Parameters
    ----------
    arena : Arena
    contenders : (k,)
    factor : float
        Of the best NLL. A best NLL below zero, which densities could have, is left: its goal lies as far above it.

    Returns
    -------
    (k, n)
        Training seconds on each split that all finished; infinite where a method is censored.
    (n,)
        The goals, in nats.
    """
    units = _timed_units(arena, contenders)
    times = np.full((len(contenders), len(units)), np.inf)
    goals = np.full(len(units), np.nan)
    for column, unit in enumerate(units):
        best = _best(arena, contenders, unit)
        goals[column] = best + (factor - 1.0) * abs(best)
        for row, each in enumerate(contenders):
            times[row, column] = arrival(trace_of(arena.finished[each][unit], "nll"), goals[column])
    return times, goals


def attainment(arena: Arena, contenders: Sequence[Contender], *, factor: float = FACTOR) -> list[Attainment]:
    """How soon each contender reaches the goal on the splits that all finished; empty where there is none."""
    times, goals = goal_times(arena, contenders, factor=factor)
    if not len(goals):
        return []
    units = _timed_units(arena, contenders)
    found = []
    for each, own in zip(contenders, times, strict=True):
        median = median_time(own)
        ran = np.array([trace_of(cell, "nll").seconds[-1] for cell in arena.cells(each, units)])
        found.append(
            Attainment(
                label=each.label,
                splits=len(own),
                reached=int(np.isfinite(own).sum()),
                median=median if math.isfinite(median) else None,
                at_least=float(np.median(np.where(np.isfinite(own), own, ran))),
                goal=float(goals.mean()),
            )
        )
    return found


def profiles(tables: Sequence[Array], labels: Sequence[str]) -> list[Profile]:
    """Performance profiles.

    Parameters
    ----------
    tables : sequence of (k, n_p)
        For each data set the seconds of the k methods on its splits, see :func:`goal_times`.
    labels : (k,)
    """
    tables = [table for table in tables if table.shape[1]]
    if not tables:
        return []
    ratios = [table / table.min(axis=0, keepdims=True) for table in tables]
    weights = [np.full(table.shape[1], 1.0 / (len(tables) * table.shape[1])) for table in tables]
    joined, weight = np.hstack(ratios), np.concatenate(weights)
    found = []
    for label, own in zip(labels, joined, strict=True):
        solved = np.isfinite(own)
        steps = np.unique(np.concatenate([[1.0], own[solved]]))
        share = np.array([weight[own <= step].sum() for step in steps])
        found.append(Profile(label, steps, np.minimum(share, 1.0)))
    return found


def _timed_units(arena: Arena, contenders: Sequence[Contender]) -> list[Unit]:
    """The splits that all finished, where some curve is finite."""
    return [unit for unit in arena.common(contenders) if math.isfinite(_best(arena, contenders, unit))]


def _best(arena: Arena, contenders: Sequence[Contender], unit: Unit) -> float:
    """The lowest end of any of the contenders on a split; infinite where none is finite."""
    return min(end_of(trace_of(arena.finished[each][unit], "nll").values) for each in contenders)


def median_time(times: Array) -> float:
    """The median where some are infinite: the upper of two middle ones if either is."""
    ordered = np.sort(times)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return float(high) if not math.isfinite(high) else float(0.5 * (low + high))
