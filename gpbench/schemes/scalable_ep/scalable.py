"""Scalable EP on all rows: q(u) from the sites, one parallel update of them, log Z and its gradient, in row blocks.

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
n, F      rows, latent functions (1, or the number of classes C)
T         whitened features of a latent function, row t_i = L⁻¹ k(Z, x_i), so that νᵀu = tᵀv     (b, M)
π, b      totals of the sites of each row and latent function                                  (n, F)
q(v)      N(m, S), S = (I + Tᵀ diag(π) T)⁻¹ = (C Cᵀ)⁻¹, m = S Tᵀ b                              (M,), (M, M)
h, g      t_iᵀ S t_i and t_iᵀ m                                                                (n, F)
log Z     Σ_c [½ mᵀ(Tᵀb) - Σ log C_jj] + Σ over factors [log Φ(β) + Δ]  (villacampa2017, eq. 9)  scalar
========  ===================================================================================  ===========

Sites are pairs of scalars that always stand on the current ν: "a Gaussian pseudo-observation of νᵀu". So memory is
O(n C + C M²) and a block, there are no stored vectors, and zero sites, C⁻¹ and cavities need no special care: the
eigenvalues of C Cᵀ are 1 or more, and sites stay non-negative. A look costs O(C n M²): one walk for Tᵀ diag(π) T, one
for h, g, the new sites and the gradient. Where all rows make one block, T is kept from the first to the second.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.errors import NumericalError
from gpbench.model.batch import BatchBasis
from gpbench.model.posterior import Latent
from gpbench.model.whitened import BLOCK_ROWS, Moments, row_blocks
from gpbench.schemes.scalable_ep.adjoint import SiteGradient
from gpbench.schemes.scalable_ep.gaussian import SiteGaussian

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Rows
    from gpbench.schemes.scalable_ep.factors import Factors

__all__ = ["Look", "ScalableEP"]

ONE_BLOCK = 1 << 21
"""Values of T in all latent functions (16 MB) up to which all rows make one block."""


class Look(NamedTuple):
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
    gradient: list[tuple[Array, Array]]


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
    size : int
        Rows in a block, where they do not all make one.

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
        size: int = BLOCK_ROWS,
    ) -> None:
        wanted = [None] * len(kernels) if jitters is None else list(jitters)
        self.bases = [
            BatchBasis(kernel, Z, jitter=jitter) for kernel, Z, jitter in zip(kernels, inducing, wanted, strict=True)
        ]
        self._X, self._factors = X, factors
        n, M = len(X), sum(len(Z) for Z in inducing)
        self._size = n if n * M <= ONE_BLOCK else size
        self._kept: tuple[Array, list[Array], Array] | None = None
        self._q: list[SiteGaussian] = []

    @property
    def jitter(self) -> float:
        """The largest jitter of the latent functions' K_mm."""
        return max(basis.jitter for basis in self.bases)

    def look(self, x: Array, *, gradient: bool = True, exact: bool = False) -> Look:
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
        gradients = [SiteGradient(basis, q.m) for basis, q in zip(self.bases, self._q, strict=True)]
        target, weights = np.empty_like(x), np.empty_like(x)
        for rows, X, Ts, s in self._blocks():
            h, g = np.empty(s.shape), np.empty(s.shape)
            projected = []
            for c, (T, q) in enumerate(zip(Ts, self._q, strict=True)):
                TS = q.project(T)
                np.einsum("ij,ij->i", T, TS, out=h[:, c])
                g[:, c] = blas.dgemv(1.0, T, q.m)
                projected.append(TS)
            np.maximum(h, 0.0, out=h)
            at = factors.part(rows).tilt(x[:, rows], s=s, h=h, g=g)
            target[:, rows], weights[:, rows] = at.target, at.weights
            log_z += at.log_z
            if not gradient:
                continue
            slopes = at.slopes(exact=exact)
            for c in range(F):
                if slopes.e1 is not None and slopes.e2 is not None:
                    gradients[c].add_mismatch(projected[c], e1=slopes.e1[:, c], e2=slopes.e2[:, c])
                lam, xi, zeta = (each[:, c] for each in slopes[:3])
                gradients[c].add(X, Ts[c], projected[c], lam=lam, xi=xi, zeta=zeta, moved=None)
        if not (math.isfinite(log_z) and np.isfinite(target).all()):
            raise NumericalError(f"scalable EP must stay finite; got a log evidence of {log_z}")
        pairs = zip(gradients, self._q, strict=True)
        return Look(target, weights, log_z, [each.total(q.S, q.m) for each, q in pairs] if gradient else [])

    def latents(self) -> tuple[Latent, ...]:
        """The latent functions with the q(u) of the last look; they hold copies."""
        return tuple(
            Latent(basis.kernel, basis.Z, q.m, q.C, form="precision", jitter=basis.jitter)
            for basis, q in zip(self.bases, self._q, strict=True)
        )

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
        self._q = [SiteGaussian(each.G, each.r) for each in sums]
        return sum(q.log_z for q in self._q)

    def _blocks(self) -> Iterator[tuple[slice, Array, list[Array], Array]]:
        """Row numbers, rows (b, d), T (b, M) of each latent function, and s (b, F)."""
        n = len(self._X)
        if self._kept is not None:
            yield slice(0, n), *self._kept
            return
        for rows in row_blocks(n, self._size):
            X = self._X[rows]
            s = np.empty((len(X), len(self.bases)))
            Ts = []
            for c, basis in enumerate(self.bases):
                T, s[:, c] = basis.whiten(X)
                Ts.append(T)
            np.maximum(s, 0.0, out=s)  # rounding where x lies on an inducing input
            if self._size >= n:
                self._kept = (X, Ts, s)
            yield rows, X, Ts, s
