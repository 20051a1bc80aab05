"""Predictive probabilities of ordinal categories: differences of logistic-normal tails, taken on the smaller side.

=========  ====================================================================================  ==========
symbol     meaning                                                                               shape
=========  ====================================================================================  ==========
lo, hi     edges of an interval, times the slope; maybe infinite                                 (n,)
μ, s       mean and variance of k f                                                              (n,)
p          P(lo < k f + ε < hi), ε logistic: E [σ(hi - kf) - σ(lo - kf)]                         (n,)
=========  ====================================================================================  ==========

The tails come with 11 digits (:mod:`gpbench.model.likelihoods.logistic_normal`), in logarithms. An interval to the
right of μ is the difference of two upper tails, one to the left that of two lower ones, so that little cancels unless
the interval is narrow; one narrower than 1e-3 is widened to that about its middle, and its probability scaled back:
the density is smooth on the scale of 1, so that this costs 1e-7 at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpbench.model.likelihoods.logistic_normal import log_tail

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["category_log_probabilities", "observed_log_probability"]

_NARROW = 1e-3


def observed_log_probability(lo: Array, hi: Array, mu: Array, s: Array) -> Array:
    """Log p of each row's own interval, shape (n,)."""
    out = np.empty(mu.shape)
    first, last = np.isneginf(lo), np.isposinf(hi)
    out[first] = log_tail(mu[first] - hi[first], s[first])
    out[last] = log_tail(lo[last] - mu[last], s[last])
    inner = ~(first | last)
    out[inner] = _between(lo[inner] - mu[inner], hi[inner] - mu[inner], s[inner])
    return out


def category_log_probabilities(edges: Array, mu: Array, s: Array) -> Array:
    """Log p of each category, shape (n, L), for the edges (L-1,) times the slope."""
    out = np.empty((len(mu), len(edges) + 1))
    out[:, 0] = log_tail(mu - edges[0], s)
    out[:, -1] = log_tail(edges[-1] - mu, s)
    for j in range(1, len(edges)):
        out[:, j] = _between(edges[j - 1] - mu, edges[j] - mu, s)
    return out


def _between(lo: Array, hi: Array, s: Array) -> Array:
    middle, width = 0.5 * (lo + hi), hi - lo
    wide = np.maximum(width, _NARROW)
    side = np.abs(middle)  # by symmetry every interval lies to the right
    near, far = log_tail(side - 0.5 * wide, s), log_tail(side + 0.5 * wide, s)
    return np.asarray(near + np.log(-np.expm1(far - near)) + np.log(width / wide))
