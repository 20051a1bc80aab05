"""Maximisation by a gradient search: the best state kept, what is held while it runs, and what a failed search means.

scipy's optimisers know a vector and a number. A scheme has more at each point (factors, sites, q), and something that
must stand still while a search runs, above all the jitter of K_mm: one that follows the hyper-parameters would need a
gradient of its own. :func:`maximise` keeps the state of the best point, tells of each evaluation, and where a line
search fails, mostly because the jitter that is held no longer suffices, lets the caller choose it anew and searches
again from the best point with a fresh approximation of the Hessian, for as long as that gains anything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.optimize.search import Array, Search
    from gpbench.optimize.training import StoppedBy

__all__ = ["LOG_BOUND", "Maximum", "Point", "maximise"]

S = TypeVar("S")

LOG_BOUND = 25.0
"""Largest absolute log hyper-parameter of a search: the length scale of an idle input would grow for ever."""


class Point(NamedTuple, Generic[S]):
    """An evaluation.

    Attributes
    ----------
    value : float
        Of the objective (nats).
    gradient : (k,)
        Of ascent.
    state : object
        Whatever the caller wants to have of the best point.
    """

    value: float
    gradient: Array
    state: S


class Maximum(NamedTuple, Generic[S]):
    """Where a search ended.

    Attributes
    ----------
    x : (k,)
        The best point.
    value : float
    state : object
        Of the best point.
    stopped_by : {"converged", "iterations", "failed-to-improve"}
        ``converged``: a tolerance of the search holds at the end. ``iterations``: its evaluations or iterations are
        used up. ``failed-to-improve``: no step along the last direction was good enough, a fresh start brought no
        more than the tolerance, and the gradient is not small.
    """

    x: Array
    value: float
    state: S
    stopped_by: StoppedBy


def maximise(
    objective: Callable[[Array], Point[S]],
    x0: Array,
    *,
    search: Search,
    evaluations: Callable[[], int],
    bounds: tuple[Array, Array] | None = None,
    begin: Callable[[Array], None] | None = None,
    on_evaluation: Callable[[S, float], None] | None = None,
) -> Maximum[S]:
    """Search from x0, and again from the best point after a failed line search.

    Parameters
    ----------
    objective : callable
        The point (k,) evaluated; may raise NumericalError where there is no value.
    x0 : (k,)
    search : Search
        :class:`gpbench.optimize.lbfgsb.LBFGSB` or :class:`gpbench.optimize.scg.SCG`.
    evaluations : callable
        How many may still be made; asked before each search, at least 1 at first.
    bounds : pair of (k,), optional
        Least and largest values.
    begin : callable, optional
        Called with x before each search from x: the place to choose a jitter that is then held.
    on_evaluation : callable, optional
        Told of each evaluation: state and value of the best point so far. What it raises ends the search and is
        passed on.

    Raises
    ------
    NumericalError
        The objective has no value at x0.
    """
    best_x, best, gradient, tried = np.array(x0), -math.inf, np.empty(0), np.array(x0)
    state: S
    trial: Point[S]

    def value_and_gradient(x: Array) -> tuple[float, Array]:
        nonlocal trial, tried
        tried, trial = x, objective(x)
        return trial.value, trial.gradient

    def evaluated(value: float, *, improved: bool) -> None:
        nonlocal best_x, best, gradient, state
        if improved and value > best:
            best_x, best, gradient, state = np.array(tried), value, np.array(trial.gradient), trial.state
        if on_evaluation is not None and math.isfinite(best):
            on_evaluation(state, best)

    while True:
        before = best
        if begin is not None:
            begin(best_x)
        outcome = search.maximise(
            value_and_gradient, best_x, max_evaluations=evaluations(), bounds=bounds, on_evaluation=evaluated
        )
        if outcome.reason == "converged":
            return Maximum(best_x, best, state, "converged")
        if outcome.reason != "line search" or evaluations() <= 0:
            return Maximum(best_x, best, state, "iterations")
        if _largest_free(best_x, gradient, bounds) <= search.gradient_tolerance:
            return Maximum(best_x, best, state, "converged")
        if math.isfinite(before) and best - before <= search.value_tolerance * abs(before):
            return Maximum(best_x, best, state, "failed-to-improve")


def _largest_free(x: Array, gradient: Array, bounds: tuple[Array, Array] | None) -> float:
    """Largest absolute entry of the gradient, without those that lead out of the box."""
    if bounds is not None:
        low, high = bounds
        gradient = np.where(((x <= low) & (gradient < 0)) | ((x >= high) & (gradient > 0)), 0.0, gradient)
    return float(np.abs(gradient).max(initial=0.0))
