"""Gradient of scalable EP's log Z in one latent function's kernel and inducing inputs (villacampa2017, eq. 10).

========  ===============================================================================  ========
symbol    meaning                                                                          shape
========  ===============================================================================  ========
T         whitened features, row t_i = L⁻¹ k(Z, x_i), L the Cholesky factor of K_mm        (b, M)
S, m      covariance and mean of q(v), u = L v (in the tied form: of the cavity)           (M, M), (M,)
S_q, m_q  those of q(v) itself
λ, ξ, ζ   weights of m and S t_i, and the derivative in s_i = κ_i - |t_i|²                 (b,)
χ, T_w    weights of S t_w, and whitened vectors t_w = Lᵀw that sites stand on             (b,), (b, M)
e₁, e₂    mismatch of moments (exact gradient)                                             (b,)
ρ         rows in all / rows here                                                          scalar
T̄         λ mᵀ + diag(ξ) T S + diag(χ) T_w S - 2 diag(ζ) T, so that K̄_nm = ρ T̄ L⁻¹          (b, M)
V         (T̄ + diag(ζ) T)ᵀ T                                                               (M, M)
========  ===============================================================================  ========

With the sites held as functions of u, log q(u) moves with the prior alone, and

    K̄_mm = -½ L⁻ᵀ [I - S_q - m_q m_qᵀ + ρ (V + Vᵀ) - S Tᵀ diag(e₂) T S - x mᵀ - m xᵀ] L⁻¹,   x = S Tᵀ e₁,   κ̄ = ρ ζ,

the terms in e being zero at EP's fixed point and left out of eq. (10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from gpbench.model.linalg import add_to_diagonal

if TYPE_CHECKING:
    from gpbench.model.batch import BatchBasis
    from gpbench.model.rows import Array

__all__ = ["SiteGradient"]


class SiteGradient:
    """Sums over row blocks; each block's adjoint goes to the kernel at once.

    Parameters
    ----------
    basis : BatchBasis
    m : (M,)
    """

    def __init__(self, basis: BatchBasis, m: Array) -> None:
        M = len(m)
        self._basis, self._m = basis, m
        self._V = np.zeros((M, M), order="F")
        self._mismatch: Array | None = None
        self._theta, self._Z = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape)

    def add(self, X: Array, T: Array, TS: Array, *, lam: Array, xi: Array, zeta: Array, moved: Array | None) -> None:
        """Add the rows X (b, d) that the basis whitened last.

        Parameters
        ----------
        T, TS : (b, M)
            TS is overwritten.
        lam, xi, zeta : (b,)
        moved : (b, M) or None
            diag(χ) T_w S.
        """
        half = np.multiply(T, zeta[:, None], order="F")
        TS *= xi[:, None]
        TS -= half
        if moved is not None:
            TS += moved
        TS = blas.dger(1.0, lam, self._m, a=TS, overwrite_a=1)
        self._V = blas.dgemm(1.0, TS, T, trans_a=1, beta=1.0, c=self._V, overwrite_c=1)
        TS -= half
        dtheta, dZ = self._basis.cross_pullback(X, TS, h=zeta)
        self._theta += dtheta
        self._Z += dZ

    def add_mismatch(self, TS: Array, *, e1: Array, e2: Array) -> None:
        """Add what the exact gradient has beside eq. (10)."""
        x = blas.dgemv(1.0, TS, e1, trans=1)
        part = blas.dgemm(1.0, np.multiply(TS, e2[:, None], order="F"), TS, trans_a=1)
        outer = np.outer(x, self._m)
        part += outer
        part += outer.T
        self._mismatch = part if self._mismatch is None else self._mismatch + part

    def total(self, S_q: Array, m_q: Array, *, scale: float = 1.0) -> tuple[Array, Array]:
        """Gradients in ``theta`` (P,) and Z (M, d); scale is ρ, and of S_q the lower triangle counts."""
        V = self._V
        V *= scale
        Y = np.add(V, V.T, order="F")
        Y -= S_q
        Y = blas.dger(-1.0, m_q, m_q, a=Y, overwrite_a=1)
        add_to_diagonal(Y, 1.0)
        if self._mismatch is not None:
            Y -= self._mismatch
        dtheta, dZ = self._basis.gram_pullback(Y)
        return scale * self._theta + dtheta, scale * self._Z + dZ
