"""The Poisson-lognormal probability ∫ Poisson(y | e^f) N(f | μ, s) df: predictive probabilities of counts.

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

import numpy as np
import numpy.typing as npt
from scipy import special

__all__ = ["log_poisson_lognormal"]

Array = npt.NDArray[np.float64]

_DROP = 37.0  # e^-37 is float64's precision
_REACH = math.sqrt(2.0 * _DROP)
_LEAST_VARIANCE = 1e-20
_STEP, _WIDEST = 0.6, 0.4
_MOST_NODES = 4096  # variances beyond 1e4 get a coarser rule
_ENTRIES = 1 << 18  # of a block of rows and nodes


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
