"""Step sizes of stochastic approximation: a rate that forgets ever less, and the adaptive rate of Ranganath et al."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError

__all__ = ["AdaptiveRate", "GrowingWindow"]

Array = npt.NDArray[np.float64]


class GrowingWindow:
    """Rate ρ_t = w / (w + t): an average over the last t/w steps or so, whatever t is.

    Parameters
    ----------
    w : float
        Larger forgets faster.
    """

    def __init__(self, w: float) -> None:
        if not w > 0:
            raise UsageError(f"the window of a rate must be positive; got {w}")
        self._w = w

    def rate(self, t: float) -> float:
        """ρ after t steps; 1 at t = 0."""
        return self._w / (self._w + t)


class AdaptiveRate:
    """Rate of Ranganath, Wang, Blei and Xing (2013): signal over signal and noise of the natural gradient.

    ``gbar`` and ``hbar`` follow the gradient and its squared norm with a memory of ``tau`` steps; ρ = |gbar|² / hbar;
    tau grows when ρ is small. Both begin as averages over ``first`` gradients, taken without moving.

    Parameters
    ----------
    first : int
        Number of gradients averaged before the first step.
    tau : float, optional
        First memory, by default ``first``.
    """

    def __init__(self, first: int, *, tau: float | None = None) -> None:
        self.tau = float(first) if tau is None else tau
        self.hbar = 0.0
        self._first = first
        self._seen = 0
        self._gbar: Array | None = None

    @property
    def ready(self) -> bool:
        """Whether enough gradients were seen to take a step."""
        return self._seen >= self._first

    def observe(self, gradient: Array) -> None:
        """Count a gradient in the first averages.

        Parameters
        ----------
        gradient : (k,)
            Target minus current natural parameters.
        """
        if self._gbar is None:
            self._gbar = np.zeros(gradient.shape)
        self._seen += 1
        self._gbar += (gradient - self._gbar) / self._seen
        self.hbar += (float(gradient @ gradient) - self.hbar) / self._seen

    def rate(self, gradient: Array) -> float:
        """ρ for the step along this gradient (k,)."""
        assert self._gbar is not None, "observe the first gradients before asking for a rate"
        weight = 1.0 / self.tau
        self._gbar += weight * (gradient - self._gbar)
        self.hbar += weight * (float(gradient @ gradient) - self.hbar)
        rho = float(self._gbar @ self._gbar) / self.hbar if self.hbar > 0 else 1.0
        rho = min(rho, 1.0) if math.isfinite(rho) else 1.0
        self.tau = self.tau * (1.0 - rho) + 1.0
        return rho
