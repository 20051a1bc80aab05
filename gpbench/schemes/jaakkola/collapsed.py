"""Bounds that are quadratic in f for each row, maximised over q(u) in closed form: site form, value, gradient.

=========  ==============================================================================  ============
symbol     meaning                                                                         shape
=========  ==============================================================================  ============
a, c, d    log p(y_n | f) is replaced by a_n + c_n f - ½ d_n f², d_n ≥ 0                   (n,)
T          whitened features, row t_n = L⁻¹ k(Z, x_n)                                      (n, M)
κ̃          diagonal of K_nn - K_nm K_mm⁻¹ K_mn                                             (n,)
C          Cholesky factor of I + Tᵀ diag(d) T                                             (M, M)
q(v)       N(m_w, S_w), S_w = (C Cᵀ)⁻¹, m_w = S_w Tᵀ c: the best q for these a, c, d
F          Σ a + ½ |C⁻¹ Tᵀ c|² - Σ log C_jj - ½ Σ d κ̃: the bound at that q                scalar
=========  ==============================================================================  ============

F's total derivative in kernel and Z is its partial one at q held (envelope theorem), with g = c - d μ and h = -d/2.
There Tᵀ diag(h) T and Tᵀ g need no sums of their own, as they are ½(I - Λ) and m_w. The value takes one walk over the
rows, the gradient a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpbench.model.kernel_gradient import KernelGradient
from gpbench.model.latent import Latent
from gpbench.model.linalg import trsv
from gpbench.model.whitened import BLOCK_ROWS, Block, Moments, Whitened, features, marginals

if TYPE_CHECKING:
    from gpbench.model.basis_old import Basis
    from gpbench.model.rows import Array, Rows

__all__ = ["Collapsed", "Quadratic", "RowQuadratics", "collapse", "collapsed_gradient", "finish"]


class Quadratic(NamedTuple):
    """a + c f - ½ d f² for some rows, each (b,)."""

    a: Array
    c: Array
    d: Array


RowQuadratics = Callable[[slice], Quadratic]
"""The quadratics of the rows of a slice."""


class Collapsed(NamedTuple):
    """The best q(v) for given quadratics.

    Attributes
    ----------
    value : float
        F.
    q : Whitened
    C : (M, M)
        Cholesky factor of its precision.
    sums : Moments
        Tᵀ diag(d) T and Tᵀ c.
    """

    value: float
    q: Whitened
    C: Array
    sums: Moments

    def latent(self, basis: Basis) -> Latent:
        """The latent function; holds copies."""
        return Latent(basis.kernel, basis.Z, m_w=self.q.m_w, root=self.C, form="precision", jitter=basis.jitter)


class Pending:
    """Sums of a walk in which the best q is gathered; ``finish`` ends it."""

    def __init__(self, M: int) -> None:
        self.sums = Moments(M)
        self.constant = 0.0

    def add(self, T: Array, variance: Array, rows: Quadratic) -> None:
        """Add rows with features T (b, M) and prior variance κ (b,)."""
        self.sums.add(T, weights=rows.d, targets=rows.c)
        self.constant += float(rows.a.sum() - 0.5 * (rows.d @ variance))


def finish(pending: Pending) -> Collapsed:
    """Best q and its value from the sums over all rows.

    Raises
    ------
    NumericalError
        The sums are not finite.
    """
    q, C = Whitened.of_sites(pending.sums)
    explained = trsv(C, pending.sums.r)
    # Σ d κ̃ = Σ d κ - Σ d |t|², and Σ d |t|² is the trace of Tᵀ diag(d) T
    value = pending.constant + 0.5 * float(np.trace(pending.sums.G) + explained @ explained)
    value -= float(np.log(np.diag(C)).sum())
    return Collapsed(value, q, C, pending.sums)


def collapse(basis: Basis, X: Rows, quadratics: RowQuadratics, *, size: int = BLOCK_ROWS) -> Collapsed:
    """Best q(v) for the rows X (n, d) with these quadratics, and its value; one walk over the rows.

    Raises
    ------
    NumericalError
        The sums are not finite.
    """
    pending = Pending(len(basis.Z))
    for rows, part, T in features(basis, X, size=size):
        pending.add(T, basis.kernel.diag(part), quadratics(rows))
    return finish(pending)


def collapsed_gradient(
    basis: Basis,
    X: Rows,
    quadratics: RowQuadratics,
    *,
    at: Collapsed,
    size: int = BLOCK_ROWS,
    see: Callable[[Block], None] | None = None,
) -> tuple[Array, Array]:
    """Gradient of F in ``theta`` (P,) and Z (M, d); a second walk over the rows.

    Parameters
    ----------
    basis, X, quadratics, size
        As for ``collapse``.
    at : Collapsed
        What ``collapse`` gave.
    see : callable, optional
        Shown each block of marginals, for gradients in what a, c and d depend on.
    """
    gradient = KernelGradient(basis, at.q)
    if see is None:
        for rows, part, T in features(basis, X, size=size):
            _, c, d = quadratics(rows)
            gradient.add(part, T, g=c - d * (T @ at.q.m_w), h=-0.5 * d)
    else:
        for block in marginals(basis, X, at.q, size=size):
            _, c, d = quadratics(block.rows)
            gradient.add(block.X, block.T, g=c - d * block.mu, h=-0.5 * d)
            see(block)
    return gradient.total(P=at.sums.symmetric(-0.5), p=at.q.m_w, hold="v")
