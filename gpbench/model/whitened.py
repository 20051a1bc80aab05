"""q(v) of the whitened inducing values, the marginals of f that it gives, and the sums over rows that bounds need.

==========  ==============================================================================  ============
symbol      meaning                                                                         shape
==========  ==============================================================================  ============
u = L v     function values at the inducing inputs; v is standard normal under the prior    (M,)
m_w, S_w    mean and covariance of q(v)                                                     (M,), (M, M)
L_w         any square root, S_w = L_w L_wᵀ                                                 (M, M)
Λ, C        precision of q(v) in site form, Λ = I + Tᵀ diag(d) T = C Cᵀ                     (M, M)
d, c        site precisions and site targets, m_w = Λ⁻¹ Tᵀ c                                (n,)
T           whitened features, row t_n = L⁻¹ k(Z, x_n)                                      (b, M)
κ̃           diagonal of K_nn - K_nm K_mm⁻¹ K_mn                                             (b,)
μ, s        mean t_nᵀ m_w and variance κ̃_n + t_nᵀ S_w t_n of q(f_n)                         (b,)
==========  ==============================================================================  ============
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from scipy.linalg import blas

from gpbench.model.linalg import add_to_diagonal, inverse_lower, potrf, trsv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.model.basis_old import Basis
    from gpbench.model.rows import Array, Rows

__all__ = ["BLOCK_ROWS", "Block", "Moments", "Whitened", "features", "marginals"]

BLOCK_ROWS = 1024
"""Rows in a block: its matrices at M = 100 fit the second-level cache, and calls cost nothing beside the work."""


@dataclass(frozen=True, eq=False)
class Whitened:
    """q(v) = N(m_w, S_w).

    Attributes
    ----------
    m_w : (M,)
    S_w : (M, M)
        Both triangles, Fortran-ordered.
    kl : float
        KL(q(v) || N(0, I)), which is KL(q(u) || p(u)).
    """

    m_w: Array
    S_w: Array
    kl: float

    @classmethod
    def of_root(cls, m_w: Array, L_w: Array) -> Self:
        """From a lower triangular root; the signs of its diagonal are free."""
        S_w = blas.dgemm(1.0, L_w, L_w, trans_b=1)
        log_root = float(np.log(np.abs(np.diag(L_w))).sum())
        return cls(m_w, S_w, 0.5 * float(np.trace(S_w) + m_w @ m_w - len(m_w)) - log_root)

    @classmethod
    def of_sites(cls, sums: Moments) -> tuple[Self, Array]:
        """From the sums Tᵀ diag(d) T and Tᵀ c over all rows; also gives C (M, M).

        No jitter is needed: the eigenvalues of Λ are 1 or more.

        Raises
        ------
        NumericalError
            The sums are not finite.
        """
        precision = sums.G.copy(order="F")
        add_to_diagonal(precision, 1.0)
        C = potrf(precision, what="the posterior precision", overwrite=True)
        return cls.of_factor(trsv(C, trsv(C, sums.r), trans=True), C), C

    @classmethod
    def of_factor(cls, m_w: Array, C: Array) -> Self:
        """From the Cholesky factor C (M, M) of the precision."""
        C_inv = inverse_lower(C)
        S_w = blas.dgemm(1.0, C_inv, C_inv, trans_a=1)
        log_C = float(np.log(np.diag(C)).sum())
        return cls(m_w, S_w, 0.5 * float(np.trace(S_w) + m_w @ m_w - len(m_w)) + log_C)

    @classmethod
    def prior(cls, M: int) -> Self:
        """N(0, I)."""
        return cls(np.zeros(M), np.asfortranarray(np.eye(M)), 0.0)


class Block(NamedTuple):
    """Marginals of some rows, ``remainder`` being κ̃; the matrices are buffers that the next block overwrites."""

    rows: slice
    X: Array
    T: Array
    TS: Array
    remainder: Array
    mu: Array
    s: Array


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Slices of ``size`` rows that cover n; the last may be shorter."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def features(basis: Basis, X: Rows, *, size: int = BLOCK_ROWS) -> Iterator[tuple[slice, Array, Array]]:
    """Row numbers, rows (b, d) and whitened features T (b, M), block by block; T is a buffer that the next overwrites.

    What ``marginals`` gives beside them costs as much again, and sums over rows often do without.
    """
    T = np.empty((0, len(basis.Z)), order="F")
    for rows in row_blocks(len(X), size):
        part = X[rows]
        K = basis.features.cross(part)
        if T.shape[0] != K.shape[0]:
            T = np.empty(K.shape, order="F")
        T = blas.dgemm(1.0, K, basis.L_inv, trans_b=1, c=T, overwrite_c=1)
        yield rows, part, T


def marginals(basis: Basis, X: Rows, q: Whitened, *, size: int = BLOCK_ROWS) -> Iterator[Block]:
    """Marginals of q(f) at the rows X (n, d), block by block; memory is that of a block."""
    TS = np.empty((0, len(q.m_w)), order="F")
    for rows in row_blocks(len(X), size):
        part = X[rows]
        T, remainder = basis.whiten(part)
        if TS.shape[0] != T.shape[0]:
            TS = np.empty(T.shape, order="F")
        TS = blas.dgemm(1.0, T, q.S_w, c=TS, overwrite_c=1)
        s = np.einsum("ij,ij->i", T, TS)
        s += remainder
        yield Block(rows, part, T, TS, remainder, blas.dgemv(1.0, T, q.m_w), np.maximum(s, 0.0, out=s))


class Moments:
    """Sums over rows G = Tᵀ diag(w) T and r = Tᵀ c, with weights w that are not negative.

    Attributes
    ----------
    G : (M, M)
        Lower triangle; the upper one is zero.
    r : (M,)
    """

    def __init__(self, M: int) -> None:
        self.G = np.zeros((M, M), order="F")
        self.r = np.zeros(M)
        self._scaled = np.empty((0, M), order="F")

    def add(self, T: Array, *, weights: Array, targets: Array) -> None:
        """Add rows T (b, M) with weights w (b,) and targets c (b,)."""
        if self._scaled.shape[0] != T.shape[0]:
            self._scaled = np.empty(T.shape, order="F")
        np.multiply(T, np.sqrt(weights)[:, None], out=self._scaled)
        self.G = blas.dsyrk(1.0, self._scaled, trans=1, lower=1, beta=1.0, c=self.G, overwrite_c=1)
        self.r += blas.dgemv(1.0, T, targets, trans=1)

    def symmetric(self, factor: float) -> Array:
        """A multiple of G with both triangles, a new array."""
        full = self.G + self.G.T  # what is above G's diagonal is zero: dsyrk leaves it alone
        full.flat[:: len(full) + 1] *= 0.5
        full *= factor
        return np.asfortranarray(full)
