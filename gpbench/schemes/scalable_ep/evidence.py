"""Scalable EP's evidence: q(u) from the sites of all rows, one parallel update of them, log Z and its gradient.

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
n, b, F   rows in all and in a block; latent functions (1, or the number of classes C)
T         whitened features of a latent function, row t_i = L⁻¹ k(Z, x_i), so that νᵀu = tᵀv     (b, M)
π, b      totals of the sites of each row and latent function                                  (n, F)
G, e      natural parameters of all sites of a latent function together: Tᵀ diag(π) T and Tᵀb     (M, M), (M,)
q(v)      N(m, S), S = (I + G)⁻¹ = (C Cᵀ)⁻¹, m = S e, u = L v                                  (M,), (M, M)
h, g      t_iᵀ S t_i and t_iᵀ m                                                                (n, F)
log Z     Σ_c [½ mᵀe - Σ log C_jj] + Σ over factors [log Φ(β) + Δ]  (villacampa2017, eq. 9)      scalar
========  ===================================================================================  ===========

Sites are pairs of scalars that always stand on the current ν: "a Gaussian pseudo-observation of νᵀu". So memory is
O(n C + C M²) and a block, there are no stored vectors, and zero sites, C⁻¹ and cavities need no special care: the
eigenvalues of C Cᵀ are 1 or more, and sites stay non-negative. An evaluation costs O(C n M²): one pass over the rows
for G and e, one for h, g, the new sites and the gradient. Where all rows make one block, T is kept from the first to
the second. Where sites do not stand on the current ν (:mod:`gpbench.schemes.scalable_ep.stochastic`), G and e are
carried along as the kernel moves: :class:`CarriedSites`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.errors import NumericalError
from gpbench.model.basis import BLOCK_ROWS, Basis, Moments, row_blocks
from gpbench.model.gaussian import GaussianQ
from gpbench.model.linalg import add_to_diagonal, trmm, trmv
from gpbench.model.posterior import Latent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Rows
    from gpbench.schemes.scalable_ep.factors import Factors

__all__ = [
    "CarriedSites",
    "Evaluation",
    "Gradient",
    "ScalableEP",
    "SiteGradient",
    "block_size",
    "no_limit",
    "projected",
]

ONE_BLOCK = 1 << 21
"""Values of T in all latent functions (16 MB) up to which all rows make one block, unless the caller says otherwise."""

Gradient = list[tuple["Array", "Array"]]
"""Of log Z in the kernel's theta (P,) and in Z (M, d), for each latent function."""


def block_size(wanted: int | None, *, rows: int, inducing: int) -> int:
    """Rows in a block of a pass over ``rows`` rows, with ``inducing`` inducing inputs in all latent functions."""
    if wanted is not None:
        return wanted
    return rows if rows * inducing <= ONE_BLOCK else BLOCK_ROWS


def no_limit() -> None:
    """Never ends a pass; a trainer's ``check``, which takes its place in training, does past a limit."""


def bound_to(kernels: Sequence[Kernel], inducing: Sequence[Array], jitters: Sequence[float] | None) -> list[Basis]:
    """Each latent function's kernel at its Z (M, d); a jitter is absolute, None the ladder."""
    wanted = [None] * len(kernels) if jitters is None else jitters
    return [
        Basis(kernel, Z, jitter=jitter, inverse=False)
        for kernel, Z, jitter in zip(kernels, inducing, wanted, strict=True)
    ]


def projected(q: GaussianQ, T: Array) -> tuple[Array, Array, Array]:
    """T S (b, M), and variance h and mean g (b,) of tᵀv for the rows t of T (b, M)."""
    TS = q.project(T)
    h = np.einsum("ij,ij->i", T, TS)
    return TS, np.maximum(h, 0.0, out=h), blas.dgemv(1.0, T, q.mean)


class Evaluation(NamedTuple):
    """The state at some sites x.

    Attributes
    ----------
    target, weights : (2R, n, F)
        Sites that match moments, and what makes their change dimensionless.
    log_z : float
        Evidence (nats).
    gradient : list of (dtheta (P,), dZ (M, d)), or empty
        Of log Z, for each latent function.
    """

    target: Array
    weights: Array
    log_z: float
    gradient: Gradient


class ScalableEP:
    """Kernels at inducing inputs, and the rows.

    Parameters
    ----------
    kernels, inducing : sequences
        Kernel and Z (M, d) of each latent function.
    X : (n, d)
    factors : Factors
    jitters : sequence of float, optional
        Absolute jitters; by default the ladder.
    block_rows : int, optional
        Rows in a block; by default all of them where their features take little memory.
    check : callable
        Called with each block; what it raises ends an evaluation.

    Attributes
    ----------
    bases : list of Basis
    q : list of GaussianQ
        q(v) of each latent function at the last evaluation; the prior at first.

    Raises
    ------
    NumericalError
        A K_mm is not positive definite.
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        inducing: Sequence[Array],
        X: Rows,
        factors: Factors,
        *,
        jitters: Sequence[float] | None = None,
        block_rows: int | None = None,
        check: Callable[[], None] = no_limit,
    ) -> None:
        self.bases = bound_to(kernels, inducing, jitters)
        self.q = [GaussianQ.prior(len(Z)) for Z in inducing]
        self._X, self._factors, self._check = X, factors, check
        self._size = block_size(block_rows, rows=len(X), inducing=sum(len(Z) for Z in inducing))
        self._kept: tuple[Array, list[Array], Array] | None = None

    def evaluate(self, x: Array, *, gradient: bool = True, exact: bool = False) -> Evaluation:
        """q(u) from the sites x (2R, n, F), the sites that match its moments, log Z and its gradient.

        Parameters
        ----------
        x : (2R, n, F)
            Precisions not negative.
        gradient : bool
            Whether to work out the gradient, which takes as long as the rest.
        exact : bool
            The gradient at held site functions, or without the terms that vanish at the fixed point (eq. 10).

        Raises
        ------
        NumericalError
            Something is not finite, or a cavity is improper by more than rounding.
        """
        factors, F = self._factors, self._factors.F
        log_z = self._gather(x)
        gradients = [SiteGradient(basis, q) for basis, q in zip(self.bases, self.q, strict=True)]
        target, weights = np.empty_like(x), np.empty_like(x)
        for rows, X, Ts, s in self._blocks():
            h, g = np.empty(s.shape), np.empty(s.shape)
            TSs = []
            for c, (T, q) in enumerate(zip(Ts, self.q, strict=True)):
                TS, h[:, c], g[:, c] = projected(q, T)
                TSs.append(TS)
            at = factors.part(rows).tilt(x[:, rows], s=s, h=h, g=g)
            target[:, rows], weights[:, rows] = at.target, at.weights
            log_z += at.log_z
            if not gradient:
                continue
            slopes = at.slopes(exact=exact)
            for c in range(F):
                if slopes.e1 is not None and slopes.e2 is not None:
                    gradients[c].add_mismatch(TSs[c], e1=slopes.e1[:, c], e2=slopes.e2[:, c])
                lam, xi, zeta = (each[:, c] for each in slopes[:3])
                gradients[c].add(X, Ts[c], TSs[c], lam=lam, xi=xi, zeta=zeta)
        if not (math.isfinite(log_z) and np.isfinite(target).all()):
            raise NumericalError(f"scalable EP must stay finite; got a log evidence of {log_z}")
        pairs = zip(gradients, self.q, strict=True)
        return Evaluation(target, weights, log_z, [each.total(q) for each, q in pairs] if gradient else [])

    def latents(self) -> tuple[Latent, ...]:
        """The latent functions with the q(u) of the last evaluation; they hold copies."""
        return tuple(map(Latent.of, self.bases, self.q))

    def release(self) -> None:
        """Drop the features that were kept: what remains is what ``latents`` needs."""
        self._kept = None

    def _gather(self, x: Array) -> float:
        """q(v) of each latent function; returns log normalisers of q over those of the prior."""
        pi, b = self._factors.totals(x)
        sums = [Moments(len(basis.Z)) for basis in self.bases]
        for rows, _, Ts, _ in self._blocks():
            for c, T in enumerate(Ts):
                sums[c].add(T, weights=pi[rows, c], targets=b[rows, c])
        self.q = [GaussianQ.of_sites(each.G, each.r) for each in sums]
        return sum(q.log_normaliser(each.r) for q, each in zip(self.q, sums, strict=True))

    def _blocks(self) -> Iterator[tuple[slice, Array, list[Array], Array]]:
        """Row numbers, rows (b, d), T (b, M) of each latent function, and s (b, F)."""
        n = len(self._X)
        if self._kept is not None:
            self._check()
            yield slice(0, n), *self._kept
            return
        for rows in row_blocks(n, self._size):
            self._check()
            X = self._X[rows]
            s = np.empty((len(X), len(self.bases)))
            Ts = []
            for c, basis in enumerate(self.bases):
                T, s[:, c] = basis.whiten(X)
                Ts.append(T)
            if self._size >= n:
                self._kept = (X, Ts, s)
            yield rows, X, Ts, s


class SiteGradient:
    """Gradient of log Z in one latent function's kernel and inducing inputs (villacampa2017, eq. 10), block by block.

    ========  ===========================================================================  ========
    symbol    meaning                                                                      shape
    ========  ===========================================================================  ========
    S, m      covariance and mean of q(v) (in the tied form: of the cavity)                (M, M), (M,)
    S_q, m_q  those of q(v) itself
    λ, ξ, ζ   weights of m and S t_i, and the derivative in s_i = κ_i - |t_i|²             (b,)
    χ, T_w    weights of S t_w, and whitened vectors t_w = Lᵀw that sites stand on         (b,), (b, M)
    e₁, e₂    mismatch of moments (exact gradient)                                         (b,)
    ρ         rows in all / rows here                                                      scalar
    T̅         λ mᵀ + diag(ξ) T S + diag(χ) T_w S - 2 diag(ζ) T, so that K̅_nm = ρ T̅ L⁻¹      (b, M)
    V         (T̅ + diag(ζ) T)ᵀ T                                                           (M, M)
    ========  ===========================================================================  ========

    With the sites held as functions of u, log q(u) moves with the prior alone, and

        K̅_mm = -½ L⁻ᵀ [I - S_q - m_q m_qᵀ + ρ (V + Vᵀ) - S Tᵀ diag(e₂) T S - x mᵀ - m xᵀ] L⁻¹,  x = S Tᵀ e₁,  κ̅ = ρ ζ,

    the terms in e being zero at EP's fixed point and left out of eq. (10).

    Parameters
    ----------
    basis : Basis
    q : GaussianQ
        m and S.
    """

    def __init__(self, basis: Basis, q: GaussianQ) -> None:
        M = len(q.mean)
        self._basis, self._m = basis, q.mean
        self._V = np.zeros((M, M), order="F")
        self._mismatch: Array | None = None
        self._theta, self._Z = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape)

    def add(
        self, X: Array, T: Array, TS: Array, *, lam: Array, xi: Array, zeta: Array, moved: Array | None = None
    ) -> None:
        """Add the rows X (b, d) that the basis whitened last.

        Parameters
        ----------
        T, TS : (b, M)
            TS is overwritten.
        lam, xi, zeta : (b,)
        moved : (b, M), optional
            diag(χ) T_w S.
        """
        half = np.multiply(T, zeta[:, None], order="F")
        TS *= xi[:, None]
        TS -= half
        if moved is not None:
            TS += moved
        TS = blas.dger(1.0, lam, self._m, a=TS, overwrite_a=1)
        self._V = blas.dgemm(1.0, TS, T, trans_a=1, beta=1.0, c=self._V, overwrite_c=1)
        TS -= half
        dtheta, dZ = self._basis.cross_pullback(X, TS, h=zeta)
        self._theta += dtheta
        self._Z += dZ

    def add_mismatch(self, TS: Array, *, e1: Array, e2: Array) -> None:
        """Add what the exact gradient has beside eq. (10)."""
        x = blas.dgemv(1.0, TS, e1, trans=1)
        part = blas.dgemm(1.0, np.multiply(TS, e2[:, None], order="F"), TS, trans_a=1)
        outer = np.outer(x, self._m)
        part += outer
        part += outer.T
        self._mismatch = part if self._mismatch is None else self._mismatch + part

    def total(self, q: GaussianQ, *, scale: float = 1.0) -> tuple[Array, Array]:
        """Gradients in ``theta`` (P,) and Z (M, d); q is the one of m_q and S_q, and scale is ρ."""
        V = self._V
        V *= scale
        Y = np.add(V, V.T, order="F")
        Y -= q.covariance_lower  # of a symmetric Y the lower triangle counts
        Y = blas.dger(-1.0, q.mean, q.mean, a=Y, overwrite_a=1)
        add_to_diagonal(Y, 1.0)
        if self._mismatch is not None:
            Y -= self._mismatch
        dtheta, dZ = self._basis.gram_pullback(Y)
        return scale * self._theta + dtheta, scale * self._Z + dZ


class CarriedSites:
    """Sites' Gaussians that stay what they are as functions of u while kernels and inducing inputs move.

    In v the sites G and e become JᵀGJ and Jᵀe, J = L_old⁻¹ L_new, when the kernel moves: no worse conditioned than J,
    which is near the identity, where the parameters of u themselves carry the condition of K_mm.

    Parameters
    ----------
    kernels, inducing : sequences
        Kernel and Z (M, d) of each latent function.
    jitters : sequence of float, optional
        Absolute jitters at first; by default the ladder.

    Attributes
    ----------
    bases : list of Basis
    G : list of (M, M)
        Both triangles, Fortran-ordered; zero at first.
    e : list of (M,)
        Zero at first.

    Raises
    ------
    NumericalError
        A K_mm is not positive definite.
    """

    def __init__(
        self, kernels: Sequence[Kernel], inducing: Sequence[Array], *, jitters: Sequence[float] | None = None
    ) -> None:
        self.bases = bound_to(kernels, inducing, jitters)
        self.G = [np.zeros((len(Z), len(Z)), order="F") for Z in inducing]
        self.e = [np.zeros(len(Z)) for Z in inducing]

    def move(
        self, kernels: Sequence[Kernel], inducing: Sequence[Array], *, jitters: Sequence[float] | None = None
    ) -> None:
        """Take other kernels and inducing inputs.

        Raises
        ------
        NumericalError
            A K_mm is not positive definite; everything is then as it was.
        """
        moved = bound_to(kernels, inducing, jitters)
        for c, (old, new) in enumerate(zip(self.bases, moved, strict=True)):
            J = old.change_to(new)
            G = trmm(J, trmm(J, self.G[c], side="right", overwrite=True), trans=True, overwrite=True)
            G = np.add(G, G.T, order="F")
            G *= 0.5
            self.G[c], self.e[c] = G, trmv(J, self.e[c], trans=True)
        self.bases = moved

    def change(self, c: int, sums: Moments, *, keep: float = 1.0, take: float = 1.0) -> None:
        """Make the sites of latent function c ``keep`` times themselves plus ``take`` times the sums of some rows."""
        G = self.G[c]
        if keep != 1.0:
            G *= keep
        G += sums.symmetric(take)
        self.e[c] = keep * self.e[c] + take * sums.r

    def q(self, c: int, *, share: float = 1.0) -> tuple[GaussianQ, float]:
        """q(v) of latent function c, or with a share of its sites alone, and the log normaliser over the prior's."""
        G, e = self.G[c], self.e[c]
        if share != 1.0:
            G, e = share * G, share * e
        q = GaussianQ.of_sites(G, e)
        return q, q.log_normaliser(e)

    def latents(self) -> tuple[Latent, ...]:
        """The latent functions; they hold copies."""
        return tuple(Latent.of(basis, self.q(c)[0]) for c, basis in enumerate(self.bases))
