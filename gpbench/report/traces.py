"""Traces of several splits made one curve over time.

A trace is a step function: what was measured holds until the next measurement, and a split that has ended keeps its
last value. Before a split's first measurement nothing is known, so the mean begins where every split has a value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.result import Result
    from gpbench.report.groups import Group

__all__ = ["SPREADS", "Curve", "Trace", "common_grid", "curve_of", "hold", "in_digits", "mean_curve", "trace_of"]

Array = npt.NDArray[np.float64]

#: Half width of a band -> what it is, in words.
SPREADS = {
    "sd": "one standard deviation",
    "2sd": "two standard deviations",
    "se": "one standard error",
    "2se": "two standard errors",
}

#: A logarithmic axis has no zero; no clock here tells less than this apart (seconds).
_SHORTEST = 1e-6


@dataclass(frozen=True)
class Trace:
    """What one split measured: ``values`` (k,) at ``seconds`` (k,), ascending; NaN where a value was not finite."""

    seconds: Array
    values: Array


@dataclass(frozen=True)
class Curve:
    """The mean over splits.

    Attributes
    ----------
    seconds, mean : (k,)
    band : (k,) or None
        Half width of the band; None for a single split.
    splits : int
        How many splits it rests on.
    is_point : bool
        There is a point in time and no way to it (k = 1), as when every split was measured but once.
    """

    seconds: Array
    mean: Array
    band: Array | None
    splits: int
    is_point: bool


def in_digits(spread: str) -> str:
    """A half width in words, its number as a digit: ``2 standard errors``."""
    return SPREADS[spread].replace("one", "1").replace("two", "2")


def trace_of(cell: Result, metric: str) -> Trace:
    """The trace of a finished cell; its final numbers where no trace was kept.

    Parameters
    ----------
    cell : Result
    metric : str
        ``"nll"``, ``"error"``, ``"accuracy"`` or ``"bound"``.
    """
    name = "error" if metric == "accuracy" else metric
    seconds, values = cell.trace["seconds"], cell.trace[name]
    if not seconds:
        seconds, values = [cell.metrics["train_seconds"]], [cell.metrics[name]]
    numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if metric == "accuracy":
        numbers = 1.0 - numbers
    return Trace(np.maximum(np.asarray(seconds, dtype=np.float64), _SHORTEST), numbers)


def hold(trace: Trace, at: Array) -> Array:
    """The value of a trace at each time: the last one measured until then; NaN before the first.

    Parameters
    ----------
    trace : Trace
    at : (g,)
        Seconds.
    """
    last = np.searchsorted(trace.seconds, at, side="right") - 1
    return np.where(last >= 0, trace.values[np.maximum(last, 0)], np.nan)


def common_grid(traces: Sequence[Trace], *, per_decade: int = 10) -> Array:
    """Times, evenly spaced in their logarithm, from where every split has a value to the end of the longest.

    Between these two ends the times are 10^((k + 1/2) / per_decade) s. The harness measures when 10^(k / 10) s have
    passed and the step at hand is done: half way between, every split has just been measured once since the last time,
    and the mean is of values of one age. On the very times, or on a finer grid, it would be a mixture, and a staircase.
    """
    first = max(float(trace.seconds[0]) for trace in traces)
    last = max(float(trace.seconds[-1]) for trace in traces)
    steps = np.arange(np.floor(np.log10(first) * per_decade), np.ceil(np.log10(last) * per_decade))
    inside = 10.0 ** ((steps + 0.5) / per_decade)
    inside = inside[(inside > first) & (inside < last)]
    return np.array([first, *inside, last]) if first < last else np.array([first])


def mean_curve(traces: Sequence[Trace], *, spread: str = "2se", per_decade: int = 10) -> Curve:
    """Mean and band over splits.

    Parameters
    ----------
    traces : sequence of Trace
        At least one.
    spread : str
        Half width of the band, one of :data:`SPREADS`: standard deviations (divisor n - 1), or standard errors of the
        mean.
    per_decade : int
        Times of the grid in each factor of ten.
    """
    assert spread in SPREADS, spread
    if all(len(trace.seconds) == 1 for trace in traces):
        grid = np.array([np.mean([trace.seconds[0] for trace in traces])])
        values = np.array([trace.values for trace in traces])
    else:
        grid = common_grid(traces, per_decade=per_decade)
        values = np.array([hold(trace, grid) for trace in traces])
    n = len(traces)
    band = None
    if n > 1:
        band = np.std(values, axis=0, ddof=1)
        band *= (2.0 if spread.startswith("2") else 1.0) / (np.sqrt(n) if spread.endswith("se") else 1.0)
    return Curve(grid, np.mean(values, axis=0), band, n, len(grid) == 1)


def curve_of(group: Group, metric: str, *, spread: str = "2se") -> Curve:
    """The curve of a group's finished cells, of which there must be one at the least."""
    return mean_curve([trace_of(cell, metric) for cell in group.finished], spread=spread)
