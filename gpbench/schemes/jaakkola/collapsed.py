"""Quadratic replacements of log σ(y f), and their bound maximised over q(u) in closed form: value and gradient.

=========  ==============================================================================  ============
symbol     meaning                                                                         shape
=========  ==============================================================================  ============
a, c, d    log p(y_n | f) is replaced by a_n + c_n f - ½ d_n f², d_n ≥ 0                   (n,)
T          whitened features, row t_n = L⁻¹ k(Z, x_n)                                      (n, M)
κ̃          diagonal of K_nn - K_nm K_mm⁻¹ K_mn                                             (n,)
C          Cholesky factor of I + Tᵀ diag(d) T                                             (M, M)
q(v)       N(m, S), S = (C Cᵀ)⁻¹, m = S Tᵀ c: the best q for these a, c, d
F          Σ a + ½ |C⁻¹ Tᵀ c|² - Σ log C_jj - ½ Σ d κ̃: the bound at that q                scalar
=========  ==============================================================================  ============

With the tight conditional, q(f | u) keeps no prior variance κ̃ where the data speak but κ̃/(1 + d κ̃): the last term of F
becomes -½ Σ log(1 + d κ̃), which is larger (Titsias 2025 and Bui, Ashman and Turner 2025 for regression; given the
quadratics it holds row by row). What it gains fades as M grows: it is meant for few inducing inputs.

F's total derivative in kernel and Z is its partial one at q held (envelope theorem), with g = c - d μ and h = -d/2.
There Tᵀ diag(h) T and Tᵀ g need no sums of their own, as they are ½(I - Λ) and m. The value takes one walk over the
rows, the gradient a second.

:func:`jaakkola_jordan` is a lower bound (izmailov2016, section 4.1), :func:`taylor` an expansion of second order and
no bound (section 4.2); y = ±1, and ξ is where a row is expanded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpbench.model.basis import BLOCK_ROWS, Block, KernelGradient, Moments, features, marginals
from gpbench.model.gaussian import GaussianQ
from gpbench.model.likelihoods.bernoulli import dlambda_jj, lambda_jj, log_sigmoid, sigmoid
from gpbench.model.linalg import trsv

if TYPE_CHECKING:
    from gpbench.model.basis import Basis
    from gpbench.model.rows import Array, Rows

__all__ = [
    "Collapsed",
    "Pending",
    "Quadratic",
    "RowQuadratics",
    "collapse",
    "collapsed_gradient",
    "finish",
    "jaakkola_jordan",
    "jaakkola_jordan_slope",
    "taylor",
    "tightened",
]


class Quadratic(NamedTuple):
    """a + c f - ½ d f² for some rows, each (b,)."""

    a: Array
    c: Array
    d: Array


def jaakkola_jordan(y: Array, xi: Array) -> Quadratic:
    """Log σ(y f) ≥ y f/2 - ξ/2 + log σ(ξ) - λ(ξ)(f² - ξ²), λ(ξ) = tanh(ξ/2)/(4ξ); tight at f = ±ξ.

    The paper prints tanh(ξ)/(4ξ), with which the inequality does not hold.
    """
    lam = lambda_jj(xi)
    size = np.abs(xi)  # the bound is even in ξ
    return Quadratic(log_sigmoid(size) - 0.5 * size + lam * np.square(xi), 0.5 * y, 2.0 * lam)


def jaakkola_jordan_slope(xi: Array, mu: Array, s: Array) -> Array:
    """Derivative λ'(ξ)(ξ² - μ² - s) of the bound in ξ where f has mean μ and variance s; zero at (15), ξ² = μ² + s."""
    return dlambda_jj(xi) * (np.square(xi) - np.square(mu) - s)


def tightened(s: Array, remainder: Array, d: Array) -> Array:
    """Variance of f at rows under the tight conditional: t·S t + κ̃/(1 + d κ̃), from s = t·S t + κ̃, each (b,)."""
    return s - d * np.square(remainder) / (1.0 + d * remainder)


def taylor(y: Array, xi: Array) -> Quadratic:
    """Log σ(y f) ≈ log σ(yξ) + φ(f - ξ) - ψ(f - ξ)², φ = y σ(-yξ), ψ = ½ σ(ξ) σ(-ξ).

    The constant log σ(yξ) - φξ - ψξ², which (19) leaves out, is kept: values at different ξ can then be compared.
    """
    z = y * xi
    phi = y * sigmoid(-z)
    psi = 0.5 * sigmoid(xi) * sigmoid(-xi)
    return Quadratic(log_sigmoid(z) - phi * xi - psi * np.square(xi), phi + 2.0 * psi * xi, 2.0 * psi)


RowQuadratics = Callable[[slice], Quadratic]
"""The quadratics of the rows of a slice."""


class Collapsed(NamedTuple):
    """The best q(v) for given quadratics.

    Attributes
    ----------
    value : float
        F.
    q : GaussianQ
        In precision form: its root is C.
    sums : Moments
        Tᵀ diag(d) T and Tᵀ c.
    """

    value: float
    q: GaussianQ
    sums: Moments


class Pending:
    """Sums of a walk in which the best q is gathered; ``finish`` ends it.

    Parameters
    ----------
    M : int
    tight : bool
        Whether the conditional is the tight one.
    """

    def __init__(self, M: int, *, tight: bool = False) -> None:
        self.sums = Moments(M)
        self.constant = 0.0
        self.tight = tight

    def add(self, T: Array, variance: Array, rows: Quadratic, *, remainder: Array) -> None:
        """Add rows with features T (b, M), prior variance κ and what is left of it, κ̃, each (b,)."""
        self.sums.add(T, weights=rows.d, targets=rows.c)
        left = np.log1p(rows.d * remainder).sum() if self.tight else rows.d @ variance
        self.constant += float(rows.a.sum() - 0.5 * left)


def finish(pending: Pending) -> Collapsed:
    """Best q and its value from the sums over all rows.

    Raises
    ------
    NumericalError
        The sums are not finite.
    """
    q = GaussianQ.of_sites(pending.sums.G, pending.sums.r)
    explained = trsv(q.root, pending.sums.r)
    # Σ d κ̃ = Σ d κ - Σ d |t|², and Σ d |t|² is the trace of Tᵀ diag(d) T
    trace = 0.0 if pending.tight else np.trace(pending.sums.G)
    value = pending.constant + 0.5 * float(trace + explained @ explained)
    return Collapsed(value - q.log_root, q, pending.sums)


def collapse(
    basis: Basis, X: Rows, quadratics: RowQuadratics, *, size: int = BLOCK_ROWS, tight: bool = False
) -> Collapsed:
    """Best q(v) for the rows X (n, d) with these quadratics, and its value; one walk over the rows.

    Raises
    ------
    NumericalError
        The sums are not finite.
    """
    pending = Pending(len(basis.Z), tight=tight)
    for rows, part, T, remainder in features(basis, X, size=size, keep=False):
        pending.add(T, basis.kernel.diag(part), quadratics(rows), remainder=remainder)
    return finish(pending)


def collapsed_gradient(
    basis: Basis,
    X: Rows,
    quadratics: RowQuadratics,
    *,
    at: Collapsed,
    size: int = BLOCK_ROWS,
    tight: bool = False,
    see: Callable[[Block], None] | None = None,
) -> tuple[Array, Array]:
    """Gradient of F in ``theta`` (P,) and Z (M, d); a second walk over the rows.

    Parameters
    ----------
    basis, X, quadratics, size, tight
        As for ``collapse``.
    at : Collapsed
        What ``collapse`` gave.
    see : callable, optional
        Shown each block of marginals, for gradients in what a, c and d depend on.
    """
    gradient = KernelGradient(basis, at.q)
    if see is None:
        for rows, part, T, remainder in features(basis, X, size=size):
            _, c, d = quadratics(rows)
            left = -0.5 * d / (1.0 + d * remainder) if tight else None
            gradient.add(part, T, g=c - d * (T @ at.q.mean), h=-0.5 * d, h_remainder=left)
    else:
        for block in marginals(basis, X, at.q, size=size):
            _, c, d = quadratics(block.rows)
            left = -0.5 * d / (1.0 + d * block.remainder) if tight else None
            gradient.add(block.X, block.T, g=c - d * block.mu, h=-0.5 * d, h_remainder=left)
            see(block)
    return gradient.total(P=at.sums.symmetric(-0.5), p=at.q.mean, hold="v")
