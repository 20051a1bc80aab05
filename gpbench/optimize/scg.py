"""Scaled conjugate gradients (Møller 1993) for maximisation, with the budget and the survival of the other searches.

========  ==================================================================================  ==============
symbol    meaning                                                                             Møller's step
========  ==================================================================================  ==============
f, r      the objective, negated, and its steepest descent                                    1
p         search direction                                                                    1, 7
δ         curvature pᵀHp along p, from the gradient a little way along p                       2
λ         scale that is added to the curvature; it keeps δ positive and steps short           3, 4, 8
μ, α      slope pᵀr, and the step α = μ/δ                                                      5
Δ         fall of f divided by what the quadratic model foretold                              6
========  ==================================================================================  ==============

There is no line search: an iteration costs two evaluations, one for the curvature and one for the step. Where the
objective has no value the step counts as a failed one: λ grows and the next step is shorter. A step that leads beyond
the bounds ends on them, where the search begins again along what is still free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbench.optimize.search import Array, Enough, Evaluator, Objective, OnEvaluation, Outcome, Reason

__all__ = ["SCG"]

_SMALLEST = 1e-15
_ROUNDING = 1e-15
"""A rise that is foretold to be smaller than this, relatively, cannot be seen: its absence ends the search."""
_QUIET = 2
"""Small rises in a row that end the search; those count that the curvature made small. λ makes any rise small: beside a
region without values it grows until nothing moves, with whatever gradient."""


@dataclass(frozen=True, kw_only=True)
class SCG:
    """How to search.

    Attributes
    ----------
    gradient_tolerance : float
        Converged when the largest absolute entry of the gradient, without those that point beyond the bounds, is below
        it.
    value_tolerance : float
        Converged when the relative rise of the value is below it twice in a row, at steps whose length is due to the
        curvature more than to λ.
    max_iterations : int
        Directions at most.
    gradient_error : float
        Of the gradient. The curvature is measured over its square root, where the error and the change of the curvature
        itself weigh alike. Behind an inner loop it is that loop's tolerance: over a shorter way the loop finds that
        where it ended before still does, and the curvature is that of the objective with the inner unknowns held,
        which along a ridge is several times too large.
    """

    gradient_tolerance: float = 1e-5
    value_tolerance: float = 1e-9
    max_iterations: int = 1_000_000
    gradient_error: float = 1e-10

    def maximise(
        self,
        objective: Objective,
        x0: Array,
        *,
        max_evaluations: int,
        bounds: tuple[Array, Array] | None = None,
        on_evaluation: OnEvaluation | None = None,
    ) -> Outcome:
        """Climb from x0 (k,); see :class:`gpbench.optimize.search.Search`."""
        evaluator = Evaluator(objective, max_evaluations=max_evaluations, on_evaluation=on_evaluation)
        start = np.array(x0) if bounds is None else np.clip(x0, *bounds)
        reason: Reason
        try:
            reason = self._climb(evaluator, start, bounds)
        except Enough:
            reason = "evaluations"
        return evaluator.outcome(reason)

    def _climb(self, evaluator: Evaluator, x: Array, bounds: tuple[Array, Array] | None) -> Reason:
        found = evaluator(x)
        assert found is not None  # the first evaluation has a value or raises
        value, r = found[0], _free(found[1], x, bounds)
        p, lam, quiet, since_restart = r, 1.0, 0, 0
        curvature: float | None = None
        for _ in range(self.max_iterations):
            if _largest(r) <= self.gradient_tolerance:
                return "converged"
            mu, square = float(p @ r), float(p @ p)
            if mu <= 0.0:  # no ascent direction: begin again from the gradient
                p, curvature, since_restart = r, None, 0
                mu = square = float(r @ r)
            if curvature is None:
                sigma = math.sqrt(self.gradient_error) / math.sqrt(square)
                found = evaluator(x + sigma * p)
                curvature = 0.0 if found is None else float(p @ (r - found[1])) / sigma
            delta = curvature + lam * square
            if delta <= 0.0:  # f is not convex along p: Møller's step 4
                lam, delta = -2.0 * curvature / square, -curvature
            step = (mu / delta) * p
            there, part = _within(x, step, bounds)
            found = evaluator(there)
            foretold = (2.0 - part) * part  # of mu²/2δ, which the whole step should give
            ratio = -10.0 if found is None else 2.0 * delta * (found[0] - value) / (mu * mu) / foretold
            if found is not None and ratio >= 0.0:
                rise, before = found[0] - value, r
                if rise > self.value_tolerance * max(abs(value), 1.0):
                    quiet = 0
                elif lam * square <= curvature:
                    quiet += 1
                value, r = found[0], _free(found[1], there, bounds)
                x, curvature = there, None
                if quiet == _QUIET:
                    return "converged"
                since_restart += 1
                if since_restart == len(x) or part < 1.0:
                    p, since_restart = r, 0
                else:
                    p = _free(r + (float(r @ r - r @ before) / mu) * p, x, bounds)
                if ratio >= 0.75:
                    lam = max(0.25 * lam, _SMALLEST)
            if ratio < 0.25:
                lam += delta * (1.0 - max(ratio, -10.0)) / square
            if ratio <= 0.0 and 0.5 * mu * mu / delta <= _ROUNDING * max(abs(value), 1.0):
                return "line search"
        return "iterations"


def _free(direction: Array, x: Array, bounds: tuple[Array, Array] | None) -> Array:
    """The direction (k,) without what points beyond a bound that x (k,) lies on."""
    if bounds is None:
        return direction
    low, high = bounds
    return np.where(((x <= low) & (direction < 0.0)) | ((x >= high) & (direction > 0.0)), 0.0, direction)


def _within(x: Array, step: Array, bounds: tuple[Array, Array] | None) -> tuple[Array, float]:
    """Where a step (k,) from x (k,) leads, no farther than to the nearest bound, and what part of it that is."""
    if bounds is None:
        return x + step, 1.0
    nearest = np.where(step > 0.0, bounds[1], bounds[0])
    with np.errstate(over="ignore"):  # of a tiny step: no bound is near
        parts = np.divide(nearest - x, step, out=np.full_like(step, np.inf), where=step != 0.0)
    part = float(parts.min(initial=1.0))
    return np.where(parts <= part, nearest, x + part * step), part


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))
