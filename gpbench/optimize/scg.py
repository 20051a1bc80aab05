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
objective has no value, or beyond the bounds, the step counts as a failed one: λ grows and the next step is shorter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpbench.optimize.search import Array, Enough, Evaluator, Objective, OnEvaluation, Outcome, Reason

__all__ = ["SCG"]

_PROBE = 1e-5
"""Distance at which the curvature is measured: the gradient's error (1e-9 behind an inner loop) is divided by it."""
_SMALLEST = 1e-15
_ROUNDING = 1e-15
"""A rise that is foretold to be smaller than this, relatively, cannot be seen."""
_QUIET = 2
"""Small rises in a row that end the search; one alone may be due to a large λ."""


@dataclass(frozen=True, kw_only=True)
class SCG:
    """How to search.

    Attributes
    ----------
    gradient_tolerance : float
        Converged when the largest absolute entry of the gradient is below it.
    value_tolerance : float
        Converged when the relative rise of the value is below it twice in a row.
    max_iterations : int
        Directions at most.
    """

    gradient_tolerance: float = 1e-5
    value_tolerance: float = 1e-9
    max_iterations: int = 1_000_000

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
        value, r = found
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
                curvature = _curvature(evaluator, x, p=p, r=r, square=square)
            delta = curvature + lam * square
            if delta <= 0.0:  # f is not convex along p: Møller's step 4
                lam, delta = -2.0 * curvature / square, -curvature
            step = (mu / delta) * p
            found = evaluator(x + step) if _within(x + step, bounds) else None
            ratio = -10.0 if found is None else 2.0 * delta * (found[0] - value) / (mu * mu)
            if found is not None and ratio >= 0.0:
                rise, before = found[0] - value, r
                value, r = found
                x, curvature = x + step, None
                quiet = quiet + 1 if rise <= self.value_tolerance * max(abs(value), 1.0) else 0
                if quiet == _QUIET:
                    return "converged"
                since_restart += 1
                if since_restart == len(x):
                    p, since_restart = r, 0
                else:
                    p = r + (float(r @ r - r @ before) / mu) * p
                if ratio >= 0.75:
                    lam = max(0.25 * lam, _SMALLEST)
            if ratio < 0.25:
                lam += delta * (1.0 - max(ratio, -10.0)) / square
            if ratio < 0.0 and 0.5 * mu * mu / delta <= _ROUNDING * max(abs(value), 1.0):
                return "line search"
        return "iterations"


def _curvature(evaluator: Evaluator, x: Array, *, p: Array, r: Array, square: float) -> float:
    """pᵀHp of the negated objective; 0 where it has no value a little way along p."""
    sigma = _PROBE / math.sqrt(square)
    found = evaluator(x + sigma * p)
    return 0.0 if found is None else float(p @ (r - found[1])) / sigma


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))


def _within(x: Array, bounds: tuple[Array, Array] | None) -> bool:
    return bounds is None or bool((x >= bounds[0]).all() and (x <= bounds[1]).all())
