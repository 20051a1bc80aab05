"""Gradient of a bound in a kernel's hyper-parameters and the inducing inputs, added up over row blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from gpbench.model.adjoints import Hold, cross_adjoint, gram_adjoint
from gpbench.model.linalg import add_to_diagonal

if TYPE_CHECKING:
    from gpbench.model.basis_old import Basis
    from gpbench.model.rows import Array
    from gpbench.model.whitened import Whitened

__all__ = ["KernelGradient"]


class KernelGradient:
    """Gradient of F = Σ_n F_n(μ_n, s_n) - KL(q(u) || p(u)); symbols as in :mod:`gpbench.model.adjoints`.

    Each block's adjoint goes to the kernel's pullback at once; nothing of the size of all rows is kept. For blocks of
    many rows K̄_nm = [2 diag(h) T, g] R with R = [S_w - I; m_wᵀ] L⁻¹, made once: one matrix product for a block instead
    of two, and one walk over its memory beside it instead of three.

    Parameters
    ----------
    basis : Basis
    q : Whitened
        What the blocks' marginals come from.
    """

    def __init__(self, basis: Basis, q: Whitened) -> None:
        self._basis, self._q = basis, q
        self._right: Array | None = None
        self._left = np.empty((0, len(q.m_w) + 1), order="F")
        self._adjoint = np.empty((0, len(q.m_w)), order="F")
        self._dtheta = np.zeros(basis.kernel.theta.size)
        self._dZ = np.zeros(basis.Z.shape)

    def add(self, X: Array, T: Array, *, g: Array, h: Array, TS: Array | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        X : (b, d)
            The rows that the basis whitened last.
        T : (b, M)
        g, h : (b,)
            ∂F/∂μ and ∂F/∂s.
        TS : (b, M), optional
            T S_w where it is known already.
        """
        basis = self._basis
        if TS is not None and len(T) <= len(basis.Z):
            q = self._q
            adjoint = cross_adjoint(T, TS=TS, g=g, h=h, m_w=q.m_w, S_w=q.S_w, L_inv=basis.L_inv)
        else:
            adjoint = self._product(T, g=g, h=h)
        dtheta, dZ = basis.features.pullback(adjoint)
        self._dtheta += dtheta
        self._dtheta += basis.kernel.diag_pullback(X, h)
        self._dZ += dZ

    def total(self, *, P: Array, p: Array, hold: Hold) -> tuple[Array, Array]:
        """Gradients in ``theta`` (P,) and Z (M, d), the part of K_mm included, with q(u) or q(v) held.

        Parameters
        ----------
        P : (M, M)
            Tᵀ diag(h) T over all rows, both triangles.
        p : (M,)
            Tᵀ g over all rows.
        hold : {"u", "v"}
        """
        q, basis = self._q, self._basis
        adjoint = gram_adjoint(P=P, p=p, m_w=q.m_w, S_w=q.S_w, L_inv=basis.L_inv, hold=hold)
        dtheta, dZ = basis.features.gram_pullback(adjoint)
        return self._dtheta + dtheta, self._dZ + dZ

    def _product(self, T: Array, *, g: Array, h: Array) -> Array:
        """K̄_nm (b, M), in a buffer."""
        b, M = T.shape
        if self._right is None:
            stacked = np.empty((M + 1, M), order="F")
            stacked[:M] = self._q.S_w
            add_to_diagonal(stacked[:M], -1.0)
            stacked[M] = self._q.m_w
            self._right = blas.dgemm(1.0, stacked, self._basis.L_inv)
        if len(self._left) != b:
            self._left = np.empty((b, M + 1), order="F")
            self._adjoint = np.empty((b, M), order="F")
        np.multiply(T, (2.0 * h)[:, None], out=self._left[:, :M])
        self._left[:, M] = g
        self._adjoint = blas.dgemm(1.0, self._left, self._right, c=self._adjoint, overwrite_c=1)
        return self._adjoint
