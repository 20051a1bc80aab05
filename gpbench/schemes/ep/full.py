"""ep: full expectation propagation with the probit (Rasmussen and Williams 2006, section 3.6).

The EP column of hensman2015, who took it from the GPML toolbox.

========  ===================================================================  ========
symbol    meaning                                                              shape
========  ===================================================================  ========
n         rows; inducing inputs are the rows themselves, Z = X
θ         logarithms of the kernel's hyper-parameters                          (P,)
τ, b      sites exp(-½ τ f² + b f), one for each row                           (n,)
log Z     EP's approximation of log p(y | θ), which L-BFGS-B climbs            scalar
========  ===================================================================  ========

Each update of all sites costs O(n³), with n x n matrices: more than ``max_rows`` rows are refused. The toolbox visits
sites in random order and stops when log Z changes by less than 1e-4; here sites move together, damped and extrapolated,
or one after the other (``order = sequential``), to a tighter tolerance. The fixed point is the same.

The algorithm:

========  ===========================================================================  ========
symbol    meaning                                                                      shape
========  ===========================================================================  ========
K         prior covariance of f at the rows, white noise and jitter on its diagonal    (n, n)
τ, b      sites exp(-½ τ f² + b f), τ ≥ 0                                              (n,)
B         I + τ^½ K τ^½ = L_B L_Bᵀ: eigenvalues of 1 and more, whatever K is           (n, n)
Σ, μ      posterior covariance and mean: Σ_ii = (1 - (B⁻¹)_ii)/τ_i, and K α              (n, n), (n,)
α         b - τ^½ B⁻¹ τ^½ K b = b - τ μ = K⁻¹ μ                                        (n,)
========  ===========================================================================  ========

The means settle before the variances do: while τ is held, b goes to where the means match, which costs O(n²) for each
of a few updates with the factor that is there. The O(n³) of the parallel update then has precisions alone to settle.

At the fixed point ∂log Z / ∂K = ½ (α αᵀ - τ^½ B⁻¹ τ^½). Updates are parallel (all sites at once, damped and mixed), or
sequential: site after site with a rank-one change of Σ (algorithm 3.5), which needs a loop over the rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.linalg import blas

from gpbench.errors import NumericalError
from gpbench.model.gaussian import GaussianQ
from gpbench.model.linalg import (
    JITTER_FIRST,
    add_to_diagonal,
    cholesky,
    inverse_lower,
    inverse_of,
    mirror_lower,
    potrf,
    syrk,
    trsm,
    trsv,
)
from gpbench.model.posterior import Latent
from gpbench.model.sites import cavity, matched_site, tilted, variances_left
from gpbench.optimize.fixed_point import FixedPointOutcome, FixedPointSearch, Proposal
from gpbench.optimize.maximise import LOG_BOUND
from gpbench.optimize.unknowns import Part, Unknowns
from gpbench.schemes import settings
from gpbench.schemes.base import setting
from gpbench.schemes.ep.evidence import EPScheme, EvidenceTraining
from gpbench.schemes.ep.factors import ProbitFactors
from gpbench.schemes.settings import binary_likelihood, check_row_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["EP", "FullEP"]

_MEANS = 8
"""Updates of b at most while τ, and with it B's factor, is held: on ringnorm (500 rows) 7 sweeps for 13."""
_MEANS_SETTLED = 0.03
"""Means match where b moves by less than this share of what τ is yet to move by."""
_FAR = 1.0
"""Where τ is yet to move by more, means wait."""
_ROUNDING = 1e-9
_BETWEEN_CHECKS = 50
"""Sites updated one after the other between two looks at the limits."""


@dataclass(frozen=True, kw_only=True)
class EP(EPScheme):
    """Full EP; hyper-parameters by L-BFGS-B on the log evidence."""

    order: str = setting("parallel", "all sites at once, or one after the other", choices=("parallel", "sequential"))
    max_rows: int = settings.max_rows()

    name: ClassVar[str] = "ep"
    tolerance_binary: ClassVar[float] = 1e-5

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The probit.

        Raises
        ------
        UsageError
            The task is not binary.
        """
        return binary_likelihood(self.name, "probit", task=task, n_classes=n_classes)

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,  # noqa: ARG002 - Z = X
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> EvidenceTraining:
        """Training at its beginning.

        Raises
        ------
        UsageError
            There are too many rows.
        """
        check_row_limit(self.name, len(X), max_rows=self.max_rows)
        return EvidenceTraining(self, _Evidence(self, X[0 : len(X)], y), likelihood, classes)


class _Evidence:
    """log Z as a function of θ."""

    def __init__(self, scheme: EP, X: Array, y: Labels) -> None:
        self._kernel = scheme.initial_kernel(X)
        self._X = np.asarray(X, dtype=np.float64)
        self._factors = ProbitFactors(np.where(np.asarray(y) == 1, 1.0, -1.0))
        self._sequential = scheme.order == "sequential"
        learns = scheme.hyperparameters == "learned"
        self.unknowns = Unknowns(theta=Part(value=self._kernel.theta, free=learns, low=-LOG_BOUND, high=LOG_BOUND))
        self.sites = self._factors.start()

    def at(
        self,
        values: Mapping[str, Array],
        *,
        sites: Array,
        search: FixedPointSearch,
        jitters: Sequence[float] | None,
        check: Callable[[], None],
    ) -> FullEP:
        return FullEP(
            self._kernel.with_theta(values["theta"]),
            self._X,
            self._factors,
            x=sites,
            search=search,
            jitter=None if jitters is None else jitters[0],
            sequential=self._sequential,
            check=check,
        )


class FullEP:
    """EP at a kernel, run to its fixed point.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d)
    factors : ProbitFactors
    x : (2 n,)
        Sites to start from, τ and then b.
    search : FixedPointSearch
    jitter : float, optional
        Absolute jitter of K; by default 1e-6 of its mean diagonal. EP itself needs none.
    sequential : bool
        Site after site instead of all at once.
    check : callable
        Called before each update; may raise to end training.

    Attributes
    ----------
    log_z : float
        Log evidence (nats).
    outcome : FixedPointOutcome
        The sites and how they settled.
    mean, var : (n,)
        Of q(f) at the rows.

    Raises
    ------
    NumericalError
        A number is not finite.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        factors: ProbitFactors,
        *,
        x: Array,
        search: FixedPointSearch,
        jitter: float | None = None,
        sequential: bool = False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.kernel, self._X, self._y, self._factors, self._check = kernel, X, factors.y, factors, check
        self._features = kernel.bind(X)
        K = self._features.gram()
        self.jitter = JITTER_FIRST * float(np.trace(K)) / len(X) if jitter is None else jitter
        add_to_diagonal(K, self.jitter)
        if not np.isfinite(np.trace(K)):
            raise NumericalError(f"the prior covariance must be finite; got a trace of {np.trace(K)}")
        self._K = K
        self.mean: Array
        self.alpha: Array
        # Without an update to come nothing moves: the posterior that these very sites make.
        update = partial(self._update, means=search.limit > 0)
        self.outcome = self._sweep(x, search) if sequential else search.settle(update, x)
        b = self.outcome.x[len(X) :]
        log_root = float(np.log(np.diag(self._L_B)).sum())
        sites = factors.evidence(self.outcome.x, self.mean[:, None], self.var[:, None])
        self.objective = self.log_z = 0.5 * float(b @ self.mean) - log_root + sites

    @property
    def jitters(self) -> tuple[float, ...]:
        """Absolute jitter of K."""
        return (self.jitter,)

    def gradient(self) -> dict[str, Array]:
        """Gradient of log Z in ``theta`` (P,), for sites at their fixed point."""
        inverse = inverse_of(self._L_B)
        root = np.sqrt(self.outcome.x[: len(self._y)])
        inverse *= -0.5 * root[:, None]
        inverse *= root
        adjoint = blas.dsyr(0.5, self.alpha, a=inverse, lower=1, overwrite_a=1)
        return {"theta": self._features.gram_pullback(mirror_lower(adjoint))[0]}

    def latents(self) -> tuple[Latent, ...]:
        """The one latent function with q(u), Z = X; holds copies.

        Raises
        ------
        NumericalError
            K is not positive definite with any jitter.
        """
        gram = self._features.gram()
        try:
            L, jitter = cholesky(gram, what="K of full EP", jitter=self.jitter)
        except NumericalError:
            L, jitter = cholesky(gram, what="K of full EP")
        n = len(self._y)
        tau, b = self.outcome.x[:n], self.outcome.x[n:]
        q = GaussianQ.of_sites(syrk(L * np.sqrt(tau)[:, None], trans=True), L.T @ b)
        return (Latent(self.kernel, self._X, q.mean, q.root, form=q.form, jitter=jitter),)

    def _update(self, x: Array, *, means: bool) -> Proposal:
        """Posterior from sites, and the parallel update; with ``means`` b first goes to where means match."""
        self._check()
        n, K = len(self._y), self._K
        tau, b = x[:n], x[n:]
        root = np.sqrt(tau)
        B = np.multiply(K * root[:, None], root, order="F")
        add_to_diagonal(B, 1.0)
        self._L_B = potrf(B, what="B of full EP", overwrite=True)
        half = inverse_lower(self._L_B)
        self.var = variances_left(K, root, self._L_B, kept=np.einsum("ij,ij->j", half, half))
        found = self._given(tau, b)
        left = float(np.max(found.weights[:n] * np.abs(found.target[:n] - tau)))
        moved, change = self._matched(found, tau, b)
        for _ in range(_MEANS if means and left <= _FAR else 0):
            if change < max(_MEANS_SETTLED * left, _ROUNDING):
                break
            before = found, self.alpha, self.mean
            found = self._given(tau, moved)
            further, change_there = self._matched(found, tau, moved)
            if change_there >= change:  # it swings and comes no nearer: the damped update of τ and b does
                found, self.alpha, self.mean = before
                break
            b, moved, change = moved, further, change_there
        return found._replace(at=np.concatenate([tau, b]))

    def _matched(self, found: Proposal, tau: Array, b: Array) -> tuple[Array, float]:
        """Where b goes that means match under sites of precision τ, and by how much at most in the posterior's units.

        m̂ is the tilted mean: with b' - (τ' - τ) m̂ in place of b, a site of precision τ has the same mean.
        """
        n = len(tau)
        out = cavity(self.mean, self.var, tau=tau, b=b)
        wanted_tau, wanted_b = found.target[:n], found.target[n:]
        mean = (out.mean + out.var * wanted_b) / (1.0 + out.var * wanted_tau)
        moved = wanted_b - (wanted_tau - tau) * mean
        return moved, float(np.max(found.weights[n:] * np.abs(moved - b)))

    def _given(self, tau: Array, b: Array) -> Proposal:
        """Means for sites whose B is factorised and variances known, and the parallel update: O(n²)."""
        root = np.sqrt(tau)
        inner = trsv(self._L_B, trsv(self._L_B, root * (self._K @ b)), trans=True)
        self.alpha = b - root * inner
        self.mean = self._K @ self.alpha
        if not math.isfinite(float(self.mean.sum())):
            raise NumericalError("the posterior mean of full EP must be finite")
        return self._factors.propose(np.concatenate([tau, b]), self.mean[:, None], self.var[:, None])

    def _sweep(self, x: Array, search: FixedPointSearch) -> FixedPointOutcome:
        """Sequential updates; what ends them is the parallel update's change after each sweep."""
        n, x = len(self._y), x.copy()
        change, search.reached = math.inf, x
        for iteration in range(1, search.limit + 1):
            target, weights, _ = self._update(x, means=False)
            change = float(np.max(weights * np.abs(target - x)))
            if change <= search.tolerance:
                return FixedPointOutcome(x, change, iteration, True, 0)
            V = trsm(self._L_B, np.asfortranarray(self._K * np.sqrt(x[:n])[:, None]), overwrite=True)
            covariance, mean = np.asfortranarray(self._K - V.T @ V), self.mean.copy()
            for i in range(n):
                if i % _BETWEEN_CHECKS == 0:
                    self._check()
                column = covariance[:, i].copy()
                at = slice(i, i + 1)
                mu, var = mean[at], column[at]
                out = cavity(mu, var, tau=x[at], b=x[n + i : n + i + 1])
                moments = tilted(self._y[at] * out.mean, 1.0 + out.var)
                tau, b = matched_site(moments, mean=out.mean, var=out.var, rest=1.0, sign=self._y[at])
                d_tau, d_b = float(tau[0] - x[i]), float(b[0] - x[n + i])
                x[i], x[n + i] = tau[0], b[0]
                shrink = d_tau / (1.0 + d_tau * column[i])
                mean += column * (d_b * (1.0 - shrink * column[i]) - shrink * mu[0])
                covariance = blas.dger(-shrink, column, column, a=covariance, overwrite_a=1)
        self._update(x, means=False)
        return FixedPointOutcome(x, change, search.limit, False, 0)
