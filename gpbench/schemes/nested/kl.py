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
Bound, inner loop and gradient are in :mod:`gpbench.schemes.nested.full_kl`: O(n³) for each move of λ, with n x n
matrices, so that more than ``max_rows`` rows are refused. The paper took the column from the GPML toolbox (Nickisch and
Rasmussen's KL), which leaves open how hyper-parameters are learned: here on F itself, λ and α at their optimum for each
θ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpbench.errors import UsageError
from gpbench.model.posterior import Posterior
from gpbench.optimize.scg import SCG
from gpbench.schemes.base import setting
from gpbench.schemes.batch_settings import OptimizerChoice
from gpbench.schemes.binary import binary_likelihood, trained
from gpbench.schemes.nested.full_kl import FullKL, Prior, best_gaussian, full_kl_gradient
from gpbench.schemes.nested.nested import NestedRun
from gpbench.schemes.row_limit import check_row_limit
from gpbench.schemes.settings import FROM, LEARNING, KernelSettings

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.lbfgsb import LBFGSB
    from gpbench.schemes.base import OnStep

__all__ = ["KL"]


@dataclass(frozen=True, kw_only=True)
class KL(OptimizerChoice, KernelSettings):
    """Full variational Gaussian approximation; hyper-parameters on its bound."""

    link: str = setting("probit", "link function", choices=("probit", "logit"))
    hyperparameters: str = setting("learned", LEARNING, choices=("learned", "fixed"), rules=(FROM,))
    max_iterations: int = setting(250, "evaluations of the bound at most, each at its best q", minimum=1)
    gradient_tolerance: float = setting(1e-3, "largest gradient at the end (nats)", minimum=0.0, maximum=1e6)
    value_tolerance: float = setting(1e-7, "relative rise of the bound at the end", minimum=0.0, maximum=1.0)
    inner_tolerance: float = setting(
        1e-6, "largest residual of α, and relative one of λ, at the end of the inner loop", minimum=1e-12, maximum=0.1
    )
    inner_iterations: int = setting(100, "factorisations at most, at each evaluation", minimum=1)
    max_rows: int = setting(2000, "more rows are refused, as memory grows with their square", minimum=1)

    name: ClassVar[str] = "kl"

    def likelihood(self, task: str, n_classes: int) -> Likelihood:
        """The Bernoulli likelihood with the link of the settings.

        Raises
        ------
        UsageError
            The task is not binary.
        """
        return binary_likelihood(self.name, self.link, task=task, n_classes=n_classes)

    def climber(self, **changed: Any) -> LBFGSB | SCG:
        """The search; the gradient is as exact as the inner loop's end, which is told by a residual, not by a step."""
        search = super().climber(**changed)
        return replace(search, gradient_error=self.inner_tolerance) if isinstance(search, SCG) else search

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
    ) -> Posterior:
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

        def start() -> NestedRun[FullKL, Posterior]:
            rows = np.array(X[0 : len(X)], dtype=np.float64)
            return NestedRun(
                self,
                _Inner(self, rows, np.asarray(y), likelihood=likelihood),
                kernel=self.initial_kernel(rows),
                Z=rows,
                learn_theta=self.hyperparameters == "learned",
                learn_Z=False,
                limit=self.max_iterations,
            )

        return trained(self.name, start, on_step)


class _Inner:
    """q(f) at given θ."""

    def __init__(self, settings: KL, X: Array, y: Labels, *, likelihood: Likelihood) -> None:
        self._settings, self._X, self._y, self._likelihood = settings, X, y, likelihood

    def solve(self, kernel: Kernel, Z: Array, *, jitter: float | None, warm: FullKL | None) -> FullKL:  # noqa: ARG002
        settings = self._settings
        return best_gaussian(
            Prior(kernel, self._X, jitter=jitter),
            self._y,
            self._likelihood,
            tolerance=settings.inner_tolerance,
            limit=settings.inner_iterations,
            start=None if warm is None else (warm.alpha, warm.lam),
        )

    def gradient(self, at: FullKL) -> tuple[Array, Array]:
        return full_kl_gradient(at), np.zeros(self._X.shape)

    def posterior(self, at: FullKL, facts: dict[str, object]) -> Posterior:
        return Posterior((at.latent(),), self._likelihood, classes=2, facts=facts)
