"""What the bound of vi-mgpc sums up over rows for one class, through whitened features.

========  =====================================================================  ============
symbol    meaning                                                                shape
========  =====================================================================  ============
T         whitened features, row t_i = L_K⁻¹ k(Z, x_i)                           (b, M)
m_w, L_w  mean and lower triangular root of the whitened q(v)                    (M,), (M, M)
μ, v      mean t_iᵀ m_w and variance κ̃_i + |L_wᵀ t_i|² of q(f_i): (16), (17)     (b,)
g, h      derivatives of the bound in μ and v; h has either sign                 (b,)
T̄         adjoint of T, through μ and v: g m_wᵀ + 2 diag(h) T (L_w L_wᵀ - I)     (b, M)
========  =====================================================================  ============
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from gpbench.model.linalg import trmm

if TYPE_CHECKING:
    from gpbench.model.batch import BatchBasis
    from gpbench.model.rows import Array

__all__ = ["ClassSums"]


class ClassSums:
    """One class: its marginals in a block of rows, and what its gradient needs, summed up over blocks.

    Parameters
    ----------
    basis : BatchBasis
    m_w, L_w : (M,), (M, M)
    kernel_gradient : bool
        Whether ``Y``, ``theta`` and ``Z`` are summed up.

    Attributes
    ----------
    mean, root : (M,), (M, M)
        Σ g t_i, and Σ 2h t_i (L_wᵀt_i)ᵀ: the data's part of the gradients in m_w and (lower triangle) in L_w.
    Y : (M, M) or None
        T̄ᵀT; what else depends on L_K is to be added.
    theta, Z : (P,), (M, d)
        The gradient that goes through K_nm and κ.
    """

    def __init__(self, basis: BatchBasis, m_w: Array, L_w: Array, *, kernel_gradient: bool) -> None:
        M = len(m_w)
        self.basis, self.m_w, self.L_w = basis, m_w, L_w
        self.mean, self.root = np.zeros(M), np.zeros((M, M), order="F")
        self.Y = np.zeros((M, M), order="F") if kernel_gradient else None
        self.theta, self.Z = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape)
        self._T = self._TL = np.empty((0, M))

    def marginals(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance (b,) of q(f) at the rows X (b, d)."""
        T, s = self.basis.whiten(X)
        TL = trmm(self.L_w, T, side="right")
        s += np.einsum("ij,ij->i", TL, TL)
        self._T, self._TL = T, TL
        return blas.dgemv(1.0, T, self.m_w), np.maximum(s, 0.0, out=s)

    def add(self, X: Array, *, g: Array, h: Array) -> None:
        """Add the rows of the last ``marginals``, with the derivatives g, h (b,) in their mean and variance."""
        T, TL, twice = self._T, self._TL, (2.0 * h)[:, None]
        self.mean += blas.dgemv(1.0, T, g, trans=1)
        self.root = blas.dgemm(1.0, T * twice, TL, trans_a=1, beta=1.0, c=self.root, overwrite_c=1)
        if self.Y is None:
            return
        T_bar = trmm(self.L_w, TL, side="right", trans=True, overwrite=True)
        T_bar -= T
        T_bar *= twice
        T_bar = blas.dger(1.0, g, self.m_w, a=T_bar, overwrite_a=1)
        self.Y = blas.dgemm(1.0, T_bar, T, trans_a=1, beta=1.0, c=self.Y, overwrite_c=1)
        dtheta, dZ = self.basis.cross_pullback(X, T_bar, h=h)
        self.theta += dtheta
        self.Z += dZ
