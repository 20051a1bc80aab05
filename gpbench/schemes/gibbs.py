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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from polyagamma import random_polyagamma
from scipy.linalg import blas

from gpbench.errors import NumericalError, UsageError
from gpbench.model.functions import sigmoid
from gpbench.model.latent import Latent
from gpbench.model.linalg import add_to_diagonal, cholesky, potrf, trmv, trsv
from gpbench.model.sampled import SampledPosterior
from gpbench.schemes.base import OnStep, Step, StopTraining, setting
from gpbench.schemes.binary import binary_likelihood
from gpbench.schemes.gibbs_diagnostics import autocorrelation_times, standard_errors
from gpbench.schemes.row_limit import check_row_limit
from gpbench.schemes.settings import KernelSettings

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["Gibbs", "polya_gamma"]

FAR = 60.0
"""|c| from which PG(1, c) is drawn as a quarter of an inverse Gaussian: the laws differ by less than exp(-100) there.
polyagamma 2.0.2 is right at 150 and returns the constant 0.16 at 200, where the mean is 0.0025."""
FEW = 4
"""Draws below which nothing is said about their dependence."""


@dataclass(frozen=True, kw_only=True)
class Gibbs(KernelSettings):
    """Draws from the exact posterior of the latent values, the kernel being fixed."""

    link: str = setting("logit", "link function", choices=("logit",))
    burn_in: int = setting(200, "sweeps that are thrown away at the beginning", minimum=0)
    samples: int = setting(2000, "draws that are kept", minimum=1)
    thinning: int = setting(1, "sweeps from one draw that is kept to the next", minimum=1)
    max_rows: int = setting(2000, "rows at most: a sweep costs their cube, and the draws are held in memory", minimum=1)

    def likelihood(self, task: str, n_classes: int) -> Likelihood:
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
    ) -> SampledPosterior:
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
        try:
            run = _Run(self, np.array(X[0 : len(X)], dtype=np.float64), y, likelihood=likelihood)
        except NumericalError as error:
            raise NumericalError(f"gibbs, start: {error}") from error
        try:
            run.sample(rng, on_step)
        except StopTraining:
            pass
        except NumericalError as error:
            raise NumericalError(f"gibbs, sweep {run.sweeps}: {error}") from error
        return run.posterior(diagnostics=True)


class _Run:
    """A chain and what was kept of it.

    Attributes
    ----------
    sweeps, kept : int
    """

    def __init__(self, settings: Gibbs, X: Array, y: Labels, *, likelihood: Likelihood) -> None:
        self.sweeps, self.kept = 0, 0
        self._settings, self._X, self._likelihood = settings, X, likelihood
        self._half = np.asarray(y) - 0.5  # ½ y
        self._kernel = settings.initial_kernel(X)
        self._K = self._kernel.gram(X)
        self._L, self._jitter = cholesky(self._K, what="K of all rows")
        add_to_diagonal(self._K, self._jitter)
        self._B = np.empty_like(self._K)
        self._f, self._v = np.zeros(len(X)), np.zeros(len(X))
        self._draws = np.empty((settings.samples, len(X)))
        self._stopped_by = "on_step"

    def sample(self, rng: np.random.Generator, on_step: OnStep) -> None:
        """Sweep until all draws are kept.

        Raises
        ------
        StopTraining
            From ``on_step``, between two sweeps.
        """
        settings = self._settings
        while self.kept < settings.samples:
            self._sweep(rng)
            self.sweeps += 1
            beyond = self.sweeps - settings.burn_in
            if beyond > 0 and beyond % settings.thinning == 0:
                self._draws[self.kept] = self._v
                self.kept += 1
            on_step(Step(self.sweeps, bound=None, posterior=self.posterior))
        self._stopped_by = "iterations"

    def posterior(self, *, diagnostics: bool = False) -> SampledPosterior:
        """The posterior of the draws kept so far; during burn-in, of the chain's present state."""
        v = self._draws[: self.kept] if self.kept else self._v[None]
        facts: dict[str, Any] = {
            "iterations": self.sweeps,
            "stopped_by": self._stopped_by,
            "jitter": self._jitter,
            "hyperparameters": self._kernel.values(),
            "burn_in": min(self.sweeps, self._settings.burn_in),
            "thinning": self._settings.thinning,
            "samples": self.kept,
        }
        if diagnostics and self.kept >= FEW:
            facts |= _precision(v @ self._L.T)
        n = len(self._X)
        latent = Latent(self._kernel, self._X, np.zeros(n), np.zeros((n, n)), form="covariance", jitter=self._jitter)
        return SampledPosterior.of_means(latent, v, likelihood=self._likelihood, classes=2, facts=facts)

    def _sweep(self, rng: np.random.Generator) -> None:
        K, L, B = self._K, self._L, self._B
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
