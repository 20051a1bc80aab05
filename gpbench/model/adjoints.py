"""Adjoints of the kernel matrices: one routine for every bound that sees f through q(u) alone.

=========  ==============================================================================  ========
symbol     meaning                                                                         shape
=========  ==============================================================================  ========
F          the bound: Σ_n F_n(μ_n, s_n) - KL(q(u) || p(u)), data terms scaled to all rows   scalar
μ, s       mean and variance of q(f_n)                                                     (b,)
g, h       ∂F/∂μ and ∂F/∂s of the rows, scaled                                             (b,)
T          whitened features, row t_n = L⁻¹ k(Z, x_n)                                      (b, M)
L          lower Cholesky factor of K_mm, white noise and jitter on its diagonal           (M, M)
m_w, S_w   mean and covariance of the whitened v = L⁻¹ u                                   (M,), (M, M)
P, p       Tᵀ diag(h) T and Tᵀ g, summed over all rows                                     (M, M), (M,)
K̄          adjoint ∂F/∂K of a kernel matrix, to be given to the kernel's pullback
=========  ==============================================================================  ========

The adjoint of the diagonal of K_nn is h itself. With q(v) fixed, K_mm enters through L in T alone; with q(u) fixed
(mean L m_w and covariance L S_w Lᵀ do not move) through the KL as well. At a q that is optimal both give the same
gradient. Derivation: the matrix derivative of F with Murray's (2016) rule for the Cholesky factor.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.linalg import blas

from gpbench.model.rows import Array

__all__ = ["Hold", "cross_adjoint", "gram_adjoint"]

Hold = Literal["u", "v"]
"""What stays as it is while the kernel moves: q(u), or q(v) of the whitened v."""


def cross_adjoint(T: Array, *, g: Array, h: Array, m_w: Array, S_w: Array, L_inv: Array) -> Array:
    """Adjoint of K_nm = k(X, Z), the same whether q(u) or q(v) is held; O(b M²).

    K̄_nm = [g m_wᵀ + 2 diag(h) T (S_w - I)] L⁻¹, for the rows of T alone, so that a batch scheme can walk over blocks.

    Parameters
    ----------
    T : (b, M)
        Fortran-ordered, as all matrices here; other orders are right and slower.
    g, h : (b,)
    m_w : (M,)
    S_w : (M, M)
        Symmetric, both triangles.
    L_inv : (M, M)
        L⁻¹; its products replace triangular solves, which take twice as long at M = 100.

    Returns
    -------
    (b, M)
        Fortran-ordered.
    """
    inner = np.matmul(T, S_w)
    return inner_cross_adjoint(T, inner, g=g, h=h, m_w=m_w, L_inv=L_inv)


def inner_cross_adjoint(T: Array, TS: Array, *, g: Array, h: Array, m_w: Array, L_inv: Array) -> Array:
    """:func:`cross_adjoint` where T S_w is known already; overwrites ``TS``."""
    TS -= T
    TS *= (2.0 * h)[:, None]
    TS = blas.dger(1.0, g, m_w, a=TS, overwrite_a=1)
    return np.matmul(TS, L_inv)


def gram_adjoint(*, P: Array, p: Array, m_w: Array, S_w: Array, L_inv: Array, hold: Hold) -> Array:
    """Adjoint of K_mm, symmetric; O(M³), whatever the number of rows behind P and p.

    Parameters
    ----------
    P, S_w, L_inv : (M, M)
        P and S_w symmetric, both triangles.
    p, m_w : (M,)
    hold : {"u", "v"}
        Which q is held.

    Returns
    -------
    (M, M)
    """
    PS = np.matmul(P, S_w)
    if hold == "u":
        # L⁻ᵀ [P - P S - S P + ½(S - I) + ½ m mᵀ - ½(p mᵀ + m pᵀ)] L⁻¹, built as half of it plus its transpose
        half = 0.25 * S_w
        half += 0.5 * P
        half -= PS
        half = blas.dger(1.0, 0.25 * m_w - 0.5 * p, m_w, a=half, overwrite_a=1)
        inner = half + half.T
        inner.reshape(-1, order="A")[:: len(p) + 1] -= 0.5
    else:
        # -½ L⁻ᵀ [F(Y) + F(Y)ᵀ] L⁻¹ with Y = m pᵀ + 2 (S - I) P and F = lower triangle with half the diagonal
        Y = np.outer(m_w, p)
        Y += 2.0 * (PS.T - P)
        lower = np.tril(Y)
        lower.flat[:: len(p) + 1] *= 0.5
        inner = -0.5 * (lower + lower.T)
    return np.matmul(L_inv.T, np.matmul(inner, L_inv))
