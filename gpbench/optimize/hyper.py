"""Stochastic steps of a kernel's log hyper-parameters: Adam, a rate that falls like 1/t, a floor under the noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpbench.optimize.adam import Adam

if TYPE_CHECKING:
    from gpbench.model.kernels import Kernel

__all__ = ["KernelSteps"]

Array = npt.NDArray[np.float64]

LOG_RANGE = 30.0
"""Largest absolute value of a log hyper-parameter: the length scale of an input that does not matter grows for ever."""


class KernelSteps:
    """Adam on the logarithms of a kernel's hyper-parameters.

    Parameters
    ----------
    kernel : Kernel
        The kernel that the first step starts from.
    rate : float
        Step size at t = 0.
    decay : float
        Iterations after which it is halved; it falls like 1/t.
    thinning : float
        Iterations after which steps become rarer: the gap to the next is 1 + t/thinning, and the rate is multiplied
        by it. The kernel moves as far as with a step at each iteration, at a fraction of the cost.
    noise_floor : float
        Least white-noise variance, relative to the prior variance without it. Without a floor K_mm loses its
        condition, as the bound often drives the noise to 0.
    """

    def __init__(
        self, kernel: Kernel, *, rate: float, decay: float, noise_floor: float, thinning: float = math.inf
    ) -> None:
        self._adam = Adam(kernel.theta.size)
        self._rate, self._decay, self._thinning = rate, decay, thinning
        self._next = 0
        self._gap = 1
        self._floor = math.log(noise_floor) if noise_floor > 0 else -math.inf
        self._white = kernel.names.index("log_white") if "log_white" in kernel.names else None

    def due(self, t: int) -> bool:
        """Whether a step is to be taken at iteration t, counted from 0; to be asked at each."""
        if t < self._next:
            return False
        self._gap = 1 + int(t / self._thinning)
        self._next = t + self._gap
        return True

    def step(self, kernel: Kernel, gradient: Array, *, t: int, Z: Array) -> Kernel:
        """The next kernel.

        Parameters
        ----------
        kernel : Kernel
        gradient : (P,)
            Of the objective (to be maximised) in ``kernel.theta``.
        t : int
            Iterations so far.
        Z : (M, d)
            Inputs at whose mean prior variance the noise floor is taken.
        """
        rate = self._rate * self._gap / (1.0 + t / self._decay)
        theta = kernel.theta + self._adam.step(gradient, rate=rate)
        np.clip(theta, -LOG_RANGE, LOG_RANGE, out=theta)
        moved = kernel.with_theta(theta)
        if self._white is None:
            return moved
        prior = moved.constant_diag
        smooth = (float(moved.diag(Z).mean()) if prior is None else prior) - math.exp(theta[self._white])
        least = self._floor + math.log(smooth) if smooth > 0 else -math.inf
        if theta[self._white] >= least:
            return moved
        theta[self._white] = least
        return moved.with_theta(theta)
