"""The mean-field bound (12) of Hensman, Matthews and Ghahramani (2015): its inner optimum, value and gradients.

=========  ==============================================================================  ============
symbol     meaning                                                                         shape
=========  ==============================================================================  ============
g          noisy function values, y_n = sign g_n, g | f ~ N(f, I): the probit              (n,)
q(g_n)     N(a_n, σ̃_n²) cut to the side of y_n, with mean ḡ_n and variance v_n             (n,)
T          whitened features, row t_n = L⁻¹ k(Z, x_n); Q = T Tᵀ                            (n, M)
G, Λ, C    TᵀT, I + G = C Cᵀ                                                               (M, M)
π          diagonal of (Q + I)⁻¹, 1 - |C⁻¹t_n|²; σ̃_n² = 1/π_n (the paper prints π_n)       (n,)
z          y_n a_n / σ̃_n                                                                   (n,)
r, c       φ(z)/Φ(z), and r (z + r): ḡ = y (z + r)/√π, v = (1 - c)/π                       (n,)
p, m_w     Tᵀḡ, and Λ⁻¹p: the mean of q(v) of the whitened v = L⁻¹u; S_w = Λ⁻¹             (M,)
μ, β       T m_w, and ḡ - μ = (Q + I)⁻¹ḡ                                                   (n,)
κ̃          diagonal of K_nn - K_nm K_mm⁻¹ K_mn                                             (n,)
=========  ==============================================================================  ============

    F = Σ [log Φ(z) - ½ log π + ½ r²] - ½ (|ḡ|² - |C⁻¹p|²) - Σ log C_jj - ½ Σ κ̃

In F as printed ½ πᵀv stands twice, with opposite signs, and a - ḡ is -y r/√π. F is stationary in a where a = ḡ - σ̃² β.
The loops that find that place are in :mod:`gpbench.schemes.nested.mean_field_inner`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas
from scipy.special import ndtri_exp

from gpbench.model.functions import log_ndtr, mills, probit_curvature
from gpbench.model.latent import Latent
from gpbench.model.linalg import inverse_lower, trsv
from gpbench.model.whitened import BLOCK_ROWS, Moments, Whitened, features, row_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.model.basis_old import Basis
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["CutNormals", "MeanField", "MeanFieldRows", "mean_field_gradient", "mean_field_rows"]

KEPT_BYTES = 32_000_000
"""Features up to this size are kept for the inner loop; larger ones are made anew at each walk."""


@dataclass(frozen=True, eq=False)
class CutNormals:
    """The factors q(g_n): ḡ, r and c of rows, each (n,), from z, π and the signs y."""

    mean: Array
    r: Array
    c: Array

    @classmethod
    def of(cls, z: Array, *, pi: Array, signs: Array) -> CutNormals:
        """The factors at z (n,)."""
        r, c = mills(z), probit_curvature(z)
        far = z < -150.0  # there z + r cancels, and c has a series of its own
        mean = np.where(far, c / np.where(far, r, 1.0), z + r)
        return cls(signs * mean / np.sqrt(pi), r, c)


@dataclass(frozen=True, eq=False)
class MeanFieldRows:
    """What the bound knows of the rows at one kernel and Z, whatever q(g) is.

    Attributes
    ----------
    basis : Basis
    signs : (n,)
        -1 or +1.
    pi : (n,)
    G, C : (M, M)
        G with both triangles.
    constant : float
        -½ Σ log π - Σ log C_jj - ½ Σ κ̃.
    """

    basis: Basis
    X: Rows
    signs: Array
    pi: Array
    G: Array
    C: Array
    constant: float
    size: int
    kept: tuple[Array, ...]

    def walk(self) -> Iterator[tuple[slice, Array]]:
        """Row numbers and features T (b, M), block by block."""
        if self.kept:
            yield from zip(row_blocks(len(self.pi), self.size), self.kept, strict=True)
        else:
            for rows, _, T in features(self.basis, self.X, size=self.size):
                yield rows, T

    def times(self, m_w: Array) -> Array:
        """T m_w (n,)."""
        return np.concatenate([blas.dgemv(1.0, T, m_w) for _, T in self.walk()])

    def projected(self, g: Array) -> Array:
        """Tᵀg (M,)."""
        total = np.zeros(len(self.G))
        for rows, T in self.walk():
            total += blas.dgemv(1.0, T, g[rows], trans=1)
        return total

    def solve(self, p: Array) -> Array:
        """Λ⁻¹p (M,)."""
        return trsv(self.C, trsv(self.C, p), trans=True)

    def value(self, z: Array, q: CutNormals, *, p: Array) -> float:
        """F, for any z."""
        explained = trsv(self.C, p)
        rows = float((log_ndtr(z) + 0.5 * np.square(q.r)).sum())
        return self.constant + rows - 0.5 * float(q.mean @ q.mean - explained @ explained)

    def at(self, a: Array) -> tuple[float, Array]:
        """F and its gradient (n,) in a (n,), at any a."""
        z = self.signs * a * np.sqrt(self.pi)
        q = CutNormals.of(z, pi=self.pi, signs=self.signs)
        p = self.projected(q.mean)
        beta = q.mean - self.times(self.solve(p))
        return self.value(z, q, p=p), (1.0 - q.c) * (self.pi * (q.mean - a) - beta)


@dataclass(frozen=True, eq=False)
class MeanField:
    """The inner optimum at one kernel and Z.

    Attributes
    ----------
    rows : MeanFieldRows
    value : float
        F.
    z, m_w : (n,), (M,)
    walks : int
        Iterations of the inner loop.
    settled : bool
        Whether it converged.
    """

    rows: MeanFieldRows
    value: float
    z: Array
    m_w: Array
    walks: int
    settled: bool

    @property
    def kernel(self) -> Kernel:
        """With its hyper-parameters."""
        return self.rows.basis.kernel

    @property
    def jitter(self) -> float:
        """Absolute jitter of its matrix at Z."""
        return self.rows.basis.jitter

    @property
    def inner_steps(self) -> int:
        """What finding it took: ``walks``."""
        return self.walks

    def factors(self) -> CutNormals:
        """The factors q(g_n)."""
        return CutNormals.of(self.z, pi=self.rows.pi, signs=self.rows.signs)

    def latent(self) -> Latent:
        """The Gaussian q(u): that of the exact conditional p(u | g) averaged to first order, g at its mean."""
        basis = self.rows.basis
        return Latent(basis.kernel, basis.Z, self.m_w, self.rows.C, form="precision", jitter=basis.jitter)

    def draws(self, rng: np.random.Generator, count: int) -> Array:
        """Means Λ⁻¹Tᵀg of q(v | g) for draws of g from q(g), shape (count, M).

        The cut normal law by its inverse distribution function in logarithms: exact in both tails.
        """
        rows = self.rows
        total = np.zeros((len(self.m_w), count), order="F")
        for part, T in rows.walk():
            z, scale = self.z[part], rows.signs[part] / np.sqrt(rows.pi[part])
            logs = np.log1p(-rng.random((len(z), count))) + log_ndtr(z)[:, None]
            g = scale[:, None] * np.maximum(z[:, None] - ndtri_exp(logs), 0.0)
            total += T.T @ g
        C_inv = inverse_lower(rows.C)
        return np.asarray((C_inv.T @ (C_inv @ total)).T)


def mean_field_rows(basis: Basis, X: Rows, y: Labels, *, size: int = BLOCK_ROWS) -> MeanFieldRows:
    """Walk over the rows X (n, d) with classes y (n,), 0 or 1, and gather what does not depend on q(g).

    Raises
    ------
    NumericalError
        The features are not finite.
    """
    n, M = len(X), len(basis.Z)
    keep = 8 * n * M <= KEPT_BYTES
    kept, sums, prior = [], Moments(M), 0.0
    for rows, part, T in features(basis, X, size=size):
        sums.add(T, weights=np.ones(len(T)), targets=np.zeros(len(T)))
        prior += float(basis.kernel.diag(part).sum())
        if keep:
            kept.append(T.copy(order="F"))
        last = rows.stop
    assert last == n
    _, C = Whitened.of_sites(sums)
    C_inv = inverse_lower(C)
    pi = np.empty(n)
    blocks = (
        zip(row_blocks(n, size), kept, strict=True) if keep else ((r, T) for r, _, T in features(basis, X, size=size))
    )
    for rows, T in blocks:
        R = blas.dgemm(1.0, T, C_inv, trans_b=1)
        # never below 1/(1 + Q_nn), which rounding could undercut
        pi[rows] = np.maximum(1.0 - np.einsum("ij,ij->i", R, R), 1.0 / (1.0 + np.einsum("ij,ij->i", T, T)))
    G = sums.symmetric(1.0)
    constant = -0.5 * float(np.log(pi).sum()) - float(np.log(np.diag(C)).sum()) - 0.5 * (prior - float(np.trace(G)))
    signs = 2.0 * np.asarray(y) - 1.0
    return MeanFieldRows(basis, X, signs, pi, G, C, constant, size, tuple(kept))


def mean_field_gradient(at: MeanField) -> tuple[Array, Array]:
    """Gradient of F in ``theta`` (P,) and Z (M, d), at the inner optimum; one walk over the rows.

    With q(g) held (envelope theorem), T's adjoint is T̄ = β m_wᵀ + diag(v - 1) T S_w + T (I - S_w G_v S_w), where
    G_v = Tᵀ diag(v) T, and T̄ᵀT needs no sum of its own. K̄_nm = T̄ L⁻¹; K_mm enters through L in T alone.
    """
    rows, q, basis = at.rows, at.factors(), at.rows.basis
    M = len(rows.G)
    v = (1.0 - q.c) / rows.pi
    sums = Moments(M)
    for part, T in rows.walk():
        sums.add(T, weights=v[part], targets=q.mean[part])
    G_v = sums.symmetric(1.0)
    C_inv = inverse_lower(rows.C)
    S_w = blas.dgemm(1.0, C_inv, C_inv, trans_a=1)
    own = np.eye(M) - S_w @ G_v @ S_w
    m_w = rows.solve(sums.r)
    right = blas.dgemm(1.0, np.concatenate([S_w, own, m_w[None]]), basis.L_inv)
    dtheta, dZ = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape)
    for part, X, T in features(basis, rows.X, size=rows.size):
        beta = q.mean[part] - blas.dgemv(1.0, T, m_w)
        left = np.concatenate([T * (v[part] - 1.0)[:, None], T, beta[:, None]], axis=1)
        more_theta, more_Z = basis.features.pullback(blas.dgemm(1.0, left, right))
        dtheta += more_theta
        dtheta += basis.kernel.diag_pullback(X, np.full(len(X), -0.5))
        dZ += more_Z
    half = np.tril(np.outer(m_w, m_w) + S_w @ (G_v - rows.G) + own @ rows.G)
    half.flat[:: M + 1] *= 0.5
    gram = -0.5 * (basis.L_inv.T @ ((half + half.T) @ basis.L_inv))
    more_theta, more_Z = basis.features.gram_pullback(np.asfortranarray(0.5 * (gram + gram.T)))
    return dtheta + more_theta, dZ + more_Z
