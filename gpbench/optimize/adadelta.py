"""AdaDelta (Zeiler 2012) with Nesterov momentum as in the package climin, for ascent, on one flat vector."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["AdaDelta"]

Array = npt.NDArray[np.float64]


class AdaDelta:
    """Steps η g √(s̄² + o) / √(ḡ² + o) from running means of the squared gradients g and squared steps.

    With momentum β the gradient is taken where the last step, shortened by β, would lead: add :meth:`look_ahead` to the
    parameters, take the gradient, add :meth:`step`. This is climin since 2015; in 2014 the look-ahead was shortened by
    the rate as well. The offset makes the steps depend on the scale of the objective.

    Parameters
    ----------
    size : int
        Length of the parameter vector.
    rate : float
        η; climin's default is 1, hensman2015 has 0.1.
    decay : float
        Of both running means.
    momentum : float
        β.
    offset : float
        o.
    """

    def __init__(
        self, size: int, *, rate: float = 0.1, decay: float = 0.9, momentum: float = 0.9, offset: float = 1e-4
    ) -> None:
        self._rate, self._decay, self._momentum, self._offset = rate, decay, momentum, offset
        self._gradients = np.zeros(size)
        self._steps = np.zeros(size)
        self._last = np.zeros(size)

    def look_ahead(self) -> Array:
        """What to add to the parameters before the gradient is taken, shape (size,)."""
        self._last *= self._momentum
        return self._last

    def step(self, gradient: Array) -> Array:
        """What to add to the parameters after :meth:`look_ahead`, given the ascent gradient there; shape (size,)."""
        d = self._decay
        self._gradients *= d
        self._gradients += (1.0 - d) * np.square(gradient)
        step = (self._steps + self._offset) / (self._gradients + self._offset)
        np.sqrt(step, out=step)
        step *= gradient
        step *= self._rate
        self._last = self._last + step
        self._steps *= d
        self._steps += (1.0 - d) * np.square(self._last)
        return step
