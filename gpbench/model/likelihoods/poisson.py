"""Poisson likelihood of counts with the exponential link: p(y | f) = exp(y f - e^f) / y! (sheth2015, table 1).

Everything but the predictive probability has a closed form; with E = exp(mu + var/2)

    e = y mu - E - log y!,    g = y - E,    h = -E/2.

The predictive probability is the Poisson-lognormal integral ∫ Poisson(y | e^f) N(f | μ, s) df:

========  =============================================================================  =====
symbol    meaning                                                                        shape
========  =============================================================================  =====
y, μ, s   count, mean and variance of f                                                  (n,)
ψ(f)      y f - e^f - (f - μ)²/(2s), concave                                             (n,)
f*        its maximum: with ω = s e^f*, ω + log ω = log s + μ + s y, Wright's function   (n,)
σ̂         (-ψ''(f*))^-½ = √(s / (1 + ω))                                                 (n,)
========  =============================================================================  =====

A fixed Gauss-Hermite rule misses the integrand where the count is large (at y = 1e6 it is 1e-3 wide) and is coarse
where the variance is (e^-e^f is a step of width 1). The trapezoid rule over the interval in which ψ is less than 37
below its maximum converges geometrically: the integrand is entire, and decays fast as long as |Im f| < π/2. The
step is the smaller of 0.6 σ̂ and 0.4, which gives 1e-10 relative; rows with as many nodes, a power of two, are worked
on together, so that a row's value never depends on its neighbours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from gpbench.errors import DataError
from gpbench.model.likelihoods.base import Likelihood, Prediction, check_no_classes, fractional_error

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels

__all__ = ["Poisson", "log_poisson_lognormal"]

_LARGEST = 300.0
"""Exponents are cut here: e^300 is beyond every count, and its square and sums of many are still float64 numbers."""

_DROP = 37.0  # e^-37 is float64's precision
_REACH = math.sqrt(2.0 * _DROP)
_LEAST_VARIANCE = 1e-20
_STEP, _WIDEST = 0.6, 0.4
_MOST_NODES = 4096  # variances beyond 1e4 get a coarser rule
_ENTRIES = 1 << 18  # of a block of rows and nodes


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts with intensity e^f."""

    name: ClassVar[str] = "poisson"
    tasks: ClassVar[frozenset[str]] = frozenset({"count"})

    def n_latent(self, classes: int) -> int:
        """One latent function.

        Raises
        ------
        UsageError
            There are classes.
        """
        check_no_classes(self.name, classes)
        return 1

    def check_targets(self, y: Labels, classes: int) -> None:
        """Check that the targets are counts.

        Raises
        ------
        UsageError
            There are classes.
        DataError
            A target is no integer, or negative.
        """
        check_no_classes(self.name, classes)
        y = np.asarray(y)
        if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
            raise DataError(f"counts must be a vector of integers 0, 1, 2, ...; got {y.dtype} of shape {y.shape}")
        if y.size and y.min() < 0:
            raise DataError(f"counts must be 0 or more; got {y.min()}")

    def log_density(self, y: Labels, f: Array) -> Array:
        """Log p(y | f), shape (n,)."""
        return np.asarray(y * f - _intensity(f) - special.gammaln(np.asarray(y) + 1.0))

    def derivatives(self, y: Labels, f: Array) -> tuple[Array, Array]:
        """First and second derivative of log p(y | f) in f, each of shape (n,)."""
        intensity = _intensity(f)
        return y - intensity, -intensity

    def third_derivative(self, y: Labels, f: Array) -> Array:  # noqa: ARG002 - the same for all counts
        """Third derivative of log p(y | f) in f, shape (n,)."""
        return -_intensity(f)

    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:
        """E ℓ under f ~ N(mu, var) and its derivatives e, g, h, each of shape (n,)."""
        mean = _intensity(mu + 0.5 * var)
        return y * mu - mean - special.gammaln(np.asarray(y) + 1.0), y - mean, -0.5 * mean

    def tilted_mode(self, y: Labels, mean: Array, var: Array, *, power: float) -> tuple[Array, Array]:
        """Where p(y|f)ᵃ N(f; mean, var) is largest, and minus the second derivative of its logarithm there, each (n,).

        With B = mean + a var y the mode solves f + a var e^f = B: a var e^f = ω(B + log(a var)) with Wright's ω.
        """
        scale = power * var
        right = mean + scale * y
        intensity = special.wrightomega(right + np.log(scale))  # times scale
        return right - intensity, (1.0 + intensity) / var

    def predict(self, mean: Array, var: Array) -> Prediction:
        """Predictive mean, from the latent mean and variance, each of shape (n, 1)."""
        return Prediction(_intensity(mean[:, 0] + 0.5 * var[:, 0]))

    def log_predictive(self, y: Labels, mean: Array, var: Array) -> Array:
        """Log predictive probability of the observed count, shape (n,)."""
        return log_poisson_lognormal(np.asarray(y, dtype=np.float64), mean[:, 0], var[:, 0])

    def error(self, y: Labels, point: Labels) -> Array:
        """Fractional error |y - ŷ| / max(y, 1), shape (n,)."""
        return fractional_error(y, point)


def _intensity(f: Array) -> Array:
    return np.asarray(np.exp(np.minimum(f, _LARGEST)))


def log_poisson_lognormal(y: Array, mu: Array, s: Array) -> Array:
    """Logarithm of the probability of counts.

    Parameters
    ----------
    y : (n,)
        Counts.
    mu, s : (n,)
        Mean and variance of f; the variance is not negative.

    Returns
    -------
    (n,)
        Nats. Where mu or s is NaN, so is the result.
    """
    s = np.maximum(s, _LEAST_VARIANCE)
    log_s = np.log(s)
    omega = special.wrightomega(log_s + mu + s * y)
    far = omega > 1.0
    log_omega = np.log(np.where(far, omega, 1.0))
    shift = np.where(far, log_omega - log_s - mu, s * y - omega)  # f* - μ, in the form that cancels less
    intensity = omega / s  # e^f*
    width = np.sqrt(s / (1.0 + omega))
    left, right = _left(intensity, s), _REACH * width
    needed = (left + right) / np.minimum(_STEP * width, _WIDEST)
    doublings = np.ceil(np.log2(np.clip(np.nan_to_num(needed, nan=2.0), 2.0, _MOST_NODES))).astype(np.int64)
    result = np.empty(mu.shape)
    for power in np.unique(doublings).tolist():
        rows = np.flatnonzero(doublings == power)
        size = max(1, _ENTRIES >> power)
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            log_sum = _trapezoid(s[part], intensity[part], left=left[part], right=right[part], nodes=1 << power)
            result[part] = log_sum - 0.5 * (log_s[part] + math.log(2.0 * math.pi))
    f = mu + shift
    return np.asarray(result + y * f - intensity - 0.5 * shift * shift / s - special.gammaln(y + 1.0))


def _left(intensity: Array, s: Array) -> Array:
    """How far to the left of f* ψ has fallen by 37.

    It falls by (e^-δ - 1 + δ) e^f* + δ²/(2s), and e^-δ - 1 + δ is at least 0.36 δ² for δ ≤ 1, 0.36 δ beyond.
    """
    near = _REACH / np.sqrt(1.0 / s + 0.72 * intensity)
    linear = np.maximum(1.0, _DROP / (0.36 * np.maximum(intensity, 1e-300)))
    return np.where(near <= 1.0, near, np.minimum(_REACH * np.sqrt(s), linear))


def _trapezoid(s: Array, intensity: Array, *, left: Array, right: Array, nodes: int) -> Array:
    """Logarithm of ∫ exp(ψ(f) - ψ(f*)) df for each row; at f* the linear terms of ψ cancel."""
    step = (left + right) / nodes
    delta = -left[:, None] + step[:, None] * np.arange(nodes + 1)  # f - f*
    drop = intensity[:, None] * _excess(delta)
    drop += delta * (delta / (2.0 * s)[:, None])
    return np.asarray(np.log(np.exp(-drop).sum(axis=1) * step))


def _excess(delta: Array) -> Array:
    """e^δ - 1 - δ without cancellation for small δ."""
    small = np.abs(delta) < 1e-2
    d = np.where(small, delta, 0.0)
    series = d * d * (0.5 + d * (1.0 / 6.0 + d * (1.0 / 24.0 + d * (1.0 / 120.0 + d / 720.0))))
    return np.where(small, series, np.expm1(np.minimum(delta, 300.0)) - delta)
