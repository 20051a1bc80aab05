"""FITC priors under EP: posterior from site totals, log Z, its gradient in kernel and Z (Naish-Guzman and Holden 2007).

========  ===================================================================================  ========
symbol    meaning                                                                              shape
========  ===================================================================================  ========
n, M      rows, inducing inputs
T         whitened features, row t_i = L⁻¹ k(Z, x_i): the prior of f is N(0, T Tᵀ + diag s)     (n, M)
s         κ_i - |t_i|², at least 0                                                             (n,)
τ, b      totals of the sites exp(-½ τ f² + b f) of each row                                   (n,)
e         τ / (1 + τ s), the site's precision as v sees it; u = L v                             (n,)
c         b / (1 + τ s), its target                                                            (n,)
q(v)      N(m_w, S_w), S_w = (I + Tᵀ diag(e) T)⁻¹ = (C Cᵀ)⁻¹, m_w = S_w Tᵀ c                    (M,), (M, M)
μ, σ²     marginals of q(f): (s b + t_iᵀ m_w) / (1 + τ s) and (s + t_iᵀ S_w t_i / (1 + τ s)) / (1 + τ s)  (n,)
α         b - τ μ                                                                              (n,)
========  ===================================================================================  ========

Integrating f_i given u out of a site leaves the site (e, c) on t_iᵀ v, so that q(u) at Z predicts as GFITC does. With
f = α² - e + e² t_iᵀ S_w t_i, the adjoints of log Z at the fixed point are

    K̄_nm = [α m_wᵀ - diag(e) T S_w - diag(f) T] L⁻¹,   κ̄ = ½ f,
    K̄_mm = -½ L⁻ᵀ [m_w m_wᵀ - I + S_w - Tᵀ diag(f) T] L⁻¹:

the n x M x n products of the textbook form collapse, since Tᵀ diag(e) T = S_w⁻¹ - I. Rows are walked in blocks; T is
kept while it fits ``KEEP_BYTES`` and made anew at each walk beyond that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.errors import NumericalError
from gpbench.model.basis import Basis
from gpbench.model.latent import Latent
from gpbench.model.linalg import add_to_diagonal
from gpbench.model.whitened import BLOCK_ROWS, Moments, Whitened, row_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Rows

__all__ = ["KEEP_BYTES", "FitcPosterior", "FitcPrior"]

KEEP_BYTES = 100_000_000
"""Features of all latent functions together are kept up to this size."""


class FitcPosterior(NamedTuple):
    """q(f) and q(v) from site totals.

    Attributes
    ----------
    mean, var : (n,)
        Of q(f_i), white noise included.
    q : Whitened
    C : (M, M)
        Cholesky factor of its precision.
    log_z : float
        ½ bᵀμ - Σ log C_jj - ½ Σ log(1 + τ s): log Z without the sum over factors.
    e, alpha, f : (n,)
        What the gradient needs.
    """

    mean: Array
    var: Array
    q: Whitened
    C: Array
    log_z: float
    e: Array
    alpha: Array
    f: Array


class FitcPrior:
    """The FITC prior of one latent function at the rows X.

    Parameters
    ----------
    kernel : Kernel
    Z : (M, d)
    X : (n, d)
    jitter : float, optional
        Absolute jitter of K_mm; by default the ladder.
    size : int
        Rows in a block.
    keep : bool
        Whether T is kept.

    Raises
    ------
    NumericalError
        K_mm is not positive definite.
    """

    def __init__(
        self,
        kernel: Kernel,
        Z: Array,
        X: Rows,
        *,
        jitter: float | None = None,
        size: int = BLOCK_ROWS,
        keep: bool = True,
    ) -> None:
        self.basis = Basis(kernel, Z, jitter=jitter)
        self._X, self._size, self._keep = X, size, keep
        self.s = np.empty(len(X))
        self._kept: list[tuple[slice, Array]] = []
        for rows, _, T in self._made():
            self.s[rows] = np.maximum(kernel.diag(X[rows]) - np.einsum("ij,ij->i", T, T), 0.0)
            if keep:
                self._kept.append((rows, T))

    def posterior(self, tau: Array, b: Array) -> FitcPosterior:
        """Posterior of the sites with totals tau and b, each (n,), tau not negative.

        Raises
        ------
        NumericalError
            Something is not finite.
        """
        t = 1.0 / (1.0 + tau * self.s)
        e, c = tau * t, b * t
        sums = Moments(len(self.basis.Z))
        for rows, T in self._features():
            sums.add(T, weights=e[rows], targets=c[rows])
        q, C = Whitened.of_sites(sums)
        mean, h = np.empty(len(t)), np.empty(len(t))
        for rows, T in self._features():
            h[rows] = np.einsum("ij,ij->i", T, blas.dgemm(1.0, T, q.S_w))
            mean[rows] = blas.dgemv(1.0, T, q.m_w)
        np.maximum(h, 0.0, out=h)
        mean = t * (self.s * b + mean)
        var = t * (self.s + t * h)
        alpha = b - tau * mean
        log_z = 0.5 * float(b @ mean) - float(np.log(np.diag(C)).sum()) + 0.5 * float(np.log(t).sum())
        if not math.isfinite(log_z):
            raise NumericalError(f"the posterior of EP's sites must be finite; got a log evidence of {log_z}")
        return FitcPosterior(mean, var, q, C, log_z, e, alpha, alpha * alpha - e + e * e * h)

    def gradient(self, at: FitcPosterior) -> tuple[Array, Array]:
        """Gradient of log Z in ``theta`` (P,) and Z (M, d), for sites at their fixed point."""
        basis = self.basis
        S_L = blas.dgemm(-1.0, at.q.S_w, basis.L_inv)
        m_L = blas.dgemv(1.0, basis.L_inv, at.q.m_w, trans=1)
        inner = np.outer(at.q.m_w, at.q.m_w)
        inner += at.q.S_w
        add_to_diagonal(inner, -1.0)
        inner = np.asfortranarray(inner)
        dtheta, dZ = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape)
        for rows, part, T in self._with_pullback():
            f, alpha = at.f[rows], at.alpha[rows]
            scaled = T * f[:, None]
            inner = blas.dgemm(-1.0, T, scaled, trans_a=1, beta=1.0, c=inner, overwrite_c=1)
            adjoint = blas.dgemm(-1.0, scaled, basis.L_inv)
            np.multiply(T, at.e[rows, None], out=scaled)
            adjoint = blas.dgemm(1.0, scaled, S_L, beta=1.0, c=adjoint, overwrite_c=1)
            adjoint = blas.dger(1.0, alpha, m_L, a=adjoint, overwrite_a=1)
            by_theta, by_Z = basis.features.pullback(adjoint)
            dtheta += by_theta + basis.kernel.diag_pullback(part, 0.5 * f)
            dZ += by_Z
        gram = blas.dgemm(-0.5, basis.L_inv, blas.dgemm(1.0, inner, basis.L_inv), trans_a=1)
        by_theta, by_Z = basis.features.gram_pullback(0.5 * (gram + gram.T))
        return dtheta + by_theta, dZ + by_Z

    def release(self) -> None:
        """Drop the features that were kept; they are made anew where they are still asked for."""
        self._kept, self._keep = [], False

    def latent(self, at: FitcPosterior) -> Latent:
        """The latent function with q(u); holds copies."""
        return Latent(self.basis.kernel, self.basis.Z, at.q.m_w, at.C, form="precision", jitter=self.basis.jitter)

    def _made(self) -> Iterator[tuple[slice, Array, Array]]:
        """Row numbers, rows (b, d) and features (b, M), all made anew."""
        for rows in row_blocks(len(self._X), self._size):
            part = self._X[rows]
            K = self.basis.features.cross(part)
            yield rows, part, blas.dgemm(1.0, K, self.basis.L_inv, trans_b=1)

    def _features(self) -> Iterator[tuple[slice, Array]]:
        if self._keep:
            yield from self._kept
            return
        for rows, _, T in self._made():
            yield rows, T

    def _with_pullback(self) -> Iterator[tuple[slice, Array, Array]]:
        """As ``_made``, and the kernel's pullback belongs to the block; one block that was kept is still bound."""
        if self._keep and len(self._kept) == 1:
            rows, T = self._kept[0]
            yield rows, self._X[rows], T
            return
        yield from self._made()
