"""klsp: the sparse KL method (Hensman, Matthews and Ghahramani 2015, section 4), in batch form.

========  ===============================================================================  ==========
symbol    meaning                                                                          shape
========  ===============================================================================  ==========
n, d, M   rows, inputs, inducing inputs
X, y      rows and their classes 0 or 1                                                    (n, d), (n,)
Z, u      inducing inputs and the function's values there                                  (M, d), (M,)
q(u)      N(m, S), S = L Lᵀ (the paper's section 4); whitened: that of v, u = L_K v        (M,), (M, M)
θ         logarithms of the kernel's hyper-parameters                                      (P,)
F         the bound (21), its expectations by Gauss-Hermite quadrature (22)                scalar
========  ===============================================================================  ==========

F is a sum over rows, so that an evaluation walks over blocks of them, O(n M²), and its memory does not grow with n; it
is written in :mod:`gpbench.model.kl_bound`. L-BFGS-B climbs it twice:

1. over (m, L), with θ and Z frozen at their first values, for at most ``freeze_iterations`` line searches;
2. over (m, L, θ, Z) together.

Scaled conjugate gradients can take the place of L-BFGS-B (``optimizer``).

The paper names no starting values and no stages; the stages are its authors' practice (GPy). Z starts as the inducing
rule gives it. Jitter keeps its absolute value while L-BFGS-B runs, since one that follows θ would need a gradient;
where a line search fails, mostly because that jitter no longer suffices for K_mm, the search starts again with a new
one and a new approximation of the Hessian. Unwhitened, with the logit and fixed Z, this is "L-BFGS-B on (11)" of
izmailov2016 (``klsp-batch-z-fixed``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from gpbench.model.kl_bound import KLBound
from gpbench.model.posterior import Posterior
from gpbench.schemes.base import OnStep, setting
from gpbench.schemes.batch_settings import LOG_BOUND, BatchSettings, Evaluations, OptimizerChoice

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.search import Reason, Search

__all__ = ["KLSp"]


@dataclass(frozen=True, kw_only=True)
class KLSp(OptimizerChoice, BatchSettings):
    """Batch maximisation of the sparse KL bound by L-BFGS-B."""

    link: str = setting("probit", "link function", choices=("probit", "logit"))
    whiten: bool = setting(True, "whether m and L parametrise q(v) of the whitened v, or q(u)")
    learn_inducing: bool = setting(True, "whether the inducing inputs are optimised")
    freeze_iterations: int = setting(100, "line searches over q alone at the beginning", minimum=0)

    name: ClassVar[str] = "klsp"
    freeze_tolerance: ClassVar[float] = 1e-3

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> _Run:
        """A training run at its beginning."""
        return _Run(self, X, y, Z=inducing.choose(X), likelihood=likelihood)


class _Run:
    """One fit: the best unknowns so far, and the two searches that move them."""

    def __init__(self, settings: KLSp, X: Rows, y: Labels, *, Z: Array, likelihood: Likelihood) -> None:
        kernel = settings.initial_kernel(X)
        self._settings, self._X, self._y, self._likelihood = settings, X, y, likelihood
        self._bound = KLBound(
            kernel, likelihood, whitened=settings.whiten, M=len(Z), d=Z.shape[1], size=settings.block_rows
        )
        self.x = self._bound.start(Z)
        self.value = -np.inf
        self._basis = self._bound.basis(self.x)
        self.stopped_by = "on_step"
        self.evaluations = Evaluations(settings.max_iterations, posterior=self.posterior)

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"evaluation {self.evaluations.count}"

    def train(self, on_step: OnStep) -> None:
        """Both stages."""
        self.evaluations.on_step = on_step
        settings, layout = self._settings, self._bound.layout
        learn_theta = settings.hyperparameters == "learned"
        joint = learn_theta or settings.learn_inducing
        free = np.arange(layout.q_size)
        if not joint:
            self._finish(self._climb(free, settings.climber()))
            return
        if settings.freeze_iterations > 0:
            frozen = {"gradient_tolerance": settings.freeze_tolerance, "max_iterations": settings.freeze_iterations}
            self._climb(free, settings.climber(**frozen))
        if learn_theta:
            free = np.concatenate([free, np.arange(layout.q_size, layout.q_size + layout.P)])
        if settings.learn_inducing:
            free = np.concatenate([free, np.arange(layout.q_size + layout.P, layout.size)])
        while self.evaluations.left > 0:
            before = self.value
            reason = self._climb(free, settings.climber())
            settled = math.isfinite(before) and self.value - before <= settings.value_tolerance * abs(before)
            if reason != "line search" or settled:
                break
        self._finish(reason if self.evaluations.left > 0 else "evaluations")

    def posterior(self) -> Posterior:
        """The posterior of the best state so far."""
        facts = {
            "iterations": self.evaluations.count,
            "stopped_by": self.stopped_by,
            "jitter": self._basis.jitter,
            "hyperparameters": self._basis.kernel.values(),
        }
        return Posterior((self._bound.latent(self.x, self._basis),), self._likelihood, classes=2, facts=facts)

    def _climb(self, free: npt.NDArray[np.intp], search: Search) -> Reason:
        """Search over the unknowns at the places ``free``, from the best state so far."""
        if self.evaluations.left <= 0:
            return "evaluations"
        joint = len(free) > self._bound.layout.q_size
        self._basis = self._bound.basis(self.x)  # a new jitter
        jitter = self._basis.jitter
        self.value = -np.inf
        tried, trial = self.x.copy(), self._basis

        def objective(values: Array) -> tuple[float, Array]:
            nonlocal trial
            tried[free] = values
            if joint:
                trial = self._bound.basis(tried, jitter=jitter)
            at = self._bound.at(tried, self._X, self._y, basis=trial, kernel_gradient=joint)
            return at.value, at.gradient[free]

        def evaluated(value: float, *, improved: bool) -> None:
            if improved:
                self.x, self._basis, self.value = tried.copy(), trial, value
            self.evaluations.report(self.value)

        limit = np.full(self._bound.layout.size, np.inf)
        limit[self._bound.layout.theta] = LOG_BOUND
        box = (-limit[free], limit[free])
        outcome = search.maximise(
            objective, self.x[free], max_evaluations=self.evaluations.left, bounds=box, on_evaluation=evaluated
        )
        return outcome.reason

    def _finish(self, reason: Reason) -> None:
        self.stopped_by = "iterations" if reason in {"evaluations", "iterations"} else "converged"
