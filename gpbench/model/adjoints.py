"""Adjoints of the kernel matrices: one routine for every bound that sees f through q(u) alone.

=========  ==============================================================================  ========
symbol     meaning                                                                         shape
=========  ==============================================================================  ========
F          the bound Σ_n F_n(μ_n, s_n) - KL(q(u) || p(u)), data terms scaled to all rows    scalar
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
gradient. L⁻¹ is handed in, since at M = 100 its products take half the time of triangular solves.

Matrices are Fortran-ordered float64; others are copied first. ``work`` holds buffers for the hot path: where memory is
fresh, a new 100 x 100 array costs more than the arithmetic on it (250 against 3 us, measured).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.linalg import blas

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Hold", "buffers", "cross_adjoint", "gram_adjoint"]

Hold = Literal["u", "v"]
"""What stays as it is while the kernel moves: q(u), or q(v) of the whitened v."""


def buffers(rows: int, columns: int, *, count: int) -> list[Array]:
    """Uninitialised Fortran-ordered arrays (rows, columns)."""
    return [np.empty((rows, columns), order="F") for _ in range(count)]


def cross_adjoint(
    T: Array,
    *,
    TS: Array | None = None,
    g: Array,
    h: Array,
    m_w: Array,
    S_w: Array,
    L_inv: Array,
    work: list[Array] | None = None,
) -> Array:
    """Adjoint of K_nm = k(X, Z), the same whether q(u) or q(v) is held; O(b M²).

    K̄_nm = [g m_wᵀ + 2 diag(h) T (S_w - I)] L⁻¹, row by row, so that a batch scheme can walk over blocks.

    Parameters
    ----------
    T : (b, M)
    TS : (b, M), optional
        T S_w where it is known already.
    g, h : (b,)
    m_w : (M,)
    S_w, L_inv : (M, M)
        S_w symmetric, both triangles.
    work : list of (b, M), optional
        Two buffers; the result is the second.

    Returns
    -------
    (b, M)
    """
    inner, out = buffers(*T.shape, count=2) if work is None else work
    if TS is None:
        TS = blas.dgemm(1.0, T, S_w, c=inner, overwrite_c=1)
    np.subtract(TS, T, out=inner)
    inner *= (2.0 * h)[:, None]
    inner = blas.dger(1.0, g, m_w, a=inner, overwrite_a=1)
    return blas.dgemm(1.0, inner, L_inv, c=out, overwrite_c=1)


def gram_adjoint(
    *, P: Array, p: Array, m_w: Array, S_w: Array, L_inv: Array, hold: Hold, work: list[Array] | None = None
) -> Array:
    """Adjoint of K_mm, symmetric; O(M³), whatever the number of rows behind P and p.

    Parameters
    ----------
    P, S_w, L_inv : (M, M)
        P and S_w symmetric, both triangles.
    p, m_w : (M,)
    hold : {"u", "v"}
        Which q is held.
    work : list of (M, M), optional
        Two buffers; the result is the second.

    Returns
    -------
    (M, M)
    """
    first, second = buffers(*P.shape, count=2) if work is None else work
    half = blas.dgemm(-1.0, P, S_w, c=first, overwrite_c=1)
    if hold == "u":
        # L⁻ᵀ [P - P S - S P + ½(S - I) + ½ m mᵀ - ½(p mᵀ + m pᵀ)] L⁻¹, built as half of it plus its transpose
        np.multiply(S_w, 0.5, out=second)
        second += P
        second *= 0.5
        half += second
        half = blas.dger(1.0, 0.25 * m_w - 0.5 * p, m_w, a=half, overwrite_a=1)
        diagonal = 0.25
    else:
        # -½ L⁻ᵀ [F(Y) + F(Y)ᵀ] L⁻¹ with Y = m pᵀ + 2 (S - I) P and F = lower triangle with half the diagonal
        half += P
        Y = np.outer(m_w, p) - 2.0 * half.T
        half[...] = -0.5 * np.tril(Y)
        half.flat[:: len(p) + 1] *= 0.5
        diagonal = 0.0
    np.add(half, half.T, out=second)
    if diagonal:
        second.T.reshape(-1)[:: len(p) + 1] -= 2.0 * diagonal
    inner = blas.dgemm(1.0, second, L_inv, c=first, overwrite_c=1)
    return blas.dgemm(1.0, L_inv, inner, trans_a=1, c=second, overwrite_c=1)
