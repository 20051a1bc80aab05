"""The logistic-normal integral p(a, s) = E σ(f), f ~ N(-a, s): predictive probabilities of the logit likelihood.

Fixed Gauss-Hermite rules fail once √s is a few times the width of σ (64 nodes: 1e-3 at s = 1e4). Four facts give
11 digits at all (a, s), for less:

1. σ(f) = e^f σ(-f), hence p(a, s) = e^(s/2 - a) p(s - a, s): only a <= s/2 is ever integrated, where p is not tiny,
   and what is tiny comes out in logarithms.
2. The trapezoid rule converges geometrically for integrands analytic in a strip (Trefethen and Weideman 2014); σ has
   its poles at ±iπ. With step η in units of √s, its nodes taken in pairs ±qη and
   σ(-a+x) + σ(-a-x) = 1 - sinh(a) / (cosh(a) + cosh(x)),

       p = 1/2 - sinh(a)/2 Σ_q w_q / (cosh(a) + c_q),   c_q = cosh(qη√s),   w_q ∝ exp(-(qη)²/2).

3. c_(q+1) = 2 c_1 c_q - c_(q-1), so that a pair costs one division and four cheap operations and no exponential.
4. For large s the roles swap: E σ(f) = P(f > ε), ε logistic, = E Φ(-(a + ε)/√s), whose integrand is nearly linear
   there; 16 Gauss nodes for the logistic law suffice.

The number of pairs depends on s alone, in tiers; a row's value never depends on its neighbours.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special
from scipy.linalg import eigh_tridiagonal

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["log_tail"]

# largest s, range of the trapezoid rule in units of √s, pairs of nodes: the fewest with 1e-11 relative error, measured
_TIERS = ((1.0, 7.0, 11), (4.0, 7.0, 20), (9.0, 7.0, 30), (25.0, 7.4, 52), (64.0, 8.0, 90))
_LOGISTIC_NODES = 16
_BLOCK = 4096  # six vectors of this length fit the level-two cache
_FAR = 500.0  # σ(500) is 1 and cosh(500) still a float64


def log_tail(a: Array, s: Array) -> Array:
    """Logarithm of E σ(f), f ~ N(-a, s).

    Absolute error of the probability below 1e-11, relative error below 2e-11 (up to s = 1e4), also where the
    probability underflows.

    Parameters
    ----------
    a : (n,)
        Negative means.
    s : (n,)
        Variances, not negative. Where a or s is NaN, so is the result.
    """
    result = np.empty(a.shape)
    for start in range(0, a.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        result[part] = _block(a[part], s[part])
    return result


def _block(a: Array, s: Array) -> Array:
    folded = a > 0.5 * s
    b = np.maximum(np.where(folded, s - a, a), -_FAR)
    tier = np.searchsorted([limit for limit, _, _ in _TIERS], s)
    first = int(tier[0])
    if (tier == first).all():  # the common case, without gathering
        log_p = _integral(b, s, first)
    else:
        log_p = np.empty(a.shape)
        for level in np.unique(tier).tolist():
            rows = np.flatnonzero(tier == level)
            log_p[rows] = _integral(b[rows], s[rows], level)
    log_p += np.where(folded, 0.5 * s - a, 0.0)
    return log_p


def _integral(b: Array, s: Array, tier: int) -> Array:
    if tier == len(_TIERS):
        return _swapped(b, s)
    _, reach, pairs = _TIERS[tier]
    return _trapezoid(b, s, reach=reach, pairs=pairs)


def _trapezoid(b: Array, s: Array, *, reach: float, pairs: int) -> Array:
    weights = _trapezoid_weights(reach, pairs)
    centre = np.cosh(b)
    before = np.ones_like(b)
    cosh = np.cosh((reach / pairs) * np.sqrt(s))
    twice = 2.0 * cosh
    total = weights[0] / (centre + 1.0)
    work = np.empty_like(b)
    for weight in weights[1:]:
        np.add(centre, cosh, out=work)
        np.divide(weight, work, out=work)
        np.add(total, work, out=total)
        np.multiply(twice, cosh, out=work)
        np.subtract(work, before, out=before)
        before, cosh = cosh, before
    np.multiply(np.sinh(b), total, out=total)
    return np.log(0.5 - 0.5 * total)


def _swapped(b: Array, s: Array) -> Array:
    nodes, weights = _logistic_rule(_LOGISTIC_NODES)
    logs = special.log_ndtr((-b - nodes[:, None]) / np.sqrt(s))
    top = logs.max(axis=0)
    return np.asarray(top + np.log(weights @ np.exp(logs - top)))


@lru_cache(maxsize=16)
def _trapezoid_weights(reach: float, pairs: int) -> tuple[float, ...]:
    t = reach / pairs * np.arange(pairs + 1)
    w = np.exp(-0.5 * t * t)
    w[0] *= 0.5
    return tuple((w / w.sum()).tolist())


@lru_cache(maxsize=4)
def _logistic_rule(Q: int) -> tuple[Array, Array]:
    """Gauss rule for the standard logistic density by Golub and Welsch.

    Its orthogonal polynomials are continuous Hahn polynomials with parameters 1/2, with the three-term coefficients
    π² n⁴ / (4n² - 1).
    """
    n = np.arange(1.0, Q)
    nodes, vectors = eigh_tridiagonal(np.zeros(Q), math.pi * n * n / np.sqrt(4.0 * n * n - 1.0))
    return np.asarray(nodes, dtype=np.float64), np.asarray(vectors[0] ** 2, dtype=np.float64)
