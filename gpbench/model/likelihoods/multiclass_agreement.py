"""E_q of "the observed class has the largest latent value", with derivatives: what the robust-max bound is made of.

========  =====================================================================  ============
symbol    meaning                                                                shape
========  =====================================================================  ============
y         observed classes                                                       (n,)
μ, v      means and variances of the independent q(f_k)                          (n, C)
t, ϖ      nodes and weights of the rule for a standard normal                    (Q,)
α         (μ_y + √v_y t - μ_k) / √v_k for the other classes k                    (b, C-1, Q)
P         Σ_q ϖ_q Π_{k≠y} Φ(α_kq)                                                (n,)
========  =====================================================================  ============

The derivatives are those of the rule, so that P and they agree to the last digits (the code released with
villacampa2017 has those of the integral instead). Products without one factor come from products of those before and
of those after, without a division, since a factor may be 0.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from gpbench.errors import UsageError
from gpbench.model.quadrature import hermite

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels

__all__ = ["RULES", "agreement"]

RULES = ("trapezoid", "hermite")

SPAN = 10.0
"""The trapezoid's nodes lie on [-10, 10] standard deviations, as in the released code."""
NEGLIGIBLE = 1e-17
"""Nodes with a smaller weight are left out: a sixth of 100, and no digit changes."""
BLOCK_VALUES = 1 << 17
"""Values of Φ computed together: 1 MB, which stays in the cache."""
LEAST_VARIANCE = 1e-12
"""A variance below it counts as it: the integrand would be a step."""

_ROOT_2PI = float(np.sqrt(2.0 * np.pi))


def agreement(y: Labels, mu: Array, var: Array, *, rule: str = "trapezoid", nodes: int = 100) -> tuple[Array, ...]:
    """P and its derivatives.

    Parameters
    ----------
    y : (n,)
        Classes 0..C-1.
    mu, var : (n, C)
    rule : {"trapezoid", "hermite"}
        Gauss-Hermite with 20 nodes errs by 1e-2 where v_k is a thirtieth of v_y; the trapezoid's 100 by 1e-12.
    nodes : int
        Nodes of the rule.

    Returns
    -------
    P : (n,)
    by_mean, by_var : (n, C)
        ∂P/∂μ and ∂P/∂v.

    Raises
    ------
    UsageError
        An unknown rule or a number of nodes out of range.
    """
    t, weights = _rule(rule, nodes)
    n, C = mu.shape
    P, by_mean, by_var = np.empty(n), np.empty((n, C)), np.empty((n, C))
    classes = np.arange(C - 1)
    size = max(1, BLOCK_VALUES // ((C - 1) * len(t)))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        own = np.asarray(y[rows])[:, None]
        others = classes + (classes >= own)
        P[rows], *slopes = _block(mu[rows], np.maximum(var[rows], LEAST_VARIANCE), own, others, t=t, weights=weights)
        for out, (of_own, of_others) in zip((by_mean[rows], by_var[rows]), slopes, strict=True):
            np.put_along_axis(out, own, of_own[:, None], axis=1)
            np.put_along_axis(out, others, of_others, axis=1)
    return P, by_mean, by_var


def _block(
    mu: Array, var: Array, own: Labels, others: Labels, *, t: Array, weights: Array
) -> tuple[Array, tuple[Array, Array], tuple[Array, Array]]:
    """P (b,), and the derivatives in mean and variance: of the own class (b,) and of the others (b, C-1)."""
    sd_own = np.sqrt(np.take_along_axis(var, own, axis=1))
    sd = np.sqrt(np.take_along_axis(var, others, axis=1))
    gap = np.take_along_axis(mu, own, axis=1) - np.take_along_axis(mu, others, axis=1)
    alpha = (gap / sd)[:, :, None] + (sd_own / sd)[:, :, None] * t
    phi = special.ndtr(alpha)
    psi = np.square(alpha)  # becomes ϖ φ(α_k) Π_{j≠k} Φ(α_j)
    psi *= -0.5
    np.exp(psi, out=psi)
    psi *= weights / _ROOT_2PI
    product = phi[:, 0].copy()
    for k in range(1, phi.shape[1]):  # over classes, for all rows and nodes at once
        psi[:, k] *= product
        product *= phi[:, k]
    after = phi[:, -1].copy()
    for k in range(phi.shape[1] - 2, -1, -1):
        psi[:, k] *= after
        after *= phi[:, k]
    slope = psi.sum(axis=2) / sd
    with_node = psi @ t / sd
    alpha *= psi
    spread = alpha.sum(axis=2) / np.square(sd)
    of_mean = slope.sum(axis=1), -slope
    of_var = with_node.sum(axis=1) / (2.0 * sd_own[:, 0]), -0.5 * spread
    return product @ weights, of_mean, of_var


@lru_cache(maxsize=16)
def _rule(rule: str, nodes: int) -> tuple[Array, Array]:
    """Nodes and weights (Q,) for a standard normal."""
    if rule == "hermite":
        return hermite(nodes)
    if rule != "trapezoid":
        raise UsageError(f"the quadrature rule must be one of {', '.join(RULES)}; got {rule!r}")
    if not 2 <= nodes <= 10_000:
        raise UsageError(f"the number of quadrature nodes must be in [2, 10000]; got {nodes}")
    t = np.linspace(-SPAN, SPAN, nodes)
    weights = np.exp(-0.5 * t * t) * (t[1] - t[0]) / _ROOT_2PI
    keep = weights > NEGLIGIBLE * weights.max()
    return t[keep], weights[keep]
