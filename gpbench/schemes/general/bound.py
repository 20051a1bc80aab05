"""The variational bound (2) of Sheth, Wang and Khardon (2015) for any likelihood: its rows, gradients, best mean.

What every search for q works with, and what it gives (:class:`Solution`).

==========  ==============================================================================  ============
symbol      meaning                                                                         shape
==========  ==============================================================================  ============
F           Σ_n E_q log p(y_n | f_n) - KL(q(u) || p(u)), the paper's VLB                    scalar
q(v)        N(m_w, S_w), u = c + L v, c the constant mean: the paper's m = c + L m_w        (M,), (M, M)
            and V = L S_w Lᵀ
T           whitened features, row t_n = L⁻¹ k(Z, x_n); the paper's K_M⁻¹ K_Mi is L⁻ᵀ t_n    (n, M)
κ̃           diagonal of K_nn - K_nm K_mm⁻¹ K_mn, white noise included                       (n,)
μ, s        mean T m_w (without c) and variance κ̃ + diag(T S_w Tᵀ) of q(f_n), (3a), (3b)    (n,)
g, h        ∂F/∂μ and ∂F/∂s: ρ = g and λ = 2h of (10); ½ ∂g/∂μ is about h                   (n,)
Λ           I + Tᵀ diag(-2h) T, the precision that (12b) asks for, in v                     (M, M)
==========  ==============================================================================  ============

In v the optimality conditions (12a) and (12b) are m_w = Tᵀ g and S_w⁻¹ = Λ.

Rows are of two kinds: all of them with an active set (the features are kept where they fit, else worked out again on
each walk), and the active set's own, for which K_nm = K_mm, jitter and noise included, so that T = L and κ̃ = 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from scipy.linalg import blas

from gpbench.errors import NumericalError
from gpbench.model.basis import BLOCK_ROWS, KernelGradient, Moments, features, row_blocks
from gpbench.model.linalg import add_to_diagonal, potrf, trmm, trsm, trsv

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.model.basis import Basis
    from gpbench.model.gaussian import GaussianQ
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import StoppedBy
    from gpbench.schemes.general.settings import Observation

__all__ = [
    "KEEP_BYTES",
    "At",
    "AtBestMean",
    "FeatureRows",
    "Report",
    "Solution",
    "Solver",
    "SparseRows",
    "SubsetRows",
    "bound_at",
    "bound_gradient",
    "maximise_mean",
    "precision_factor",
    "precision_of",
    "root_gradient",
]

KEEP_BYTES = 128 * 2**20
"""Features of no more than this are kept: a walk over them costs a third of one that works them out again."""
_ROUNDED = 1e10
"""Diagonals of precisions beyond which rounding may have hidden the prior's part."""
_HALVINGS = 60
_SUFFICIENT = 1e-4
_ROUNDING = 1e-13
"""Relative to the sum of the data terms' sizes, a fall that rounding explains."""


def _go_on() -> None:
    pass


class FeatureRows(ABC):
    """Rows as a sparse model sees them: whitened features, targets, and what the inducing values leave unexplained.

    Parameters
    ----------
    basis : Basis
        The kernel at the active set.
    y : (n,)
        Targets.
    check : callable
        Called at each block, since a walk over many rows takes long; may raise StopTraining.

    Attributes
    ----------
    remainder : (n,)
        κ̃.
    """

    remainder: Array

    def __init__(self, basis: Basis, y: Labels, *, check: Callable[[], None] = _go_on) -> None:
        self.basis, self.y, self.check = basis, np.asarray(y), check
        self._work = np.empty((0, len(basis.Z)), order="F")

    @property
    def M(self) -> int:
        """Number of inducing values."""
        return len(self.basis.Z)

    @abstractmethod
    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Row numbers and T (b, M), Fortran-ordered, block by block; T is not to be changed."""

    @abstractmethod
    def kernel_gradient(self, q: GaussianQ, *, g: Array, h: Array, P: Array, p: Array) -> tuple[Array, float]:
        """Gradients of the bound in ``theta`` (P,) and in the constant mean, at a q that is optimal.

        Parameters
        ----------
        q : GaussianQ
        g, h : (n,)
            Derivatives of the data terms in μ and s.
        P, p : (M, M), (M,)
            Tᵀ diag(h) T, both triangles, and Tᵀ g.
        """

    def moments(self, *, weights: Array, targets: Array) -> Moments:
        """Sums Tᵀ diag(w) T and Tᵀ c with w (n,), not negative, and c (n,)."""
        sums = Moments(self.M)
        for rows, T in self._walk():
            sums.add(T, weights=weights[rows], targets=targets[rows])
        return sums

    def means(self, m_w: Array) -> Array:
        """T m_w, shape (n,)."""
        out = np.empty(len(self.y))
        for rows, T in self._walk():
            out[rows] = blas.dgemv(1.0, T, m_w)
        return out

    def variances(self, q: GaussianQ) -> Array:
        """The variances s of q(f), shape (n,)."""
        # a triangular product takes half the time of a full one, or of a solve: T C⁻ᵀ or T L_w
        root, transposed = (q.root, False) if q.form == "covariance" else (q.root_inverse, True)
        out = self.remainder.copy()
        for rows, T in self._walk():
            if self._work.shape != T.shape:
                self._work = np.empty(T.shape, order="F")
            self._work[...] = T
            half = trmm(root, self._work, side="right", trans=transposed, overwrite=True)
            out[rows] += np.einsum("ij,ij->i", half, half)
        return out

    def expectations(self, observation: Observation, mu: Array, s: Array) -> tuple[float, Array, Array]:
        """Σ E ℓ for f₀ ~ N(mu, s), and its derivatives in mu and s, each of shape (n,).

        Block by block: 20 quadrature nodes of 1024 rows are 0.2 MB, which the cache holds.
        """
        total, g, h = 0.0, np.empty(len(mu)), np.empty(len(mu))
        for rows in row_blocks(len(mu), BLOCK_ROWS):
            self.check()
            e, g[rows], h[rows] = observation.expectations(self.y[rows], mu[rows], s[rows])
            total += float(e.sum())
        return total, g, h

    def observation_gradient(self, observation: Observation, mu: Array, s: Array, *, by_mean: float) -> Array:
        """Derivatives of Σ E ℓ in φ, shape (k,); that in c is handed in, as it depends on what else is held."""
        likelihood = observation.likelihood
        own = np.zeros(likelihood.free.size)
        if own.size:
            for rows in row_blocks(len(mu), BLOCK_ROWS):
                self.check()
                own += likelihood.free_gradient(self.y[rows], mu[rows] + observation.mean, s[rows])
        return observation.gradient(by_mean=by_mean, own=own)

    def _walk(self) -> Iterator[tuple[slice, Array]]:
        for rows, T in self.blocks():
            self.check()
            yield rows, T


class SparseRows(FeatureRows):
    """All rows with an active set.

    Parameters
    ----------
    basis, y, check
    X : (n, d)
    size : int
        Rows in a block.
    keep : int
        Bytes of features that are kept at most.
    """

    def __init__(
        self,
        basis: Basis,
        y: Labels,
        *,
        X: Rows,
        size: int = BLOCK_ROWS,
        keep: int = KEEP_BYTES,
        check: Callable[[], None] = _go_on,
    ) -> None:
        super().__init__(basis, y, check=check)
        self._X, self._size = X, size
        self._kept: list[tuple[slice, Array]] | None = None
        n = len(self.y)
        self.remainder = np.empty(n)
        kept: list[tuple[slice, Array]] | None = [] if 8 * n * self.M <= keep else None
        for rows, _, T, remainder in features(basis, X, size=size, keep=False):
            check()
            self.remainder[rows] = remainder
            if kept is not None:
                kept.append((rows, T.copy(order="F")))
        self._kept = kept

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """As in the base."""
        if self._kept is not None:
            yield from self._kept
            return
        for rows, _, T, _ in features(self.basis, self._X, size=self._size, keep=False):
            yield rows, T

    def kernel_gradient(self, q: GaussianQ, *, g: Array, h: Array, P: Array, p: Array) -> tuple[Array, float]:
        """As in the base; q(v) is held, which at the optimum is as good as q(u). The mean's gradient is then Σ g."""
        gradient = KernelGradient(self.basis, q)
        for rows, part, T, _ in features(self.basis, self._X, size=self._size):
            self.check()
            gradient.add(part, T, g=g[rows], h=h[rows])
        dtheta, _ = gradient.total(P=P, p=p, hold="v")
        return dtheta, float(g.sum())


class SubsetRows(FeatureRows):
    """The active set's own rows, as if there were no others: T = L, κ̃ = 0.

    Parameters
    ----------
    basis
    y : (M,)
        Targets of the active set.
    check
    """

    def __init__(self, basis: Basis, y: Labels, *, check: Callable[[], None] = _go_on) -> None:
        super().__init__(basis, y, check=check)
        self.remainder = np.zeros(self.M)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """As in the base."""
        for rows in row_blocks(self.M, BLOCK_ROWS):
            yield rows, np.asfortranarray(self.basis.L[rows])

    def kernel_gradient(self, q: GaussianQ, *, g: Array, h: Array, P: Array, p: Array) -> tuple[Array, float]:  # noqa: ARG002
        """As in the base; with q(u) held μ = m and s = diag(V) stand still, so that KL(q(u) || p(u)) alone moves.

        K̅ = ½ L⁻ᵀ (S_w + m_w m_wᵀ - I) L⁻¹; the mean's gradient is 1ᵀ K⁻¹ (m - c).
        """
        inner = blas.dger(0.5, q.mean, q.mean, a=0.5 * q.covariance, overwrite_a=1)
        add_to_diagonal(inner, -0.5)
        L = self.basis.L
        adjoint = trsm(L, trsm(L, inner, trans=True, overwrite=True), side="right", overwrite=True)
        dtheta, _ = self.basis.features.gram_pullback(np.asfortranarray(0.5 * (adjoint + adjoint.T)))
        return dtheta, float(trsv(L, q.mean, trans=True).sum())


class At(NamedTuple):
    """The bound at a q, and what it is made of, each of shape (n,)."""

    q: GaussianQ
    mu: Array
    s: Array
    g: Array
    h: Array
    value: float


def bound_at(rows: FeatureRows, observation: Observation, q: GaussianQ, *, mu: Array | None = None) -> At:
    """The bound; two walks over the rows, or one where the means ``mu`` (n,) of q(f) are known."""
    if mu is None:
        mu = rows.means(q.mean)
    s = rows.variances(q)
    fit, g, h = rows.expectations(observation, mu, s)
    return At(q, mu, s, g, h, fit - q.kl)


def bound_gradient(rows: FeatureRows, observation: Observation, at: At) -> tuple[Array, Array]:
    """Gradients of the bound maximised over q, by the envelope theorem: in ``theta`` (P,) and in φ (k,).

    Parameters
    ----------
    rows : FeatureRows
    observation : Observation
    at : At
        At the q that maximises, for this kernel and observation, the bound that g and h are the derivatives of.
    """
    sums = rows.moments(weights=-at.h, targets=at.g)
    dtheta, by_mean = rows.kernel_gradient(at.q, g=at.g, h=at.h, P=sums.symmetric(-1.0), p=sums.r)
    return dtheta, rows.observation_gradient(observation, at.mu, at.s, by_mean=by_mean)


def precision_of(sums: Moments) -> Array:
    """Λ (M, M), both triangles, from the sums with weights -2h."""
    precision = sums.symmetric(1.0)
    add_to_diagonal(precision, 1.0)
    return precision


def precision_factor(precision: Array) -> Array:
    """Cholesky factor C (M, M) of Λ.

    Its eigenvalues are 1 or more, which needs no jitter; but where a prior is wide, counts begin with weights beyond
    1e16, and rounding hides the 1. Then the diagonal gets 1e-14 of its largest entry, or as much more as it takes: such
    weights are on their way to nothing.

    Raises
    ------
    NumericalError
        Λ is not finite.
    """
    largest = float(np.diag(precision).max())
    for ridge in (0.0, 1e-14, 1e-12, 1e-10):
        try:
            damped = np.array(precision, order="F")
            add_to_diagonal(damped, ridge * largest)
            return potrf(damped, what="the posterior precision")
        except NumericalError:
            if not largest > _ROUNDED:
                raise
    raise NumericalError(f"the posterior precision is not positive definite; its largest diagonal is {largest:.3g}")


def root_gradient(q: GaussianQ, precision: Array) -> Array:
    """Gradient of F in a root of S_w, not cut to a triangle, shape (M, M): (S_w⁻¹ - Λ) root; 0 where (12b) holds."""
    if q.form == "precision":  # its root C⁻ᵀ of S_w
        difference = blas.dgemm(1.0, q.root, q.root, trans_b=1) - precision
        return trsm(q.root, difference, side="right", trans=True, overwrite=True)
    return q.root_inverse.T - blas.dgemm(1.0, precision, q.root)


class AtBestMean(NamedTuple):
    """The bound where the mean has come.

    Attributes
    ----------
    at : At
    sums : Moments
        Tᵀ diag(-2h) T and Tᵀg there.
    gradient : float
        Largest entry of the gradient Tᵀg - m_w.
    steps : int
        Newton steps that were taken.
    """

    at: At
    sums: Moments
    gradient: float
    steps: int


def maximise_mean(
    rows: FeatureRows, observation: Observation, at: At, *, tolerance: float, steps: int, ratio: float = 0.0
) -> AtBestMean:
    """Newton's method in the mean with the covariance held: the inner step of sheth2015's primal methods.

    F is concave in m_w for log-concave likelihoods, and its Hessian is -Λ. m_w moves by η Λ⁻¹ (Tᵀg - m_w). Without a
    line search such steps diverge where the signal variance is large; here η is halved until F has grown by a tenth of
    a thousandth of what its slope promises. A trial costs no walk over the rows.

    Parameters
    ----------
    rows : FeatureRows
    observation : Observation
    at : At
    tolerance : float
        Largest entry of the gradient that is small enough.
    steps : int
        Newton steps at most.
    ratio : float
        A gradient of so much of the first one is small enough, too.
    """
    taken = 0
    while True:
        sums = rows.moments(weights=-2.0 * at.h, targets=at.g)
        gradient = sums.r - at.q.mean
        largest = float(np.abs(gradient).max())
        if taken == 0:
            tolerance = max(tolerance, ratio * largest)
        if largest <= tolerance or taken >= steps:
            return AtBestMean(at, sums, largest, taken)
        C = precision_factor(precision_of(sums))
        direction = trsv(C, trsv(C, gradient), trans=True)
        moved = _along(rows, observation, at, direction=direction, slope=float(gradient @ direction))
        if moved is None:
            return AtBestMean(at, sums, largest, taken)
        at = moved
        taken += 1


def _along(rows: FeatureRows, observation: Observation, at: At, *, direction: Array, slope: float) -> At | None:
    """The point along the direction; None where rounding hides every improvement."""
    change = rows.means(direction)
    rounding = _ROUNDING * (abs(at.value) + float(np.abs(at.q.mean).max() ** 2))
    eta = 1.0
    for _ in range(_HALVINGS):
        q, mu = at.q.with_mean(at.q.mean + eta * direction), at.mu + eta * change
        fit, g, h = rows.expectations(observation, mu, at.s)
        value = fit - 0.5 * float(q.mean @ q.mean) - at.q.spread
        if value >= at.value + _SUFFICIENT * eta * slope - rounding:
            return At(q, mu, at.s, g, h, value)
        eta *= 0.5
        if eta * slope <= rounding:
            break
    return None


Report = Callable[["GaussianQ", float | None], None]
"""Told of each iteration of a search for q: q, and the bound (nats) where it is known."""


class Solution(NamedTuple):
    """The best q for a kernel and an observation.

    Attributes
    ----------
    q : GaussianQ
    value : float
        What the search maximises (nats).
    bound : float
        The variational bound itself, another number than ``value`` where that is a surrogate; Laplace's evidence.
    stopped_by : {"converged", "iterations", "failed-to-improve"}
        ``converged``: the search's own rule holds.
    by_hyper : callable
        Gradients of ``value``, maximised over q, in ``theta`` (P,) and φ (k,).
    gradient : float or None
        Largest entry of the gradient in q, where the search has one.
    """

    q: GaussianQ
    value: float
    bound: float
    stopped_by: StoppedBy
    by_hyper: Callable[[], tuple[Array, Array]]
    gradient: float | None = None


class Solver(Protocol):
    """Searches for q for one kernel and observation after another."""

    def solve(
        self, rows: FeatureRows, observation: Observation, start: GaussianQ, *, warm: bool, report: Report
    ) -> Solution:
        """Find q.

        Parameters
        ----------
        rows : FeatureRows
        observation : Observation
        start : GaussianQ
            Where to begin.
        warm : bool
            Whether ``start`` solves a neighbouring problem; else it is Laplace's approximation or the prior.
        report : callable
            Told of each iteration; may raise to end training.

        Raises
        ------
        NumericalError
            Past every remedy.
        """
