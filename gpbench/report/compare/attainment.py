"""Time to 1.02 times the best NLL, and performance profiles made of it.

On each split the best NLL is the lowest that any of the compared methods measured at any time, so that all run for the
same goal. A method that never measured the goal has not reached it; nothing is extrapolated. Dolan and Moré (2002): a
method's profile is the share of the problems that it solves within tau times the time of the fastest. A problem is a
split, and data sets weigh the same, however many splits they have.
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

    from gpbench.report.compare.pairs import Arena, Contender, Unit

__all__ = ["FACTOR", "Attainment", "Profile", "attainment", "goal_times", "profiles", "timing_fault"]

#: The goal as a multiple of the best NLL.
FACTOR = 1.02

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Attainment:
    """How soon a method reaches the goal in an arena.

    Attributes
    ----------
    label : str
    splits, reached : int
        How many there are, and on how many the goal was measured.
    median : float or None
        Median of the training seconds, a split that was not reached counting as infinite; None where that is infinite.
    goal : float
        Mean of the goals (nats).
    """

    label: str
    splits: int
    reached: int
    median: float | None
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
        Training seconds on each split that all finished; infinite where the goal was never measured.
    (n,)
        The goals, in nats.
    """
    units = [unit for unit in arena.common(contenders) if math.isfinite(_best(arena, contenders, unit))]
    times = np.full((len(contenders), len(units)), np.inf)
    goals = np.full(len(units), np.nan)
    for column, unit in enumerate(units):
        best = _best(arena, contenders, unit)
        goals[column] = best + (factor - 1.0) * abs(best)
        for row, each in enumerate(contenders):
            trace = trace_of(arena.finished[each][unit], "nll")
            there = np.flatnonzero(trace.values <= goals[column])
            if len(there):
                times[row, column] = trace.seconds[there[0]]
    return times, goals


def attainment(arena: Arena, contenders: Sequence[Contender], *, factor: float = FACTOR) -> list[Attainment]:
    """How soon each contender reaches the goal on the splits that all finished; empty where there is none."""
    times, goals = goal_times(arena, contenders, factor=factor)
    if not len(goals):
        return []
    found = []
    for each, own in zip(contenders, times, strict=True):
        median = _median(own)
        found.append(
            Attainment(
                label=each.label,
                splits=len(own),
                reached=int(np.isfinite(own).sum()),
                median=median if math.isfinite(median) else None,
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


def _best(arena: Arena, contenders: Sequence[Contender], unit: Unit) -> float:
    """The lowest NLL that any of the contenders measured on a split; infinite where none is finite."""
    values = np.concatenate([trace_of(arena.finished[each][unit], "nll").values for each in contenders])
    return float(np.min(values, initial=np.inf, where=np.isfinite(values)))


def _median(times: Array) -> float:
    """The median where some are infinite: the upper of two middle ones if either is."""
    ordered = np.sort(times)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return float(high) if not math.isfinite(high) else float(0.5 * (low + high))
