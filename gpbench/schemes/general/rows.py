"""Training rows as a sparse model sees them: whitened features and what the inducing values leave unexplained.

=========  ===============================================================================  ==========
symbol     meaning                                                                          shape
=========  ===============================================================================  ==========
T          whitened features, row t_n = L⁻¹ k(Z, x_n)                                       (n, M)
κ̃          diagonal of K_nn - K_nm K_mm⁻¹ K_mn, white noise included                        (n,)
L_w, C     root of the covariance S_w = L_w L_wᵀ of v, or factor of its precision C Cᵀ      (M, M)
μ, s       mean T m_w and variance κ̃ + diag(T S_w Tᵀ) of q(f₀), f₀ = f - c                  (n,)
=========  ===============================================================================  ==========

Two kinds: all rows with an active set (the features are kept where they fit, else worked out again on each walk), and
the active set's own rows, for which K_nm = K_mm, jitter and noise included, so that T = L and κ̃ = 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from gpbench.model.kernel_gradient import KernelGradient
from gpbench.model.linalg import add_to_diagonal, inverse_lower, trsv
from gpbench.model.whitened import BLOCK_ROWS, Moments, features, row_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.model.basis_old import Basis
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.model.whitened import Whitened

__all__ = ["KEEP_BYTES", "FeatureRows", "SparseRows", "SubsetRows"]

KEEP_BYTES = 128 * 2**20
"""Features of no more than this are kept: a walk over them costs a third of one that works them out again."""


class FeatureRows(ABC):
    """Rows with their targets.

    Parameters
    ----------
    basis : Basis
        The kernel at the active set.
    y : (n,)
        Targets.

    Attributes
    ----------
    remainder : (n,)
        κ̃.
    """

    remainder: Array

    def __init__(self, basis: Basis, y: Labels) -> None:
        self.basis, self.y = basis, np.asarray(y)
        self._work = np.empty((0, len(basis.Z)), order="F")

    @property
    def M(self) -> int:
        """Number of inducing values."""
        return len(self.basis.Z)

    @abstractmethod
    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Row numbers and T (b, M), Fortran-ordered, block by block; T is not to be changed."""

    @abstractmethod
    def kernel_gradient(self, q: Whitened, *, g: Array, h: Array, G: Array, p: Array) -> tuple[Array, Array, float]:
        """Gradients of the bound in ``theta`` (P,), in Z (M, d), and in the constant mean, at a q that is optimal.

        Parameters
        ----------
        q : Whitened
        g, h : (n,)
            Derivatives of the data terms in μ and s.
        G, p : (M, M), (M,)
            Tᵀ diag(h) T, both triangles, and Tᵀ g.
        """

    def moments(self, *, weights: Array, targets: Array) -> Moments:
        """Sums Tᵀ diag(w) T and Tᵀ c with w (n,), not negative, and c (n,)."""
        sums = Moments(self.M)
        for rows, T in self.blocks():
            sums.add(T, weights=weights[rows], targets=targets[rows])
        return sums

    def means(self, m_w: Array) -> Array:
        """T m_w, shape (n,)."""
        out = np.empty(len(self.y))
        for rows, T in self.blocks():
            out[rows] = blas.dgemv(1.0, T, m_w)
        return out

    def sums(self, targets: Array) -> Array:
        """Tᵀ c, shape (M,)."""
        out = np.zeros(self.M)
        for rows, T in self.blocks():
            out += blas.dgemv(1.0, T, targets[rows], trans=1)
        return out

    def variances_of_precision(self, C: Array) -> Array:
        """The variances s for S_w = (C Cᵀ)⁻¹, shape (n,)."""
        return self._variances(inverse_lower(C), transposed=True)

    def variances_of_root(self, L_w: Array) -> Array:
        """The variances s for S_w = L_w L_wᵀ, L_w lower triangular, shape (n,)."""
        return self._variances(L_w, transposed=False)

    def _variances(self, factor: Array, *, transposed: bool) -> Array:
        out = self.remainder.copy()
        for rows, T in self.blocks():
            if self._work.shape != T.shape:
                self._work = np.empty(T.shape, order="F")
            self._work[...] = T
            # a triangular product takes half the time of a full one; T C⁻ᵀ or T L_w
            R = blas.dtrmm(1.0, factor, self._work, side=1, lower=1, trans_a=int(transposed), overwrite_b=1)
            out[rows] += np.einsum("ij,ij->i", R, R)
        return out


class SparseRows(FeatureRows):
    """All rows with an active set.

    Parameters
    ----------
    basis, y
    X : (n, d)
    size : int
        Rows in a block.
    keep : int
        Bytes of features that are kept at most.
    """

    def __init__(self, basis: Basis, y: Labels, *, X: Rows, size: int = BLOCK_ROWS, keep: int = KEEP_BYTES) -> None:
        super().__init__(basis, y)
        self._X, self._size = X, size
        self._kept: list[tuple[slice, Array]] | None = None
        n = len(self.y)
        self.remainder = np.empty(n)
        kept: list[tuple[slice, Array]] | None = [] if 8 * n * self.M <= keep else None
        for rows, part, T in features(basis, X, size=size):
            kappa = basis.kernel.diag(part)
            kappa -= np.einsum("ij,ij->i", T, T)
            self.remainder[rows] = np.maximum(kappa, 0.0, out=kappa)
            if kept is not None:
                kept.append((rows, T.copy(order="F")))
        self._kept = kept

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """As in the base."""
        if self._kept is not None:
            yield from self._kept
            return
        for rows, _, T in features(self.basis, self._X, size=self._size):
            yield rows, T

    def kernel_gradient(self, q: Whitened, *, g: Array, h: Array, G: Array, p: Array) -> tuple[Array, Array, float]:
        """As in the base; q(v) is held, which at the optimum is as good as q(u). The mean's gradient is then Σ g."""
        gradient = KernelGradient(self.basis, q)
        for rows, part, T in features(self.basis, self._X, size=self._size):
            gradient.add(part, T, g=g[rows], h=h[rows])
        dtheta, dZ = gradient.total(P=G, p=p, hold="v")
        return dtheta, dZ, float(g.sum())


class SubsetRows(FeatureRows):
    """The active set's own rows, as if there were no others: T = L, κ̃ = 0.

    Parameters
    ----------
    basis
    y : (M,)
        Targets of the active set.
    size : int
        Rows in a block.
    """

    def __init__(self, basis: Basis, y: Labels, *, size: int = BLOCK_ROWS) -> None:
        super().__init__(basis, y)
        self.remainder = np.zeros(self.M)
        self._size = size

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """As in the base."""
        for rows in row_blocks(self.M, self._size):
            yield rows, np.asfortranarray(self.basis.L[rows])

    def kernel_gradient(self, q: Whitened, *, g: Array, h: Array, G: Array, p: Array) -> tuple[Array, Array, float]:  # noqa: ARG002
        """As in the base; with q(u) held μ = m and s = diag(V) stand still, so that KL(q(u) || p(u)) alone moves.

        K̄ = ½ L⁻ᵀ (S_w + m_w m_wᵀ - I) L⁻¹; the mean's gradient is 1ᵀ K⁻¹ (m - c).
        """
        inner = q.S_w + np.outer(q.m_w, q.m_w)
        add_to_diagonal(inner, -1.0)
        L_inv = self.basis.L_inv
        adjoint = 0.5 * (L_inv.T @ inner @ L_inv)
        dtheta, dZ = self.basis.features.gram_pullback(np.asfortranarray(0.5 * (adjoint + adjoint.T)))
        return dtheta, dZ, float(trsv(self.basis.L, q.m_w, trans=True).sum())
