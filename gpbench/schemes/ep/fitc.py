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
from gpbench.model.basis import BLOCK_ROWS, Basis, row_blocks
from gpbench.model.gaussian import GaussianQ
from gpbench.model.linalg import add_to_diagonal
from gpbench.model.posterior import Latent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Rows

__all__ = ["KEEP_BYTES", "FitcPosterior", "FitcPrior", "Workspace"]

KEEP_BYTES = 100_000_000
"""Features of all latent functions together are kept up to this size."""


class FitcPosterior(NamedTuple):
    """q(f) and q(v) from site totals.

    Attributes
    ----------
    mean, var : (n,)
        Of q(f_i), white noise included.
    q : GaussianQ
        Its root is C.
    log_z : float
        ½ bᵀμ - Σ log C_jj - ½ Σ log(1 + τ s): log Z without the sum over factors.
    h : (n,)
        t_iᵀ S_w t_i.
    tau, b : (n,)
        The totals.
    """

    mean: Array
    var: Array
    q: GaussianQ
    log_z: float
    h: Array
    tau: Array
    b: Array

    def weights(self, s: Array) -> tuple[Array, Array, Array]:
        """What the adjoints are made of, α, e and f, each (n,), for prior remainders s (n,)."""
        e = self.tau / (1.0 + self.tau * s)
        alpha = self.b - self.tau * self.mean
        return alpha, e, alpha * alpha - e + e * e * self.h


class Workspace:
    """Arrays (b, M) that are used again: in fresh memory their first use costs more than the arithmetic on them."""

    def __init__(self) -> None:
        self._scratch: dict[tuple[int, ...], Array] = {}
        self._free: dict[tuple[int, ...], list[Array]] = {}

    def scratch(self, shape: tuple[int, ...], *, which: int = 0) -> Array:
        """A buffer of this shape; the same one at each call."""
        key = (*shape, which)
        if key not in self._scratch:
            self._scratch[key] = np.empty(shape, order="F")
        return self._scratch[key]

    def take(self, shape: tuple[int, ...]) -> Array:
        """An array of this shape that nobody else uses."""
        free = self._free.get(shape)
        return free.pop() if free else np.empty(shape, order="F")

    def give(self, array: Array) -> None:
        """Give back what ``take`` gave."""
        self._free.setdefault(array.shape, []).append(array)


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
    work : Workspace, optional
        Buffers to share with other priors.

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
        work: Workspace | None = None,
    ) -> None:
        self._work = Workspace() if work is None else work
        self.basis = Basis(kernel, Z, jitter=jitter)
        self._X, self._size, self._keep = X, size, keep
        self.s = np.empty(len(X))
        self._kept: list[tuple[slice, Array]] = []
        for rows, _, T in self._made(fresh=keep):
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
        M, root = len(self.basis.Z), np.sqrt(e)
        G, r = np.zeros((M, M), order="F"), np.zeros(M)
        for rows, T in self._features():
            scaled = np.multiply(T, root[rows, None], out=self._work.scratch(T.shape))
            G = blas.dsyrk(1.0, scaled, trans=1, lower=1, beta=1.0, c=G, overwrite_c=1)
            r += blas.dgemv(1.0, T, c[rows], trans=1)
        q = GaussianQ.of_sites(G, r)
        S = q.covariance
        mean, h = np.empty(len(t)), np.empty(len(t))
        for rows, T in self._features():
            TS = blas.dgemm(1.0, T, S, c=self._work.scratch(T.shape), overwrite_c=1)
            h[rows] = np.einsum("ij,ij->i", T, TS)
            mean[rows] = blas.dgemv(1.0, T, q.mean)
        np.maximum(h, 0.0, out=h)
        mean = t * (self.s * b + mean)
        var = t * (self.s + t * h)
        log_z = 0.5 * float(b @ mean) - q.log_root + 0.5 * float(np.log(t).sum())
        if not math.isfinite(log_z):
            raise NumericalError(f"the posterior of EP's sites must be finite; got a log evidence of {log_z}")
        return FitcPosterior(mean, var, q, log_z, h, tau, b)

    def gradient(self, at: FitcPosterior) -> tuple[Array, Array]:
        """Gradient of log Z in ``theta`` (P,) and Z (M, d), for sites at their fixed point."""
        basis = self.basis
        S_L = blas.dgemm(-1.0, at.q.covariance, basis.L_inv)
        m_L = blas.dgemv(1.0, basis.L_inv, at.q.mean, trans=1)
        all_alpha, all_e, all_f = at.weights(self.s)
        inner = np.outer(at.q.mean, at.q.mean)
        inner += at.q.covariance
        add_to_diagonal(inner, -1.0)
        inner = np.asfortranarray(inner)
        dtheta, dZ = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape)
        for rows, part, T in self._with_pullback():
            alpha, e, f = all_alpha[rows], all_e[rows], all_f[rows]
            scaled = np.multiply(T, f[:, None], out=self._work.scratch(T.shape))
            inner = blas.dgemm(-1.0, T, scaled, trans_a=1, beta=1.0, c=inner, overwrite_c=1)
            adjoint = blas.dgemm(-1.0, scaled, basis.L_inv, c=self._work.scratch(T.shape, which=1), overwrite_c=1)
            np.multiply(T, e[:, None], out=scaled)
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
        for _, T in self._kept:
            self._work.give(T)
        self._kept, self._keep = [], False

    def latent(self, at: FitcPosterior) -> Latent:
        """The latent function with q(u); holds copies."""
        return Latent.of(self.basis, at.q)

    def _made(self, *, fresh: bool = False) -> Iterator[tuple[slice, Array, Array]]:
        """Row numbers, rows (b, d) and features (b, M), all made anew; in a buffer, unless ``fresh``."""
        for rows in row_blocks(len(self._X), self._size):
            part = self._X[rows]
            K = self.basis.features.cross(part)
            T = self._work.take(K.shape) if fresh else self._work.scratch(K.shape, which=2)
            yield rows, part, blas.dgemm(1.0, K, self.basis.L_inv, trans_b=1, c=T, overwrite_c=1)

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
