"""Gradient ascent with a rate for each parameter, which grows while its gradient keeps its sign (villacampa2017).

The rule of the supplementary material: a rate starts at ``first``; it grows by a ratio (there 1.02), up to 1, when the
gradient has the sign that it had the time before, and is halved when it has not. It multiplies the gradient: a step
knows more than its sign. ``longest`` bounds a single step, which the rule itself does not: at the first iteration a
gradient is as large as the number of rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["SignRates"]

Array = npt.NDArray[np.float64]

SHRINK, MOST = 0.5, 1.0


class SignRates:
    """Rates and the last gradient.

    Parameters
    ----------
    size : int
        Number of parameters.
    first : float
        First rate of each.
    growth : float
        Ratio by which a rate grows.
    longest : float
        Largest absolute step of a parameter.
    """

    def __init__(self, size: int, *, first: float = 0.01, growth: float = 1.02, longest: float = np.inf) -> None:
        self.rates = np.full(size, first)
        self._growth, self._longest = growth, longest
        self._last = np.zeros(size)

    def step(self, gradient: Array) -> Array:
        """What to add to the parameters, shape (size,), given the ascent gradient there."""
        agree = gradient * self._last
        self.rates[agree > 0] *= self._growth
        self.rates[agree < 0] *= SHRINK
        np.minimum(self.rates, MOST, out=self.rates)
        self._last = np.array(gradient)
        return self._step()

    def shorter(self) -> Array:
        """The last step again, at half of every rate."""
        self.rates *= SHRINK
        return self._step()

    def _step(self) -> Array:
        return np.clip(self.rates * self._last, -self._longest, self._longest)
