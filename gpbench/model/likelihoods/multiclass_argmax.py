"""Probability that each of C independent Gaussian latent values is the largest, in log space.

========  ============================================================================  ============
symbol    meaning                                                                       shape
========  ============================================================================  ============
m, σ      mean and standard deviation of f_k                                            (n, C)
p_k       P(f_k > f_j for all j ≠ k) = ∫ N(x | m_k, σ_k²) Π_{j≠k} Φ((x - m_j)/σ_j) dx   (n, C)
x, w      nodes and weights of a row, the same for all its classes                      (b, Q)
j*        the class of the largest mean, M* that mean                                   (n,)
========  ============================================================================  ============

Source: villacampa2017, section 2 and likelihood (3). One grid for all classes of a row costs Q C values of log Φ, one
for each class Q C (C - 1) of them, since log Π_{j≠k} Φ_j = Σ_j log Φ_j - log Φ_k.

The integrand of class k is log-concave and no wider than σ_k, so that it lies between the lower end of f_k or of its
product with class j*, whichever is higher, and M* or m_k plus what σ_k spans: the grid covers that for every k, and a
probability of 1e-100 has as many correct digits as one of 0.1. Where the σ of a row are alike, equal steps converge
exponentially. Where one is much smaller than the others, Gauss-Legendre panels between breakpoints that lie close
together about each m_j take their place; they serve any ratio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from gpbench.model.functions import log_ndtr

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from gpbench.model.rows import Array

    Index = npt.NDArray[np.int64]

__all__ = ["log_argmax_probabilities"]

BLOCK_VALUES = 1 << 17
"""Values of log Φ computed together: 1 MB, which stays in the cache."""

SPAN = 8.5
"""Standard deviations to each side; what is left out is below 1e-16."""
STEP = 0.4
"""Equal steps, in the smallest σ of the row (errors of a probability: 1e-14 at five classes, 2e-9 at 26, measured)."""
ROUND = 16
"""Rows of one block have a number of nodes in common: a multiple of this."""

BREAKS = np.array([-9.0, -7.5, -6.0, -4.5, -2.5, 0.0, 2.5, 4.5, 6.0, 7.5, 9.0])
"""Breakpoints of the panels about each m_j, in σ_j."""
TAIL_BREAKS = np.array([-6.0, -3.0, -1.0, 1.0, 3.0, 6.0])
"""And about the place where classes k and j* meet."""
DECAY_BREAKS = np.array([1.0, 2.5, 5.0, 10.0, 20.0])
"""And above M*, in units of the length over which the density of class k falls there by e."""
PANEL_NODES = 8
NODES_PER_CLASS = PANEL_NODES * (len(BREAKS) + len(TAIL_BREAKS) + len(DECAY_BREAKS))
"""Of the panels; rows that would need more equal steps than these get panels."""

_LOG_ROOT_2PI = 0.5 * np.log(2.0 * np.pi)
_LEAST = 1e-8
"""Least σ, in units of the row's spread: what has no variance is compared as what has hardly any."""


def log_argmax_probabilities(mean: Array, var: Array) -> Array:
    """Log p_k of each class (nats), not renormalised: their sum differs from 1 by the error of the rule.

    Parameters
    ----------
    mean, var : (n, C)
        Of the latent values; a variance may be 0.

    Returns
    -------
    (n, C)
        At most 0, finite. Rows are independent: what else is in the batch does not change a result.
    """
    n, C = mean.shape
    out = np.empty((n, C))
    mean = mean - mean.max(axis=1, keepdims=True)  # differences count; narrow laws far from 0 would lose digits
    spread = np.ptp(mean, axis=1) + np.sqrt(var.max(axis=1, initial=0.0))
    least = _LEAST * np.where(spread > 0.0, spread, 1.0)
    sd = np.maximum(np.sqrt(var), least[:, None])
    low, high, meeting, width = _ranges(mean, sd)
    steps = np.ceil((high - low) / (STEP * sd.min(axis=1)))
    even = steps <= NODES_PER_CLASS * C
    counts = (np.where(even, steps, 0.0).astype(np.int64) // ROUND + 1) * ROUND
    for Q, rows in _groups(counts, even, C):
        m, s = mean[rows], sd[rows]
        if Q > 0:
            x = low[rows, None] + (high - low)[rows, None] * np.linspace(0.0, 1.0, Q)
            log_w = np.broadcast_to(np.log((high - low)[rows] / (Q - 1))[:, None], x.shape)
        else:
            x, log_w = _panels(m, s, low=low[rows], high=high[rows], meeting=meeting[rows], width=width[rows])
        out[rows] = _integrals(x, log_w, m, s)
    return np.minimum(out, 0.0, out=out)


def _ranges(mean: Array, sd: Array) -> tuple[Array, Array, Array, Array]:
    """Ends of the grid (n,), and place and width (n, C) of the product of each class with class j*."""
    best = mean.argmax(axis=1)[:, None]
    m_best, s_best = np.take_along_axis(mean, best, axis=1), np.take_along_axis(sd, best, axis=1)
    share = s_best**2 / (s_best**2 + sd**2)
    meeting = m_best + (mean - m_best) * share
    width = sd * np.sqrt(share)
    low = np.maximum(mean - SPAN * sd, meeting - SPAN * width)
    np.put_along_axis(low, best, m_best - SPAN * s_best, axis=1)
    high = np.maximum(mean, m_best) + SPAN * sd
    return low.min(axis=1), high.max(axis=1), meeting, width


def _groups(counts: Index, even: npt.NDArray[np.bool_], C: int) -> Iterator[tuple[int, Index]]:
    """Numbers of nodes (0: panels) and blocks of rows that take so many."""
    wanted = np.where(even, counts, 0)
    order = np.argsort(wanted, kind="stable")
    values, starts = np.unique(wanted[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    for Q, first, last in zip(values.tolist(), starts.tolist(), ends, strict=False):
        size = max(1, BLOCK_VALUES // ((Q or NODES_PER_CLASS * C) * C))
        for start in range(first, last, size):
            yield Q, order[start : min(start + size, last)]


def _panels(m: Array, s: Array, *, low: Array, high: Array, meeting: Array, width: Array) -> tuple[Array, Array]:
    """Nodes and log weights (b, Q) of Gauss-Legendre panels."""
    b = len(m)
    about = m[:, :, None] + s[:, :, None] * BREAKS
    tails = meeting[:, :, None] + width[:, :, None] * TAIL_BREAKS
    decay = np.square(s) / np.maximum(-m, s)
    parts = (about, tails, decay[:, :, None] * DECAY_BREAKS)  # the means are such that M* = 0
    breaks = np.concatenate([low[:, None], *(part.reshape(b, -1) for part in parts), high[:, None]], axis=1)
    np.clip(breaks, low[:, None], high[:, None], out=breaks)
    breaks.sort(axis=1)
    half = 0.5 * np.diff(breaks, axis=1)
    nodes, weights = special.roots_legendre(PANEL_NODES)
    x = (breaks[:, :-1] + half)[:, :, None] + half[:, :, None] * nodes
    with np.errstate(divide="ignore"):  # panels of no width weigh nothing
        log_w = np.log(half)[:, :, None] + np.log(weights)
    return x.reshape(b, -1), log_w.reshape(b, -1)


def _integrals(x: Array, log_w: Array, m: Array, s: Array) -> Array:
    """Log p (b, C) by the rule x, w."""
    z = (x[:, None, :] - m[:, :, None]) / s[:, :, None]
    log_phi = log_ndtr(z)
    total = log_phi.sum(axis=1)
    total += log_w
    np.square(z, out=z)
    z *= -0.5
    z -= log_phi
    z += total[:, None, :]
    top = z.max(axis=2)
    z -= top[:, :, None]
    np.exp(z, out=z)
    return np.asarray(top + np.log(z.sum(axis=2)) - np.log(s) - _LOG_ROOT_2PI)
