"""gibbs: sampling the exact posterior of GP classification, wenzel2019's ground truth (figure 1).

Polya-Gamma variables augment the logit (wenzel2019), normal ones the probit (Albert and Chib 1993).

=======  =================================================================================  =======
symbol   meaning                                                                            shape
=======  =================================================================================  =======
n        rows
y        classes as -1 and +1                                                               (n,)
K        k(X, X) with white noise and jitter; K = L Lᵀ                                      (n, n)
f, v     latent values at the rows, whitened: f = L v                                       (n,)
ω, Ω     Polya-Gamma variables, one a row (wenzel2019 (3) to (5)); Ω = diag(ω)              (n,)
η        standard normal noise                                                              (n,)
B        I + Ω^½ K Ω^½, with eigenvalues from 1 on                                          (n, n)
z        what f is seen as, with precision Ω                                                (n,)
=======  =================================================================================  =======

The kernel is fixed and there are no inducing inputs. Given ω the posterior of f is normal with covariance
C = (K⁻¹ + Ω)⁻¹ and mean ½ C y; given f the ω are independent, ω_n ~ PG(1, f_n). A sweep draws both in turn. f is drawn
without an inverse: with v₀ ~ N(0, I) and f₀ = L v₀,

    f = f₀ + K w,  v = v₀ + Lᵀ w,  w = Ω^½ B⁻¹ (Ω^½ z - Ω^½ f₀ - η),  z = ½ Ω⁻¹ y,

one Cholesky factorisation of n rows a sweep, O(n³/3). The probit is Φ(y f) = P(y z > 0) with z ~ N(f, 1): Ω = I, z
given f and y is normal cut at 0, and B is factorised once. The draws that are kept are the posterior: prediction
averages p(y* | f) over them, each integrated over what f leaves open at x*.

How much S dependent draws x are worth: with the autocorrelations ρ_k at lag k and τ = 1 + 2 Σ_{k>0} ρ_k the effective
sample size is S/τ and the standard error of the mean sd/√(S/τ). The sum is cut by Geyer's initial monotone sequence
(Geyer 1992, section 3.3): the sums of neighbours Γ_k = ρ_2k + ρ_{2k+1} of a reversible chain are positive and fall, so
it ends at the first that is not positive, and a rise is taken for noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from polyagamma import random_polyagamma
from scipy import fft, special
from scipy.linalg import blas

from gpbench.errors import UsageError
from gpbench.model.likelihoods.bernoulli import log_ndtr
from gpbench.model.linalg import add_to_diagonal, cholesky, potrf, trmv, trsv
from gpbench.model.posterior import Latent
from gpbench.model.sampled import SampledPosterior
from gpbench.schemes import settings
from gpbench.schemes.base import Training, run_training, setting
from gpbench.schemes.settings import KernelSettings, binary_likelihood, check_row_limit

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import OnStep, StoppedBy
    from gpbench.schemes.base import Fit

__all__ = [
    "Chain",
    "Gibbs",
    "autocorrelation_times",
    "polya_gamma",
    "shrink_factors",
    "shrink_factors_of",
    "standard_errors",
]

FAR = 60.0
"""|c| from which PG(1, c) is drawn as a quarter of an inverse Gaussian: the laws differ by less than exp(-100) there.
polyagamma 2.0.2 is right at 150 and returns the constant 0.16 at 200, where the mean is 0.0025."""
FEW = 4
"""Draws below which nothing is said about their dependence."""
COLUMNS = 256
"""Quantities whose autocorrelations are worked out together; bounds the memory."""


@dataclass(frozen=True, kw_only=True)
class Gibbs(KernelSettings):
    """Draws from the exact posterior of the latent values, the kernel being fixed."""

    link: str = settings.link("logit", "probit")
    burn_in: int = setting(200, "sweeps that are thrown away at the beginning", minimum=0)
    samples: int = setting(2000, "draws that are kept", minimum=1)
    thinning: int = setting(1, "sweeps from one draw that is kept to the next", minimum=1)
    max_rows: int = setting(2000, "rows at most: a sweep costs their cube, and the draws are held in memory", minimum=1)

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The Bernoulli likelihood with the link of the settings.

        Raises
        ------
        UsageError
            The task is not binary.
        """
        return binary_likelihood("gibbs", self.link, task=task, n_classes=n_classes)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,  # noqa: ARG002 - the sampler works on all rows
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
        on_step: OnStep,
    ) -> Fit:
        """Sample; see :class:`gpbench.schemes.base.Scheme`. A step is a sweep.

        Raises
        ------
        UsageError
            Another likelihood than logit or probit, or more rows than ``max_rows``.
        NumericalError
            The kernel matrix cannot be factorised past every remedy.
        """
        if likelihood.name not in {"logit", "probit"}:
            raise UsageError(f"gibbs needs the likelihood logit or probit; got {likelihood.name}")
        likelihood.check_targets(y, classes)
        check_row_limit("gibbs", len(X), max_rows=self.max_rows)
        inputs = np.array(X[0 : len(X)], dtype=np.float64)
        return run_training("gibbs", lambda: Chain(self, inputs, y, likelihood=likelihood, rng=rng), on_step)


class Chain(Training):
    """A chain and what was kept of it.

    Attributes
    ----------
    kept : int
        Draws.
    """

    unit = "sweep"

    def __init__(self, scheme: Gibbs, X: Array, y: Labels, *, likelihood: Likelihood, rng: np.random.Generator) -> None:
        super().__init__(limit=scheme.burn_in + scheme.samples * scheme.thinning)
        self.kept = 0
        self._scheme, self._X, self._likelihood, self._rng = scheme, X, likelihood, rng
        self._signs = 2.0 * np.asarray(y) - 1.0
        self._kernel = scheme.initial_kernel(X)
        self._K = self._kernel.gram(X)
        self._L, self._jitter = cholesky(self._K, what="K of all rows")
        add_to_diagonal(self._K, self._jitter)
        self._B = np.empty_like(self._K)
        self._C: Array | None = None  # the probit's factor of I + K
        self._f, self._v = np.zeros(len(X)), np.zeros(len(X))
        self._draws = np.empty((scheme.samples, len(X)))

    def train(self) -> StoppedBy:
        """Sweep until all draws are kept."""
        scheme, trainer = self._scheme, self.trainer
        while trainer.running:
            self._sweep()
            beyond = trainer.count + 1 - scheme.burn_in
            if beyond > 0 and beyond % scheme.thinning == 0:
                self._draws[self.kept] = self._v
                self.kept += 1
            trainer.report()
        return trainer.stopped_by

    def posterior(self) -> SampledPosterior:
        """The posterior of the draws kept so far; during burn-in, of the chain's present state."""
        n = len(self._X)
        latent = Latent(self._kernel, self._X, np.zeros(n), np.zeros((n, n)), form="covariance", jitter=self._jitter)
        return SampledPosterior.of_means(latent, self._kept(), likelihood=self._likelihood, classes=2)

    def facts(self) -> dict[str, Any]:
        """Of the chain, and how precise its means are."""
        found: dict[str, Any] = {
            "burn_in": min(self.trainer.count, self._scheme.burn_in),
            "thinning": self._scheme.thinning,
            "samples": self.kept,
        }
        if self.kept < FEW:
            return found
        f = self._kept() @ self._L.T
        return found | _precision(f, np.exp(self._likelihood.log_density(np.ones(f.shape[1], dtype=np.int64), f)))

    def go_on_from(self, v: Array) -> None:
        """Go on from other whitened values v (n,)."""
        self._v, self._f = v, trmv(self._L, v)

    def draws(self, sweeps: int, *, thinning: int = 1) -> Array:
        """Sweep on, apart from training, and give f after every ``thinning``-th sweep: (sweeps // thinning, n)."""
        found = np.empty((sweeps // thinning, len(self._v)))
        for number in range(len(found)):
            for _ in range(thinning):
                self._sweep()
            found[number] = self._f
        return found

    def _kept(self) -> Array:
        return self._draws[: self.kept] if self.kept else self._v[None]

    def _sweep(self) -> None:
        K, L, rng = self._K, self._L, self._rng
        root, seen, C = self._probit() if self._likelihood.name == "probit" else self._logit()
        v = rng.standard_normal(len(root))
        f = trmv(L, v)
        w = seen - root * f - rng.standard_normal(len(root))
        w = root * trsv(C, trsv(C, w), trans=True)
        v += trmv(L, w, trans=True)
        self._v, self._f = v, blas.dsymv(1.0, K, w, beta=1.0, y=f, lower=1, overwrite_y=1)

    def _logit(self) -> tuple[Array, Array, Array]:
        """Ω^½, Ω^½ z and the factor of B, from draws of ω given f."""
        B = self._B
        root = np.sqrt(polya_gamma(self._f, rng=self._rng))
        np.multiply(self._K, root, out=B)
        B *= root[:, None]
        add_to_diagonal(B, 1.0)
        return root, 0.5 * self._signs / root, potrf(B, what="I + Ω^½ K Ω^½", overwrite=True)

    def _probit(self) -> tuple[Array, Array, Array]:
        """The same from draws of z given f, Ω = I."""
        if self._C is None:
            self._B[...] = self._K
            add_to_diagonal(self._B, 1.0)
            self._C = potrf(self._B, what="I + K", overwrite=True)
        s, f = self._signs, self._f
        # s z - s f is a unit normal above -s f, by its upper tail, which keeps its digits
        above = -special.ndtri_exp(np.log1p(-self._rng.random(len(f))) + log_ndtr(s * f))
        return np.ones(len(f)), f + s * above, self._C


def polya_gamma(c: Array, *, rng: np.random.Generator) -> Array:
    """Independent draws from PG(1, c), shape (n,).

    Parameters
    ----------
    c : (n,)
        Tilts; their sign plays no part.
    rng : numpy.random.Generator
    """
    c = np.abs(c)
    far = c > FAR
    if not far.any():
        return np.asarray(random_polyagamma(1.0, c, random_state=rng))
    omega = np.empty(len(c))
    omega[~far] = random_polyagamma(1.0, c[~far], random_state=rng)
    omega[far] = 0.25 * rng.wald(2.0 / c[far], 1.0)
    return omega


def _precision(f: Array, p: Array) -> dict[str, float]:
    """Effective sample sizes and Monte Carlo standard errors of f and p(1 | f) at the rows, from draws (S, n)."""
    tau = autocorrelation_times(f)
    sizes = len(f) / tau
    return {
        "ess_least": float(sizes.min()),
        "ess_median": float(np.median(sizes)),
        "mcse_latent": float(standard_errors(f, tau).max()),
        "mcse_probability": float(standard_errors(p, autocorrelation_times(p)).max()),
    }


def autocorrelation_times(x: Array) -> Array:
    """Integrated autocorrelation time of each column, in draws.

    Parameters
    ----------
    x : (S, n)
        At least four draws.

    Returns
    -------
    (n,)
        At least 1/log10(S), since an estimate below says more about noise than about the chain; 1 for a quantity that
        never moves, whose mean has no error.
    """
    S, n = x.shape
    tau = np.empty(n)
    for first in range(0, n, COLUMNS):
        columns = slice(first, min(first + COLUMNS, n))
        tau[columns] = _times(x[:, columns])
    return np.asarray(np.maximum(tau, 1.0 / np.log10(S)))


def shrink_factors(chains: Array) -> Array:
    """Split R-hat of each quantity: how much its chains would shrink if they ran on (Gelman et al. 2013, section 11.4).

    Parameters
    ----------
    chains : (k, S, n)
        At least four draws of one or more chains; each is taken as two halves.

    Returns
    -------
    (n,)
        1 at convergence; 1 too for a quantity that never moves.
    """
    half = chains.shape[1] // 2
    parts = np.concatenate([chains[:, :half], chains[:, chains.shape[1] - half :]])
    return shrink_factors_of(parts.mean(axis=1), parts.var(axis=1, ddof=1), half)


def shrink_factors_of(means: Array, variances: Array, draws: int) -> Array:
    """R-hat (n,) from means and variances (k, n) of k pieces of chains, of ``draws`` draws each."""
    within = variances.mean(axis=0)
    total = within * (draws - 1) / draws + means.var(axis=0, ddof=1)
    return np.asarray(np.sqrt(np.divide(total, within, out=np.ones_like(total), where=within > 0.0)))


def standard_errors(x: Array, tau: Array) -> Array:
    """Monte Carlo standard error of each column's mean, shape (n,), from its autocorrelation time."""
    return np.asarray(x.std(axis=0, ddof=1) * np.sqrt(tau / len(x)))


def _times(x: Array) -> Array:
    S = len(x)
    centred = x - x.mean(axis=0)
    spectrum = fft.rfft(centred, n=fft.next_fast_len(2 * S, real=True), axis=0)
    covariance = fft.irfft(np.abs(spectrum) ** 2, n=fft.next_fast_len(2 * S, real=True), axis=0)[:S]
    still = covariance[0] <= S * (1e-14 * np.abs(x).max(axis=0)) ** 2
    rho = covariance / np.where(still, 1.0, covariance[0])
    pairs = rho[0 : 2 * (S // 2) : 2] + rho[1 : 2 * (S // 2) : 2]
    positive = np.logical_and.accumulate(pairs > 0.0, axis=0)
    falling = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    return np.where(still, 1.0, 2.0 * falling.sum(axis=0) - 1.0)
