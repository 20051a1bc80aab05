"""gibbs: the Polya-Gamma Gibbs sampler of GP classification with a logit link, wenzel2019's ground truth (figure 1).

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
=======  =================================================================================  =======

The kernel is fixed and there are no inducing inputs. Given ω the posterior of f is normal with covariance
C = (K⁻¹ + Ω)⁻¹ and mean ½ C y; given f the ω are independent, ω_n ~ PG(1, f_n). A sweep draws both in turn. f is drawn
without an inverse: with v₀ ~ N(0, I) and f₀ = L v₀,

    f = f₀ + K w,  v = v₀ + Lᵀ w,  w = Ω^½ B⁻¹ (½ Ω^-½ y - Ω^½ f₀ - η),

one Cholesky factorisation of n rows a sweep, O(n³/3). The draws that are kept are the posterior: prediction averages
p(y* | f) over them, each integrated over what f leaves open at x*.

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
from scipy import fft
from scipy.linalg import blas

from gpbench.errors import UsageError
from gpbench.model.likelihoods.bernoulli import sigmoid
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

__all__ = ["Gibbs", "autocorrelation_times", "polya_gamma", "standard_errors"]

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

    link: str = settings.link("logit")
    burn_in: int = setting(200, "sweeps that are thrown away at the beginning", minimum=0)
    samples: int = setting(2000, "draws that are kept", minimum=1)
    thinning: int = setting(1, "sweeps from one draw that is kept to the next", minimum=1)
    max_rows: int = setting(2000, "rows at most: a sweep costs their cube, and the draws are held in memory", minimum=1)

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The Bernoulli likelihood with the logit link.

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
            Another likelihood than the logit, or more rows than ``max_rows``.
        NumericalError
            The kernel matrix cannot be factorised past every remedy.
        """
        if likelihood.name != "logit":
            raise UsageError(f"gibbs needs the likelihood logit; got {likelihood.name}")
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
        self._half = np.asarray(y) - 0.5  # ½ y
        self._kernel = scheme.initial_kernel(X)
        self._K = self._kernel.gram(X)
        self._L, self._jitter = cholesky(self._K, what="K of all rows")
        add_to_diagonal(self._K, self._jitter)
        self._B = np.empty_like(self._K)
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
        return found | _precision(self._kept() @ self._L.T) if self.kept >= FEW else found

    def _kept(self) -> Array:
        return self._draws[: self.kept] if self.kept else self._v[None]

    def _sweep(self) -> None:
        K, L, B, rng = self._K, self._L, self._B, self._rng
        omega = polya_gamma(self._f, rng=rng)
        root = np.sqrt(omega)
        np.multiply(K, root, out=B)
        B *= root[:, None]
        add_to_diagonal(B, 1.0)
        C = potrf(B, what="I + Ω^½ K Ω^½", overwrite=True)
        v = rng.standard_normal(len(root))
        f = trmv(L, v)
        w = self._half / root - root * f - rng.standard_normal(len(root))
        w = root * trsv(C, trsv(C, w), trans=True)
        v += trmv(L, w, trans=True)
        self._v, self._f = v, blas.dsymv(1.0, K, w, beta=1.0, y=f, lower=1, overwrite_y=1)


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


def _precision(f: Array) -> dict[str, float]:
    """Effective sample sizes and Monte Carlo standard errors of f and σ(f) at the rows, from draws f (S, n)."""
    tau = autocorrelation_times(f)
    sizes = len(f) / tau
    p = sigmoid(f)
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
