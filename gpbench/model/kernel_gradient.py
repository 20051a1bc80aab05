"""Gradient of a bound in a kernel's hyper-parameters and the inducing inputs, added up over row blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpbench.model.adjoints import Hold, buffers, cross_adjoint, gram_adjoint

if TYPE_CHECKING:
    from gpbench.model.basis import Basis
    from gpbench.model.rows import Array
    from gpbench.model.whitened import Block, Whitened

__all__ = ["KernelGradient"]


class KernelGradient:
    """Gradient of F = Σ_n F_n(μ_n, s_n) - KL(q(u) || p(u)); symbols as in :mod:`gpbench.model.adjoints`.

    Each block's adjoint goes to the kernel's pullback at once; nothing of the size of all rows is kept.

    Parameters
    ----------
    basis : Basis
    q : Whitened
        What the blocks' marginals come from.
    """

    def __init__(self, basis: Basis, q: Whitened) -> None:
        self._basis, self._q = basis, q
        self._work = buffers(0, len(q.m_w), count=2)
        self._dtheta = np.zeros(basis.kernel.theta.size)
        self._dZ = np.zeros(basis.Z.shape)

    def add(self, block: Block, *, g: Array, h: Array) -> None:
        """Add the rows of the last block of ``marginals``, with g = ∂F/∂μ and h = ∂F/∂s, each (b,)."""
        if self._work[0].shape[0] != block.T.shape[0]:
            self._work = buffers(*block.T.shape, count=2)
        q, basis = self._q, self._basis
        adjoint = cross_adjoint(
            block.T, TS=block.TS, g=g, h=h, m_w=q.m_w, S_w=q.S_w, L_inv=basis.L_inv, work=self._work
        )
        dtheta, dZ = basis.features.pullback(adjoint)
        self._dtheta += dtheta
        self._dtheta += basis.kernel.diag_pullback(block.X, h)
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
