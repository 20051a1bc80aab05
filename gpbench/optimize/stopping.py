"""When stochastic optimisation has converged: checks on a geometric grid of iterations, and two rules."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["Checks", "HeldOut", "ParameterChange"]

Array = npt.NDArray[np.float64]


class Checks:
    """Iterations at which to look: ``first``, then each ``ratio`` times the one before.

    Under step sizes like 1/t what changes between two looks does not depend on when they are, so one threshold serves
    short runs and long ones, and the looks cost nothing that matters.
    """

    def __init__(self, *, first: int, ratio: float) -> None:
        self._next, self._ratio = first, ratio

    def due(self, t: int) -> bool:
        """Whether to look at iteration t; to be asked at each."""
        if t < self._next:
            return False
        self._next = max(t + 1, math.ceil(t * self._ratio))
        return True


class ParameterChange:
    """Converged when the mean relative change of the parameters, for one iteration, falls below a tolerance.

    The relative change of an entry is |x - x'| / ½(|x| + |x'|), as in the code of Wenzel et al. (2019); here x and
    x' are as far apart as two checks, and their change is divided by the iterations between, which averages noise out.
    """

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._t = 0
        self._x: Array | None = None

    def converged(self, t: int, x: Array) -> bool:
        """Take the parameters x (k,) at iteration t."""
        before, since = self._x, t - self._t
        self._x, self._t = x, t
        if before is None:
            return False
        size = 0.5 * (np.abs(x) + np.abs(before))
        change = np.divide(np.abs(x - before), size, out=np.zeros_like(x), where=size > 0)
        return float(change.mean()) < self._tolerance * since


class HeldOut:
    """Converged when the held-out loss has not fallen by a relative tolerance over the last ``patience`` checks."""

    def __init__(self, tolerance: float, *, patience: int) -> None:
        self._tolerance, self._patience = tolerance, patience
        self._losses: list[float] = []

    def converged(self, loss: float) -> bool:
        """Take the loss at a check."""
        self._losses.append(loss)
        if len(self._losses) <= self._patience:
            return False
        before = min(self._losses[: -self._patience])
        return min(self._losses[-self._patience :]) > before - self._tolerance * abs(before)
