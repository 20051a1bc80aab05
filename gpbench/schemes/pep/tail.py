"""The tail of pep: mini-batches, where there are more rows than an evaluation should walk over.

=========  ==================================================================================  ========
symbol     meaning                                                                             shape
=========  ==================================================================================  ========
B, w       rows of a batch, and n/B                                                            scalars
T, k̃       whitened features of the batch, and what they leave of the prior variances          (B, M), (B,)
G, b       sums over sites: q(v) = N(S b, S), S = (I + G)⁻¹                                     (M, M), (M,)
e, g, h    the tilted integral at N(μ, s) and its derivatives; s = t·S t + k̃                   (B,)
ρ          step size of G and b
=========  ==================================================================================  ========

With so many rows a row's share of q is nothing: its cavity is q itself, and no site need be kept. A step moves G and b
towards what the batch's sites d = a g² - 2h and c = g + d μ make of them, scaled to all rows. Then kernel, Z and
parameters take a step of Adam along the gradient of w Σ e - KL(q(v) || p(v)) + log p(θ), with q(v) held:
T̅ = w [g mᵀ + 2 diag(h) T (S - I)], and w h is the adjoint of k̃.

q is within a few per cent already: small steps that grow smaller keep what the stages have found (faster ones throw it
away). For a = 0 this is the sparse KL bound's stochastic natural gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.optimize.steps import Adam
from gpbench.schemes.pep.energy import row_dots, times_triangle
from gpbench.schemes.pep.rows import Cavity, free_gradient, tilted

if TYPE_CHECKING:
    from gpbench.model.kernels.base import Features
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels
    from gpbench.optimize.unknowns import Unknowns

__all__ = ["Batch", "Tail"]

FIRST_RHO, RHO_HALVED = 0.05, 200.0
"""ρ at the first step, and the steps after which it is halved."""
FIRST_RATE, RATE_HALVED = 0.01, 100.0
"""The same of Adam's rate."""
LEAST_VARIANCE = 1e-10


class LogPrior(Protocol):
    """Log density and its gradient."""

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """At the kernel's logarithms (P,)."""


class Tail:
    """q, kernel and parameters, moved by one batch at a time.

    Parameters
    ----------
    basis, q, likelihood, mean
        Where the stages have come to.
    grown : float
        n over the rows that q has seen: its sites are taken as many times.
    jitter : float
        Of K_mm, relative to its mean diagonal, which it follows.
    unknowns : Unknowns
        What moves (theta0, Z0, mean, free), in their units, between their bounds.
    prior : callable
        Of theta.
    power : float
        a.
    single : bool
        Whether the batch's matrices are float32.

    Attributes
    ----------
    basis, q, likelihood, mean
        As they are now.
    """

    def __init__(
        self,
        basis: Basis,
        q: GaussianQ,
        likelihood: Likelihood,
        *,
        grown: float,
        mean: float,
        jitter: float,
        unknowns: Unknowns,
        prior: LogPrior,
        power: float,
        single: bool,
    ) -> None:
        self.basis, self.likelihood, self.mean = basis, likelihood, mean
        M = len(q.mean)
        precision = q.root @ q.root.T
        self._b = precision @ q.mean
        self._G = np.asfortranarray(grown * (precision - np.eye(M)))
        self.q = GaussianQ.of_sites(self._G, self._b)  # the mean moves towards what more rows of the same kind say
        self._jitter, self._unknowns, self._prior, self._power, self._single = jitter, unknowns, prior, power, single
        self._x, self._bounds = unknowns.x, unknowns.bounds
        self._adam = Adam(unknowns.size, beta2=0.99)
        self._t = 0

    def step(self, X: Array, y: Labels, *, scale: float) -> None:
        """Move q, and what else moves, by a batch X (B, D), y (B,), of which there are ``scale`` times as many rows."""
        batch = Batch.of(self.basis, self.q, X, single=self._single)
        at = Cavity(np.ones_like(batch.mu), batch.mu + self.mean, batch.s, batch.s)
        found = tilted(self.likelihood, y, at, power=self._power, single=self._single)
        d = np.maximum(self._power * np.square(found.g) - 2.0 * found.h, 0.0)
        G, b = batch.sums(c=found.g + d * batch.mu, d=d)
        if self._unknowns.size:
            gradient = batch.gradient(self.q, g=found.g, h=found.h, d=d, G=G, scale=scale, jitter=self._jitter)
            if "free" in self._unknowns.parts:
                gradient["free"] = scale * free_gradient(self.likelihood, y, at, power=self._power)
        rho = FIRST_RHO / (1.0 + self._t / RHO_HALVED)
        self._G += rho * (scale * G - self._G)
        self._b += rho * (scale * b - self._b)
        self.q = GaussianQ.of_sites(self._G, self._b)
        if self._unknowns.size:
            self._move(gradient)
        self._t += 1

    def _move(self, gradient: dict[str, Array]) -> None:
        """A step of Adam in the unknowns, their bounds kept; none where K_mm loses its factor."""
        gradient["theta0"] = gradient["theta0"] + self._prior(self.basis.kernel.theta)[1]
        rate = FIRST_RATE / (1.0 + self._t / RATE_HALVED)
        x = np.clip(self._x + self._adam.step(self._unknowns.gradient(gradient), rate=rate), *self._bounds)
        values = self._unknowns.values(x)
        kernel, Z = self.basis.kernel.with_theta(values["theta0"]), np.array(values["Z0"])
        try:
            basis = Basis(kernel, Z, jitter=self._jitter * float(kernel.diag(Z).mean()))
        except NumericalError:
            return
        self._x, self.basis = x, basis
        if "mean" in values:
            self.mean = float(values["mean"][0])
        if "free" in values:
            self.likelihood = self.likelihood.with_free(values["free"])


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows under a kernel and q.

    Attributes
    ----------
    X : (B, D)
    features : Features
        That made K_nm of them last.
    T, TS : (B, M)
    mu, s : (B,)
        Mean and variance of q(f).
    """

    basis: Basis
    X: Array
    features: Features
    T: Array
    TS: Array
    mu: Array
    s: Array

    @classmethod
    def of(cls, basis: Basis, q: GaussianQ, X: Array, *, single: bool) -> Batch:
        """Rows X (B, D)."""
        features = basis.kernel.bind(basis.Z, single=single)
        T = features.cross(X).copy(order="K")
        times_triangle(T, basis.L_inv.astype(T.dtype, order="F"), trans=True)
        TS = np.matmul(T, q.covariance.astype(T.dtype), out=np.empty_like(T))
        prior = basis.kernel.constant_diag
        rest = (basis.kernel.diag(X) if prior is None else prior) - row_dots(T, T)
        s = np.maximum(rest, 0.0) + np.maximum(row_dots(T, TS), LEAST_VARIANCE)
        mu = T @ q.mean.astype(T.dtype)
        return cls(basis, X, features, T, TS, mu.astype(np.float64), s.astype(np.float64))

    def sums(self, *, c: Array, d: Array) -> tuple[Array, Array]:
        """Tᵀ diag(d) T (M, M) and Tᵀ c (M,) of sites, each (B,), d >= 0."""
        scaled = self.T * np.sqrt(d).astype(self.T.dtype)[:, None]
        return (scaled.T @ scaled).astype(np.float64), c.astype(self.T.dtype) @ self.T

    def gradient(
        self, q: GaussianQ, *, g: Array, h: Array, d: Array, G: Array, scale: float, jitter: float
    ) -> dict[str, Array]:
        """Gradients of ``scale`` Σ e - KL in theta0 (P,), Z0 (M, D) and the constant mean (1,), with q(v) held.

        T̅ᵀT is made of Tᵀ diag(2h) T, and that of sites d (B,), their sum G, and weights 2h + d, none of them negative:
        half a product.
        """
        T, basis, S = self.T, self.basis, q.covariance
        more, by_mean = self.sums(c=g, d=2.0 * h + d)
        H = more - G
        Y = np.asfortranarray(scale * (S @ H - H + np.outer(q.mean, by_mean)))
        left, weights = ((scale * each).astype(T.dtype)[:, None] for each in (g, 2.0 * h))
        K_bar = np.subtract(self.TS, T, out=self.TS)  # T̅, then K̅
        K_bar *= weights
        K_bar += left * q.mean.astype(T.dtype)
        times_triangle(K_bar, basis.L_inv.astype(T.dtype, order="F"))
        dtheta, dZ = self.features.pullback(K_bar)
        dtheta += basis.kernel.diag_pullback(self.X, scale * h)
        more_theta, more_Z = basis.gram_pullback(Y, jitter=jitter)
        return {"theta0": dtheta + more_theta, "Z0": dZ + more_Z, "mean": np.array([scale * g.sum()])}
