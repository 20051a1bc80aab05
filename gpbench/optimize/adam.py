"""Adam (Kingma and Ba 2015), for ascent, on one flat vector; and what a rule of stochastic steps is."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Adam", "SteadyAdam", "Steps"]

Array = npt.NDArray[np.float64]


class Steps(Protocol):
    """A rule of stochastic steps: :class:`gpbench.optimize.adadelta.AdaDelta`, or :class:`SteadyAdam`."""

    def look_ahead(self) -> Array | None:
        """What to add to the parameters before the gradient is taken, shape (size,); None: nothing."""

    def step(self, gradient: Array) -> Array:
        """What to add to them then, given the ascent gradient there; shape (size,)."""


class Adam:
    """Moments of the gradient and the steps that follow from them.

    The textbook form: epsilon is added to the root of the corrected second moment.

    Parameters
    ----------
    size : int
        Length of the parameter vector.
    beta1, beta2 : float
        Decay of the first and second moment.
    epsilon : float
        Offset of the denominator.
    """

    def __init__(self, size: int, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        self._m = np.zeros(size)
        self._v = np.zeros(size)
        self._t = 0
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon

    def step(self, gradient: Array, *, rate: float) -> Array:
        """What to add to the parameters, shape (size,), given the ascent gradient there."""
        self._t += 1
        self._m += (1.0 - self._beta1) * (gradient - self._m)
        self._v += (1.0 - self._beta2) * (gradient * gradient - self._v)
        scale = rate / (1.0 - self._beta1**self._t)
        root = math.sqrt(1.0 - self._beta2**self._t)
        return scale * self._m / (np.sqrt(self._v) / root + self._epsilon)


class SteadyAdam:
    """Adam with one rate, called as AdaDelta is.

    Parameters
    ----------
    size : int
        Length of the parameter vector.
    rate : float
        Step size.
    """

    def __init__(self, size: int, *, rate: float) -> None:
        self._adam, self._rate = Adam(size), rate

    def look_ahead(self) -> None:
        """Nothing: the gradient is taken where the parameters are."""

    def step(self, gradient: Array) -> Array:
        """What to add to the parameters, shape (size,), given the ascent gradient there."""
        return self._adam.step(gradient, rate=self._rate)
