"""Steps of stochastic optimisation, for ascent on one flat vector: Adam, AdaDelta, rates of averages, and of kernels.

Sources: Kingma and Ba (2015) for Adam; Zeiler (2012) for AdaDelta, with Nesterov momentum as in the package climin; the
adaptive rate is that of Ranganath, Wang, Blei and Xing (2013).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError

if TYPE_CHECKING:
    from gpbench.model.kernels import Kernel

__all__ = ["AdaDelta", "Adam", "AdaptiveRate", "GrowingWindow", "KernelSteps", "SteadyAdam", "Steps"]

Array = npt.NDArray[np.float64]

LOG_RANGE = 30.0
"""Largest absolute value of a log hyper-parameter: the length scale of an input that does not matter grows for ever."""


class Steps(Protocol):
    """A rule of stochastic steps: :class:`AdaDelta` or :class:`SteadyAdam`."""

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
    every : int
        The least gap.
    noise_floor : float
        Least white-noise variance, relative to the prior variance without it. Without a floor K_mm loses its
        condition, as the bound often drives the noise to 0.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        rate: float,
        decay: float,
        noise_floor: float,
        thinning: float = math.inf,
        every: int = 1,
    ) -> None:
        self._adam = Adam(kernel.theta.size)
        self._rate, self._decay, self._thinning, self._every = rate, decay, thinning, every
        self._next = 0
        self._gap = 1
        self._floor = math.log(noise_floor) if noise_floor > 0 else -math.inf
        self._white = kernel.names.index("log_white") if "log_white" in kernel.names else None

    def due(self, t: int) -> bool:
        """Whether a step is to be taken at iteration t, counted from 0; to be asked at each."""
        if t < self._next:
            return False
        self._gap = max(self._every, 1 + int(t / self._thinning))
        self._next = t + self._gap
        return True

    def stretch(self, t: int) -> float:
        """What multiplies a first rate at iteration t: longer over a gap, and falling."""
        return self._gap / (1.0 + t / self._decay)

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
        rate = self._rate * self.stretch(t)
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
