"""q(v), the Gaussian over whitened inducing values that every scheme ends in: mean, root, and what follows from them.

==========  ==============================================================================  ========
symbol      meaning                                                                         shape
==========  ==============================================================================  ========
u = L v     function values at the inducing inputs; v is standard normal under the prior    (M,)
m, S        mean and covariance of q(v)                                                     (M,), (M, M)
R           lower triangular root: S = R Rᵀ (form covariance), or S = (R Rᵀ)⁻¹ (precision)  (M, M)
Λ, η        precision S⁻¹ and Λ m, the natural parameters                                   (M, M), (M,)
T           whitened features of rows, row t_n = L⁻¹ k(Z, x_n)                              (b, M)
==========  ==============================================================================  ========

Variational schemes hold a root of S, those with sites or natural parameters one of Λ; what is asked of q is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from scipy.linalg import blas

from gpbench.model.linalg import add_to_diagonal, potrf, syrk, trmm, trsm, trsv

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Form", "GaussianQ"]

Form = Literal["covariance", "precision"]

_OF_ROOT = ("root_inverse", "covariance", "spread")
"""What is worked out once and does not depend on the mean."""


@dataclass(frozen=True, eq=False)
class GaussianQ:
    """q(v) = N(m, S).

    Attributes
    ----------
    mean : (M,)
        m.
    root : (M, M)
        R, Fortran-ordered; the signs of its diagonal are free.
    form : {"covariance", "precision"}
        Whether R is a root of S or of S⁻¹.
    """

    mean: Array
    root: Array
    form: Form

    @classmethod
    def prior(cls, M: int, *, form: Form = "precision") -> Self:
        """N(0, I)."""
        return cls(np.zeros(M), _identity(M), form)

    @classmethod
    def of_natural(cls, eta: Array, precision: Array) -> Self:
        """From the natural parameters η (M,) and Λ (M, M), of which the lower triangle is read.

        Raises
        ------
        NumericalError
            Λ is not positive definite, or not finite.
        """
        C = potrf(precision.copy(order="F"), what="the posterior precision", overwrite=True)
        return cls(trsv(C, trsv(C, eta), trans=True), C, "precision")

    @classmethod
    def of_sites(cls, G: Array, eta: Array) -> Self:
        """From sums over sites exp(-½ vᵀGv + ηᵀv) with G (M, M) ≥ 0, lower triangle: Λ = I + G.

        No jitter is needed: the eigenvalues of Λ are 1 or more.

        Raises
        ------
        NumericalError
            G or η are not finite.
        """
        precision = G.copy(order="F")
        add_to_diagonal(precision, 1.0)
        C = potrf(precision, what="the posterior precision", overwrite=True)
        return cls(trsv(C, trsv(C, eta), trans=True), C, "precision")

    def with_mean(self, mean: Array) -> Self:
        """Another mean, the same covariance, of which what is known already stays known."""
        other = type(self)(mean, self.root, self.form)
        other.__dict__.update({name: self.__dict__[name] for name in _OF_ROOT if name in self.__dict__})
        return other

    @cached_property
    def root_inverse(self) -> Array:
        """R⁻¹ (M, M), lower triangular; a solve with the identity takes two thirds of LAPACK's inverse at M = 200."""
        return trsm(self.root, _identity(len(self.mean)))

    @cached_property
    def covariance_lower(self) -> Array:
        """S (M, M), lower triangle; zero above it. All that products need."""
        return syrk(self.root) if self.form == "covariance" else syrk(self.root_inverse, trans=True)

    @cached_property
    def covariance(self) -> Array:
        """S (M, M), both triangles, Fortran-ordered."""
        S = self.covariance_lower
        full = np.add(S, S.T, order="F")  # what is above the diagonal is zero: dsyrk leaves it alone
        np.einsum("ii->i", full)[...] *= 0.5
        return full

    @property
    def log_root(self) -> float:
        """Σ log |R_jj|."""
        return float(np.log(np.abs(np.diag(self.root))).sum())

    @cached_property
    def spread(self) -> float:
        """KL(q(v) || N(0, I)) if the mean were 0 (nats)."""
        R, sign = (self.root, -1.0) if self.form == "covariance" else (self.root_inverse, 1.0)
        return 0.5 * (float(np.vdot(R, R)) - len(R)) + sign * self.log_root

    @property
    def kl(self) -> float:
        """KL(q(v) || N(0, I)), which is KL(q(u) || p(u)) (nats)."""
        return self.spread + 0.5 * float(self.mean @ self.mean)

    def log_normaliser(self, eta: Array) -> float:
        """The log of ∫ N(v; 0, I) exp(-½ vᵀGv + ηᵀv) dv (nats) of the sites G = Λ - I and η (M,) that make q."""
        sign = 1.0 if self.form == "covariance" else -1.0
        return 0.5 * float(self.mean @ eta) + sign * self.log_root

    def project(self, T: Array) -> Array:
        """T S (b, M), a new Fortran-ordered array."""
        return blas.dsymm(1.0, self.covariance_lower, T, side=1, lower=1)

    def halfway(self, T: Array) -> Array:
        """H (b, M) with H Hᵀ = T S Tᵀ: T R or T R⁻ᵀ; half the work of :meth:`project`."""
        if self.form == "covariance":
            return trmm(self.root, T, side="right")
        return trsm(self.root, T, side="right", trans=True)

    def marginals(self, T: Array, remainder: Array) -> tuple[Array, Array]:
        """Mean and variance of f at rows with features T (b, M) and κ̃ = ``remainder`` (b,), each (b,)."""
        H = self.halfway(T)
        s = remainder + np.einsum("ij,ij->i", H, H)
        return blas.dgemv(1.0, T, self.mean), np.maximum(s, 0.0, out=s)

    def covariance_root(self) -> Array:
        """A lower triangular root of S, shape (M, M)."""
        if self.form == "covariance":
            return self.root
        return potrf(syrk(self.root_inverse, trans=True), what="the posterior covariance", overwrite=True)


@lru_cache(maxsize=8)
def _identity(M: int) -> Array:
    eye = np.asfortranarray(np.eye(M))
    eye.setflags(write=False)
    return eye
