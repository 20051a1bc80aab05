"""Stochastic EP: the sites of a latent function tied to one Gaussian, whose memory does not grow with the rows.

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
n, b      rows in all, and rows looked at
n_c       factors that touch latent function c in all rows; n_cb in the b rows
G, e      natural parameters of all n_c sites together, in the whitened v                       (M, M), (M,)
q⁻(v)     cavity of any of these factors: the prior and (n_c - 1) / n_c of the sites
π, b      new sites of the rows, summed for each row and latent function                       (b, F)
ψ, ε      n_cb / n_c, the share of the sites that is replaced, and damping
log Z     Σ_c log Z(q) + n/b Σ [log Φ(β)] + n/b Σ_c n_cb [log Z(q⁻) - log Z(q)]                 scalar
========  ===================================================================================  ===========

Source: villacampa2017, section 2.3.1; Li, Hernández-Lobato and Turner (2015). Per batch G ← (1 - εψ) G + ε Σ π t tᵀ.
The gradient is eq. (10) with q⁻ in the terms of the rows: not the derivative of log Z at converged sites, since SEP
averages natural parameters and log Z is stationary under averaged moments, but that of log Z with sites and cavities
held as functions of u.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.whitened import BLOCK_ROWS, Moments, row_blocks
from gpbench.schemes.scalable_ep.adjoint import SiteGradient
from gpbench.schemes.scalable_ep.moving import MovingSites, marginals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Rows
    from gpbench.schemes.scalable_ep.factors import Factors
    from gpbench.schemes.scalable_ep.gaussian import SiteGaussian

__all__ = ["TiedEP", "TiedLook"]

ONE_BLOCK = 1 << 21
"""Values of T in all latent functions (16 MB) up to which all rows make one block."""


class TiedLook(NamedTuple):
    """What a batch says.

    Attributes
    ----------
    log_z : float
        Evidence (nats), estimated from the batch.
    gradient : list of (dtheta (P,), dZ (M, d)), or empty
        Of log Z, estimated.
    residual : (F M,)
        Change of all e that the undamped update would have made.
    """

    log_z: float
    gradient: list[tuple[Array, Array]]
    residual: Array


class TiedEP:
    """Tied sites of all latent functions.

    Parameters
    ----------
    kernels, inducing : sequences
        Kernel and Z (M, d) of each latent function.
    touching : (F,)
        n_c of each.
    jitters : sequence of float, optional
        Absolute jitters at first; by default the ladder.
    size : int
        Rows in a block, where those of a batch do not all make one.

    Attributes
    ----------
    sites : MovingSites
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        inducing: Sequence[Array],
        *,
        touching: Array,
        jitters: Sequence[float] | None = None,
        size: int = BLOCK_ROWS,
    ) -> None:
        self.sites = MovingSites(kernels, inducing, jitters=jitters)
        self._touching, self._size = touching, size

    def look(
        self, X: Rows, factors: Factors, *, scale: float = 1.0, damping: float = 1.0, gradient: bool = True
    ) -> TiedLook:
        """Update the sites from the rows X (b, d), and give log Z and its gradient as they were before.

        Parameters
        ----------
        X : (b, d)
        factors : Factors
            Of these rows.
        scale : float
            n / b.
        damping : float
            ε; 0 leaves the sites alone.
        gradient : bool
            Whether to work out the gradient.

        Raises
        ------
        NumericalError
            Something is not finite.
        """
        sites, F = self.sites, factors.F
        qs = [sites.gaussian(c) for c in range(F)]
        cavities = [sites.gaussian(c, share=1.0 - 1.0 / self._touching[c]) for c in range(F)]
        here = factors.touching()
        log_z = sum(q.log_z for q in qs)
        log_z += scale * sum(k * (without.log_z - q.log_z) for k, q, without in zip(here, qs, cavities, strict=True))
        gradients = [SiteGradient(basis, q.m) for basis, q in zip(sites.bases, cavities, strict=True)]
        sums = [Moments(len(q.m)) for q in qs]
        b, M = len(X), sum(len(q.m) for q in qs)
        for rows in row_blocks(b, b if b * M <= ONE_BLOCK else self._size):
            log_z += scale * self._block(X[rows], factors.part(rows), cavities, sums, gradients if gradient else [])
        if not math.isfinite(log_z):
            raise NumericalError(f"stochastic EP must stay finite; got a log evidence of {log_z}")
        residual = np.concatenate([each.r - sites.e[c] * self._share(here[c], c) for c, each in enumerate(sums)])
        if damping > 0:
            for c, each in enumerate(sums):
                sites.change(c, each, keep=1.0 - damping * self._share(here[c], c), take=damping)
        pairs = zip(gradients, qs, strict=True)
        return TiedLook(log_z, [each.total(q.S, q.m, scale=scale) for each, q in pairs] if gradient else [], residual)

    def _share(self, here: float, c: int) -> float:
        """ψ."""
        return float(here / self._touching[c])

    def _block(
        self,
        X: Array,
        factors: Factors,
        cavities: list[SiteGaussian],
        sums: list[Moments],
        gradients: list[SiteGradient],
    ) -> float:
        """Add a block of rows to the sums and the gradients; returns Σ log Φ(β)."""
        s, h, g = (np.empty((len(X), factors.F)) for _ in range(3))
        Ts, projected = [], []
        for c, (basis, q) in enumerate(zip(self.sites.bases, cavities, strict=True)):
            T, s[:, c] = basis.whiten(X)
            TS, h[:, c], g[:, c] = marginals(q, T)
            Ts.append(T)
            projected.append(TS)
        at = factors.tilt(factors.start(), s=np.maximum(s, 0.0, out=s), h=h, g=g)
        pi, b = factors.totals(at.target)
        for c, T in enumerate(Ts):
            sums[c].add(T, weights=pi[:, c], targets=b[:, c])
        if gradients:
            slopes = at.slopes()
            for c, each in enumerate(gradients):
                lam, xi, zeta = (values[:, c] for values in slopes[:3])
                each.add(X, Ts[c], projected[c], lam=lam, xi=xi, zeta=zeta, moved=None)
        return at.log_phi
