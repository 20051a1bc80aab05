"""scipy's L-BFGS-B for maximisation, with an exact budget, failures that it survives, and the best point kept.

scipy minimises and keeps to itself what it has when it is interrupted. Here the caller is told of every evaluation and
whether it was the best so far, so that it can keep that state and stop at any time by raising.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, minimize

from gpbench.errors import NumericalError

__all__ = ["LBFGSB", "Outcome", "Reason"]

Array = npt.NDArray[np.float64]

Objective = Callable[[Array], tuple[float, Array]]
"""Value and ascent gradient (k,) at x (k,); may raise NumericalError where there is no value."""


class OnEvaluation(Protocol):
    """Told of each evaluation; may raise to end the search."""

    def __call__(self, value: float, *, improved: bool) -> None:
        """Take the value (minus infinity: there is none) and whether it is the best so far."""


Reason = Literal["converged", "evaluations", "iterations", "line search"]


@dataclass(frozen=True)
class Outcome:
    """Where a search ended.

    Attributes
    ----------
    x : (k,)
        The best point.
    value : float
        The objective there.
    evaluations, failures : int
        Points tried, and those among them where the objective had no value.
    reason : {"converged", "evaluations", "iterations", "line search"}
        Which rule ended it; ``line search``: no step along the last direction was good enough, which is what rounding
        does near an optimum, and what failures do.
    """

    x: Array
    value: float
    evaluations: int
    failures: int
    reason: Reason


class _Enough(Exception):
    """The evaluations are used up."""


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
        """Climb from x0.

        Parameters
        ----------
        objective : callable
        x0 : (k,)
        max_evaluations : int
            Evaluations at most, exactly (scipy's own limit is looked at between line searches only); at least 1.
        bounds : pair of (k,), optional
            Least and largest values.
        on_evaluation : callable, optional
            What it raises ends the search and is passed on.

        Raises
        ------
        NumericalError
            The objective has no value at x0.
        """
        search = _Search(objective, max_evaluations=max_evaluations, on_evaluation=on_evaluation)
        box = None if bounds is None else Bounds(*bounds)
        start = np.array(x0) if bounds is None else np.clip(x0, *bounds)
        reason: Reason
        try:
            result = minimize(
                search,
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
        except _Enough:
            reason = "evaluations"
        else:
            reason = "converged" if result.status == 0 else "iterations" if result.status == 1 else "line search"
        return Outcome(search.x, search.value, search.evaluations, search.failures, reason)


class _Search:
    """The objective as scipy sees it: negated, and finite everywhere."""

    def __init__(self, objective: Objective, *, max_evaluations: int, on_evaluation: OnEvaluation | None) -> None:
        self.evaluations = self.failures = 0
        self.value, self.x = -math.inf, np.empty(0)
        self._worst = math.inf
        self._objective, self._limit, self._tell = objective, max_evaluations, on_evaluation

    def __call__(self, x: Array) -> tuple[float, Array]:
        if self.evaluations >= self._limit:
            raise _Enough
        self.evaluations += 1
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # looked at below
                value, gradient = self._objective(x)
        except NumericalError:
            if self.evaluations == 1:
                raise
            value, gradient = math.nan, x
        failed = not (math.isfinite(value) and bool(np.isfinite(gradient).all()))
        if failed and self.evaluations == 1:
            raise NumericalError(f"the objective has no finite value and gradient at the start; got {value}")
        if failed:
            self.failures += 1
            # large, so that the line search steps back; not so large that its interpolation falls to nothing
            value, gradient = self._worst - 10.0 * (1.0 + abs(self._worst)), np.zeros_like(x)
        else:
            self._worst = min(self._worst, value)
        improved = not failed and value > self.value
        if improved:
            self.value, self.x = value, np.array(x)
        if self._tell is not None:
            self._tell(-math.inf if failed else value, improved=improved)
        return -value, -gradient
