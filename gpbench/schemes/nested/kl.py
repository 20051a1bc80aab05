"""kl: the full variational Gaussian approximation in 2n unknowns (Opper and Archambeau 2009), hensman2015's column KL.

========  =================================================================  ==========
symbol    meaning                                                            shape
========  =================================================================  ==========
n         rows; inducing inputs are the rows themselves, Z = X
α, λ      q(f) = N(K α, (K⁻¹ + diag λ)⁻¹), the inner unknowns                (n,)
θ         logarithms of the kernel's hyper-parameters, the outer unknowns    (P,)
F         E log p(y|f) - KL(q(f) || p(f)) at the best α and λ                scalar
========  =================================================================  ==========

For a factorising likelihood the best covariance has this form, so that 2n numbers are as good as all n + n(n+1)/2.
The paper took the column from
the GPML toolbox (Nickisch and Rasmussen's KL), which leaves open how hyper-parameters are learned: here on F itself, λ
and α at their optimum for each θ. Each move of λ costs O(n³), with n x n matrices, so that more than ``max_rows`` rows
are refused.

=========  ===========================================================================  =======
symbol     meaning                                                                      shape
=========  ===========================================================================  =======
K          k(X, X) with white noise and jitter, everywhere                              (N, N)
α, λ       q(f) = N(m, S), m = K α and S = (K⁻¹ + diag λ)⁻¹, λ >= 0                     (N,)
s          diagonal of S                                                                (N,)
B, C       I + λ^½ K λ^½ = C Cᵀ                                                         (N, N)
V          C⁻¹ λ^½ K: S = K - VᵀV                                                       (N, N)
e, g, h    E log p(y|f) under N(m_n, s_n), its derivatives in m_n and s_n               (N,)
=========  ===========================================================================  =======

    F = Σ e - ½ (αᵀm - Σ λ s) - Σ log C_jj

since tr K⁻¹S = N - Σ λ s. F rises along two directions: δα = (I + diag(λ) K)⁻¹ (g - α), Newton's for m where λ is the
curvature of e, and δλ = -2h - λ, as ∂F/∂α = K (g - α) and ∂F/∂λ = ½ (S∘S) δλ. For a given S, Newton steps on m cost
O(N²) with the factor at hand; then λ moves, for O(N³). Each step is halved while F falls, so that neither can run away,
however large the signal variance is. At the optimum α = g, λ = -2h and ∂F/∂K = ½ ααᵀ - ½ λ^½ B⁻¹ λ^½.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.linalg import blas, lapack

from gpbench.errors import NumericalError, UsageError
from gpbench.model.gaussian import GaussianQ
from gpbench.model.linalg import add_to_diagonal, cholesky, mirror_lower, potrf, syrk, trsm, trsv
from gpbench.model.posterior import Latent, Posterior
from gpbench.schemes import settings
from gpbench.schemes.base import run_training, setting
from gpbench.schemes.nested.nested import NestedTraining
from gpbench.schemes.settings import FROM, LEARNING, KernelSettings, SearchSettings, binary_likelihood, check_row_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import OnStep
    from gpbench.schemes.base import Fit

__all__ = ["KL", "FullKL", "Prior", "best_gaussian", "full_kl_gradient"]

_ROUNDING = 1e-12
_NO_CURVATURE = 1e-60
"""λ below it is 0: its products would be denormal numbers, which slow a factorisation down thirtyfold."""
_FIRST_CURVATURE = 0.5
_FLAT = 1e-11
_QUIET = 3
"""Moves of λ in a row that change F by less than ``_FLAT``, relatively, end the search: at signal variances of 1e4 and
more rounding leaves g - α at 1e-7."""
_MEAN_STEPS = 20
"""Newton steps on m between two moves of λ, at most."""


@dataclass(frozen=True, kw_only=True)
class KL(SearchSettings, KernelSettings):
    """Full variational Gaussian approximation; hyper-parameters on its bound."""

    link: str = settings.link("probit", "logit")
    hyperparameters: str = setting("learned", LEARNING, choices=("learned", "fixed"), rules=(FROM,))
    max_iterations: int = settings.max_iterations(250, "evaluations of the bound at most, each at its best q")
    gradient_tolerance: float = settings.gradient_tolerance(1e-3)
    value_tolerance: float = settings.value_tolerance(1e-7)
    inner_tolerance: float = setting(
        1e-6, "largest residual of α, and relative one of λ, at the end of the inner loop", minimum=1e-12, maximum=0.1
    )
    inner_iterations: int = setting(100, "factorisations at most, at each evaluation", minimum=1)
    max_rows: int = settings.max_rows()

    name: ClassVar[str] = "kl"

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The Bernoulli likelihood with the link of the settings.

        Raises
        ------
        UsageError
            The task is not binary.
        """
        return binary_likelihood(self.name, self.link, task=task, n_classes=n_classes)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,  # noqa: ARG002 - Z = X
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
        on_step: OnStep,
    ) -> Fit:
        """Train; see :class:`gpbench.schemes.base.Scheme`.

        Raises
        ------
        UsageError
            There are more rows than ``max_rows``, or the likelihood is another one.
        """
        check_row_limit(self.name, len(X), max_rows=self.max_rows)
        if likelihood.name not in {"probit", "logit"}:
            raise UsageError(f"{self.name} needs the likelihood probit or logit; got {likelihood.name}")
        likelihood.check_targets(y, classes)

        rows = np.array(X[0 : len(X)], dtype=np.float64)

        def start() -> NestedTraining[FullKL]:
            return NestedTraining(
                _Inner(self, rows, np.asarray(y), likelihood=likelihood),
                # the inner loop's end is told by a residual, not by a step
                self.search(gradient_error=self.inner_tolerance),
                kernel=self.initial_kernel(rows),
                Z=rows,
                learn_theta=self.hyperparameters == "learned",
                learn_Z=False,
                limit=self.max_iterations,
            )

        return run_training(self.name, start, on_step)


class _Inner:
    """q(f) at given θ."""

    def __init__(self, scheme: KL, X: Array, y: Labels, *, likelihood: Likelihood) -> None:
        self._scheme, self._X, self._y, self._likelihood = scheme, X, y, likelihood

    def solve(
        self,
        kernel: Kernel,
        Z: Array,  # noqa: ARG002 - all rows
        *,
        jitter: float | None,
        warm: FullKL | None,
        check: Callable[[], None],
        brief: bool = False,
    ) -> FullKL:
        return best_gaussian(
            Prior(kernel, self._X, jitter=jitter),
            self._y,
            self._likelihood,
            tolerance=self._scheme.inner_tolerance,
            limit=1 if brief else self._scheme.inner_iterations,
            start=None if warm is None else (warm.alpha, warm.lam),
            check=check,
        )

    def gradient(self, at: FullKL) -> tuple[Array, Array]:
        return full_kl_gradient(at), np.zeros(self._X.shape)

    def posterior(self, at: FullKL) -> Posterior:
        return Posterior((at.latent(),), self._likelihood, classes=2)


class Prior:
    """N(0, K) over the values at all rows.

    Parameters
    ----------
    kernel : Kernel
    X : (N, d)
    jitter : float, optional
        Absolute; by default the ladder of :func:`gpbench.model.linalg.cholesky`.

    Raises
    ------
    NumericalError
        K is not positive definite.
    """

    def __init__(self, kernel: Kernel, X: Array, *, jitter: float | None = None) -> None:
        self.kernel, self.X = kernel, X
        self.features = kernel.bind(X)
        self.K = self.features.gram()
        self.L, self.jitter = cholesky(self.K, what="K of all rows", jitter=jitter)
        add_to_diagonal(self.K, self.jitter)


class _Covariance:
    """S at some λ: its factor and diagonal; O(N³)."""

    def __init__(self, K: Array, lam: Array) -> None:
        self.lam = np.where(lam < _NO_CURVATURE, 0.0, lam)
        self.root = np.sqrt(self.lam)
        B = K * self.root
        B *= self.root[:, None]
        B = np.asfortranarray(B)
        add_to_diagonal(B, 1.0)
        self.C = potrf(B, what="I + λ^½ K λ^½", overwrite=True)
        V = trsm(self.C, np.asfortranarray(K * self.root[:, None]), overwrite=True)
        self.s = np.maximum(np.diag(K) - np.einsum("ij,ij->j", V, V), 0.0)
        self.constant = 0.5 * float(self.lam @ self.s) - float(np.log(np.diag(self.C)).sum())

    def newton(self, K: Array, rest: Array) -> Array:
        """(I + diag(λ) K)⁻¹ rest."""
        inner = trsv(self.C, trsv(self.C, self.root * (K @ rest)), trans=True)
        return rest - self.root * inner


class _Point:
    """F at some (α, S)."""

    def __init__(self, alpha: Array, m: Array, *, cov: _Covariance, likelihood: Likelihood, y: Labels) -> None:
        self.alpha, self.m, self.cov = alpha, m, cov
        e, self.g, self.h = likelihood.expectations(y, m, cov.s)
        self.value = float(e.sum()) - 0.5 * float(alpha @ m) + cov.constant


@dataclass(frozen=True, eq=False)
class FullKL:
    """The optimum at one kernel.

    Attributes
    ----------
    prior : Prior
    value : float
        F.
    alpha, lam : (N,)
    factorisations : int
        Moves of λ that were tried.
    settled : bool
        Whether it converged.
    """

    prior: Prior
    value: float
    alpha: Array
    lam: Array
    cov: _Covariance
    factorisations: int
    settled: bool

    @property
    def kernel(self) -> Kernel:
        """With its hyper-parameters."""
        return self.prior.kernel

    @property
    def jitter(self) -> float:
        """Absolute jitter of its matrix at X."""
        return self.prior.jitter

    @property
    def inner_steps(self) -> int:
        """What finding it took: ``factorisations``."""
        return self.factorisations

    def latent(self) -> Latent:
        """The same q as one of inducing values at all rows: S_w⁻¹ = I + Lᵀ diag(λ) L and m_w = Lᵀα."""
        prior, L = self.prior, self.prior.L
        scaled = np.asfortranarray(L * self.cov.root[:, None])
        m_w = blas.dgemv(1.0, L, self.alpha, trans=1)
        q = GaussianQ.of_sites(syrk(scaled, trans=True), np.zeros(len(m_w))).with_mean(m_w)
        return Latent(prior.kernel, prior.X, q.mean, q.root, form=q.form, jitter=prior.jitter)


def best_gaussian(
    prior: Prior,
    y: Labels,
    likelihood: Likelihood,
    *,
    tolerance: float,
    limit: int,
    start: tuple[Array, Array] | None = None,
    check: Callable[[], None] = lambda: None,
) -> FullKL:
    """Maximise F over α and λ.

    Parameters
    ----------
    prior : Prior
    y : (N,)
    likelihood : Likelihood
        Log-concave, so that h is not positive.
    tolerance : float
        Converged when no entry of g - α and of -2h - λ is larger (the latter relative to 1 + λ), or F stands still.
    limit : int
        Moves of λ at most.
    start : pair of (N,), optional
        α and λ to start from.
    check : callable
        Called before each factorisation; may raise to end training.

    Raises
    ------
    NumericalError
        F is not finite at the start.
    """
    K, n = prior.K, len(y)
    check()
    alpha, lam = start if start is not None else (np.zeros(n), np.full(n, _FIRST_CURVATURE))
    cov = _Covariance(K, lam)
    here = _Point(alpha, K @ alpha, cov=cov, likelihood=likelihood, y=y)
    if not np.isfinite(here.value):
        raise NumericalError(f"the bound has no finite value at the start; got {here.value}")
    here = _maximise_mean(here, K, likelihood, y, tolerance=0.1 * tolerance)
    count, settled, quiet, step, before = 1, False, 0, 1.0, None
    while not settled:
        change = -2.0 * here.h - here.cov.lam
        off = max(_largest(here.g - here.alpha), _largest(change / (1.0 + here.cov.lam)))
        settled = off <= tolerance or quiet == _QUIET
        if settled or count >= limit:
            break
        if before is not None:
            step = _secant(step, before, change)
        moved, before = here, change
        while count < limit and step > 1e-6:
            check()
            cov = _Covariance(K, here.cov.lam + step * change)
            count += 1
            there = _Point(here.alpha, here.m, cov=cov, likelihood=likelihood, y=y)
            # a fall at fixed m that the new m more than makes up for is let pass
            there = _maximise_mean(there, K, likelihood, y, tolerance=0.1 * tolerance)
            if there.value >= here.value - _ROUNDING * (1.0 + abs(here.value)):
                moved = there
                break
            step *= 0.5
        if moved is here:  # no step is small enough for a rise that can be seen
            settled = True
            break
        quiet = quiet + 1 if abs(moved.value - here.value) <= _FLAT * (1.0 + abs(here.value)) else 0
        here = moved
    return FullKL(prior, here.value, here.alpha, here.cov.lam, here.cov, count, settled)


def _maximise_mean(here: _Point, K: Array, likelihood: Likelihood, y: Labels, *, tolerance: float) -> _Point:
    """Newton's method on m at S held, with the curvature λ; O(N²) a step."""
    for _ in range(_MEAN_STEPS):
        rest = here.g - here.alpha
        if _largest(rest) <= tolerance:
            break
        direction = here.cov.newton(K, rest)
        along = K @ direction
        slope = float(along @ rest)
        step, there = 1.0, here
        while step > 1e-10:
            alpha, m = here.alpha + step * direction, here.m + step * along
            there = _Point(alpha, m, cov=here.cov, likelihood=likelihood, y=y)
            if there.value >= here.value + 1e-4 * step * slope - _ROUNDING * (1.0 + abs(here.value)):
                break
            step *= 0.5
        if not there.value > here.value - _ROUNDING * (1.0 + abs(here.value)):
            break
        here = there
    return here


def _secant(step: float, before: Array, now: Array) -> float:
    """Next step from what the last one left of the change; at most 1, which keeps λ positive.

    At large signal variances whole steps would overshoot for ever, each a little farther, where F is already flat.
    """
    size = float(before @ before)
    if size == 0.0:
        return 1.0
    left = float(before @ now) / size
    return float(np.clip(step / max(1.0 - left, 1e-3), 0.05, 1.0))


def full_kl_gradient(at: FullKL) -> Array:
    """Gradient of F in ``theta`` (P,), at the optimum; O(N³)."""
    root = at.cov.root
    inverse, info = lapack.dpotri(at.cov.C, lower=1)
    assert info == 0  # a Cholesky factor has no zero on its diagonal
    inverse *= -0.5 * root
    inverse *= root[:, None]
    adjoint = mirror_lower(np.tril(inverse))
    adjoint += np.outer(0.5 * at.alpha, at.alpha)
    return at.prior.features.gram_pullback(adjoint)[0]


def _largest(values: Array) -> float:
    return float(np.abs(values).max())
