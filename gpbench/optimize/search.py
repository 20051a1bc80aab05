"""What every search for a maximum shares: the objective, its evaluations counted, and the best point kept.

The caller is told of every evaluation and whether it was the best so far, so that it can keep that state and stop at
any time by raising.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from gpbench.errors import NumericalError

__all__ = ["Array", "Enough", "Evaluator", "Objective", "OnEvaluation", "Outcome", "Reason", "Search"]

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


class Search(Protocol):
    """A way to search for a maximum."""

    @property
    def gradient_tolerance(self) -> float:
        """Largest absolute entry of the gradient at which a search has converged."""

    @property
    def value_tolerance(self) -> float:
        """Relative rise of the value at which it has."""

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
            Evaluations at most, exactly; at least 1.
        bounds : pair of (k,), optional
            Least and largest values; no step ends beyond them.
        on_evaluation : callable, optional
            What it raises ends the search and is passed on.

        Raises
        ------
        NumericalError
            The objective has no value at x0.
        """


class Enough(Exception):
    """The evaluations are used up."""


class Evaluator:
    """The objective with its evaluations counted and the best point kept.

    Parameters
    ----------
    objective : callable
    max_evaluations : int
        Evaluations at most, exactly.
    on_evaluation : callable or None
        Told of each; what it raises is passed on.

    Attributes
    ----------
    x : (k,)
        The best point.
    value : float
        The objective there.
    evaluations, failures : int
        Points tried, and those where the objective had no finite value and gradient.
    """

    def __init__(self, objective: Objective, *, max_evaluations: int, on_evaluation: OnEvaluation | None) -> None:
        self.evaluations = self.failures = 0
        self.value, self.x = -math.inf, np.empty(0)
        self._objective, self._limit, self._tell = objective, max_evaluations, on_evaluation

    def __call__(self, x: Array) -> tuple[float, Array] | None:
        """Value and ascent gradient at x (k,); None where there are none.

        Raises
        ------
        Enough
            The evaluations are used up.
        NumericalError
            There are none at the first point.
        """
        if self.evaluations >= self._limit:
            raise Enough
        self.evaluations += 1
        try:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # looked at below
                value, gradient = self._objective(x)
        except NumericalError:
            if self.evaluations == 1:
                raise
            value, gradient = math.nan, x
        failed = not (math.isfinite(value) and bool(np.isfinite(gradient).all()))
        if failed and self.evaluations == 1:
            raise NumericalError(f"the objective has no finite value and gradient at the start; got {value}")
        self.failures += failed
        improved = not failed and value > self.value
        if improved:
            self.value, self.x = value, np.array(x)
        if self._tell is not None:
            self._tell(-math.inf if failed else value, improved=improved)
        return None if failed else (value, gradient)

    def outcome(self, reason: Reason) -> Outcome:
        """Where the search ended."""
        return Outcome(self.x, self.value, self.evaluations, self.failures, reason)
