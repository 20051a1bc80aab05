"""The variational bound (2) of Sheth, Wang and Khardon (2015) for any likelihood, at a given q, and its gradients.

==========  ==============================================================================  ============
symbol      meaning                                                                         shape
==========  ==============================================================================  ============
F           Σ_n E_q log p(y_n | f_n) - KL(q(u) || p(u)), the paper's VLB                    scalar
q(v)        N(m_w, S_w), u = c + L v, c the constant mean: the paper's m = c + L m_w        (M,), (M, M)
            and V = L S_w Lᵀ
root        L_w with S_w = L_w L_wᵀ, or C with S_w = (C Cᵀ)⁻¹, both lower triangular         (M, M)
T           whitened features, row t_n; the paper's K_M⁻¹ K_Mi is L⁻ᵀ t_n                   (n, M)
μ, s        mean (without c) and variance of q(f_n), (3a) and (3b)                          (n,)
g, h        ∂F/∂μ and ∂F/∂s: ρ = g and λ = 2h of (10)                                       (n,)
Λ           I + Tᵀ diag(-2h) T, the precision that (12b) asks for, in v                     (M, M)
==========  ==============================================================================  ============

In v the optimality conditions (12a) and (12b) are m_w = Tᵀ g and S_w⁻¹ = Λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.errors import NumericalError
from gpbench.model.linalg import add_to_diagonal, inverse_lower, potrf, trsm
from gpbench.model.posterior import Latent
from gpbench.model.whitened import Whitened

if TYPE_CHECKING:
    from gpbench.model.basis_old import Basis
    from gpbench.model.gaussian import Form
    from gpbench.model.rows import Array
    from gpbench.model.whitened import Moments
    from gpbench.schemes.general.observation import Observation
    from gpbench.schemes.general.rows import FeatureRows

__all__ = ["At", "GaussianV", "bound_at", "bound_gradient", "factor", "precision_of", "root_gradient"]

_ROUNDED = 1e10
"""Diagonals of precisions beyond which rounding may have hidden the prior's part."""


@dataclass(frozen=True, eq=False)
class GaussianV:
    """q(v) = N(m_w, S_w).

    Attributes
    ----------
    m_w : (M,)
    root : (M, M)
        Lower triangular.
    form : {"covariance", "precision"}
        What ``root`` is a root of.
    """

    m_w: Array
    root: Array
    form: Form

    @classmethod
    def prior(cls, M: int) -> GaussianV:
        """N(0, I)."""
        return cls(np.zeros(M), np.asfortranarray(np.eye(M)), "precision")

    def with_mean(self, m_w: Array) -> GaussianV:
        """Another mean, the same covariance."""
        return GaussianV(m_w, self.root, self.form)

    def variances(self, rows: FeatureRows) -> Array:
        """The variances s of q(f) at the rows, shape (n,)."""
        if self.form == "precision":
            return rows.variances_of_precision(self.root)
        return rows.variances_of_root(self.root)

    @property
    def spread(self) -> float:
        """KL(q(v) || N(0, I)) for m_w = 0."""
        half_log = float(np.log(np.abs(np.diag(self.root))).sum())
        if self.form == "covariance":
            return 0.5 * float(np.vdot(self.root, self.root) - len(self.root)) - half_log
        inverse = inverse_lower(self.root)
        return 0.5 * float(np.vdot(inverse, inverse) - len(self.root)) + half_log

    def whitened(self) -> Whitened:
        """With both triangles of S_w."""
        if self.form == "precision":
            return Whitened.of_factor(self.m_w, self.root)
        return Whitened.of_root(self.m_w, self.root)

    def covariance_root(self) -> Array:
        """A lower triangular root L_w of S_w, shape (M, M)."""
        if self.form == "covariance":
            return self.root
        inverse = inverse_lower(self.root)
        return potrf(blas.dgemm(1.0, inverse, inverse, trans_a=1), what="the posterior covariance")

    def latent(self, basis: Basis, mean: float) -> Latent:
        """The latent function; holds copies."""
        return Latent(
            basis.kernel, basis.Z, m_w=self.m_w, root=self.root, form=self.form, jitter=basis.jitter, mean=mean
        )


class At(NamedTuple):
    """The bound at a q. ``spread`` is the part of the KL divergence that does not depend on the mean."""

    q: GaussianV
    mu: Array
    s: Array
    g: Array
    h: Array
    value: float
    spread: float


def bound_at(rows: FeatureRows, observation: Observation, q: GaussianV, *, mu: Array | None = None) -> At:
    """The bound; two walks over the rows, or one where the means ``mu`` (n,) of q(f) are known."""
    if mu is None:
        mu = rows.means(q.m_w)
    s, spread = q.variances(rows), q.spread
    fit, g, h = observation.expectations(rows.y, mu, s)
    return At(q, mu, s, g, h, fit - 0.5 * float(q.m_w @ q.m_w) - spread, spread)


def precision_of(sums: Moments) -> Array:
    """Λ (M, M), both triangles, from the sums with weights -2h."""
    precision = sums.symmetric(1.0)
    add_to_diagonal(precision, 1.0)
    return precision


def factor(precision: Array) -> Array:
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


def root_gradient(q: GaussianV, precision: Array) -> Array:
    """Gradient of F in a root of S_w, not cut to a triangle, shape (M, M): (S_w⁻¹ - Λ) root; 0 where (12b) holds."""
    if q.form == "precision":  # its root C⁻ᵀ of S_w
        difference = blas.dgemm(1.0, q.root, q.root, trans_b=1) - precision
        return trsm(q.root, difference, side="right", trans=True, overwrite=True)
    return trsm(q.root, np.asfortranarray(np.eye(len(q.root))), trans=True) - blas.dgemm(1.0, precision, q.root)


def bound_gradient(rows: FeatureRows, observation: Observation, at: At) -> tuple[Array, Array]:
    """Gradients of the bound maximised over q, by the envelope theorem: in ``theta`` (P,) and ``free`` (k,).

    Parameters
    ----------
    rows : FeatureRows
    observation : Observation
    at : At
        At the q that maximises, for this kernel and observation, the bound that g and h are the derivatives of.
    """
    sums = rows.moments(weights=-at.h, targets=at.g)
    dtheta, _, by_mean = rows.kernel_gradient(at.q.whitened(), g=at.g, h=at.h, G=sums.symmetric(-1.0), p=sums.r)
    return dtheta, observation.free_gradient(rows.y, at.mu, at.s, by_mean=by_mean)
