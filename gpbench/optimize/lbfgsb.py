"""scipy's L-BFGS-B for maximisation, with an exact budget, failures that it survives, and the best point kept.

scipy minimises and keeps to itself what it has when it is interrupted; :mod:`gpbench.optimize.search` keeps it for the
caller.

Where every unknown has two bounds, scipy takes the whole gradient as its first step, which leads far out (with 400 rows
a gradient in log θ is of the order of 100); it takes one of length 1 otherwise. An idle unknown without bounds, which
the objective never sees, makes the first step one of length 1 always.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, minimize

from gpbench.optimize.search import Array, Enough, Evaluator, Objective, OnEvaluation, Outcome, Reason

__all__ = ["LBFGSB", "Outcome", "Reason"]


@dataclass(frozen=True, kw_only=True)
class LBFGSB:
    """How to search.

    Attributes
    ----------
    memory : int
        Pairs that the Hessian is approximated from (scipy's maxcor).
    gradient_tolerance : float
        Converged when the largest absolute entry of the projected gradient is below it (gtol): an absolute number, so
        the objective should be in nats for all rows, not for one.
    value_tolerance : float
        Converged when the relative rise of the value is below it (ftol).
    max_iterations : int
        Line searches at most.
    """

    memory: int = 20
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
        """Climb from x0 (k,); see :class:`gpbench.optimize.search.Search`.

        scipy's own limit of evaluations is looked at between line searches only; ours is exact.
        """
        evaluator = Evaluator(objective, max_evaluations=max_evaluations, on_evaluation=on_evaluation)
        box, start = None, np.array(x0)
        if bounds is not None:
            low, high = bounds
            start = np.clip(x0, low, high)
            if np.isfinite(low).all() and np.isfinite(high).all():
                low, high, start = np.append(low, -np.inf), np.append(high, np.inf), np.append(start, 0.0)
            box = Bounds(low, high)
        reason: Reason
        try:
            result = minimize(
                _Minimised(evaluator, k=len(x0)),
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=box,
                options={
                    "maxcor": self.memory,
                    "gtol": self.gradient_tolerance,
                    "ftol": self.value_tolerance,
                    "maxiter": self.max_iterations,
                    "maxfun": max_evaluations + 1,  # ours comes first
                },
            )
        except Enough:
            reason = "evaluations"
        else:
            reason = "converged" if result.status == 0 else "iterations" if result.status == 1 else "line search"
        return evaluator.outcome(reason)


class _Minimised:
    """The objective as scipy sees it: negated, finite everywhere, and flat in what stands behind its k unknowns."""

    def __init__(self, evaluator: Evaluator, *, k: int) -> None:
        self._evaluator, self._worst, self._k = evaluator, math.inf, k

    def __call__(self, x: Array) -> tuple[float, Array]:
        found = self._evaluator(x[: self._k])
        if found is None:
            # large, so that the line search steps back; not so large that its interpolation falls to nothing
            return 10.0 * (1.0 + abs(self._worst)) - self._worst, np.zeros_like(x)
        value, gradient = found
        self._worst = min(self._worst, value)
        downhill = np.zeros_like(x)
        np.negative(gradient, out=downhill[: self._k])
        return -value, downhill
