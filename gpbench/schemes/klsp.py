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

from gpbench.model.kl_bound import KLBound
from gpbench.model.posterior import Latent, Posterior
from gpbench.optimize.maximise import LOG_BOUND, Point, maximise
from gpbench.optimize.unknowns import Unknowns
from gpbench.schemes import settings
from gpbench.schemes.base import Training, setting
from gpbench.schemes.settings import BinaryScheme, SearchSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from gpbench.model.basis import Basis
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.search import Search
    from gpbench.optimize.training import StoppedBy

__all__ = ["KLSp"]

FREEZE_TOLERANCE = 1e-3
"""Of the gradient, in the stage that moves q alone."""


@dataclass(frozen=True, kw_only=True)
class KLSp(SearchSettings, BinaryScheme):
    """Batch maximisation of the sparse KL bound by L-BFGS-B."""

    link: str = settings.link("probit", "logit")
    whiten: bool = setting(True, "whether m and L parametrise q(v) of the whitened v, or q(u)")
    learn_inducing: bool = settings.learn_inducing()
    freeze_iterations: int = setting(100, "line searches over q alone at the beginning", minimum=0)
    max_iterations: int = settings.max_iterations(1000, "evaluations of the bound at most")
    block_rows: int = settings.block_rows()

    name: ClassVar[str] = "klsp"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,  # noqa: ARG002 - two
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> KLSpTraining:
        """Training at its beginning."""
        return KLSpTraining(self, X, y, Z=inducing.choose(X), likelihood=likelihood)


class KLSpTraining(Training):
    """The best unknowns so far, and the two searches that move them."""

    unit = "evaluation"

    def __init__(self, scheme: KLSp, X: Rows, y: Labels, *, Z: Array, likelihood: Likelihood) -> None:
        super().__init__(limit=scheme.max_iterations)
        self._scheme, self._X, self._y, self._likelihood = scheme, X, y, likelihood
        self._bound = KLBound(scheme.initial_kernel(X), likelihood, whitened=scheme.whiten, size=scheme.block_rows)
        self._unknowns = Unknowns.of(self._bound.start(Z), limits={"theta": LOG_BOUND})
        self._at = self._unknowns.values(self._unknowns.x)
        self._basis = self._bound.basis(self._at)
        self._value = -math.inf

    def train(self) -> StoppedBy:
        """Both stages."""
        scheme = self._scheme
        moves = ["theta"] * (scheme.hyperparameters == "learned") + ["Z"] * scheme.learn_inducing
        if moves and scheme.freeze_iterations > 0:
            frozen = scheme.search(gradient_tolerance=FREEZE_TOLERANCE, max_iterations=scheme.freeze_iterations)
            self._maximise(frozen, ["m", "L"])
        if self.trainer.left <= 0:
            return "iterations"
        return self._maximise(scheme.search(), ["m", "L", *moves])

    def posterior(self) -> Posterior:
        """The posterior of the best unknowns so far."""
        q = self._bound.q(self._at, self._basis)
        return Posterior((Latent.of(self._basis, q),), self._likelihood, classes=2)

    def bound(self) -> float | None:
        """The bound there."""
        return self._value if math.isfinite(self._value) else None

    def _maximise(self, search: Search, names: Sequence[str]) -> StoppedBy:
        """Search over the unknowns of these names, from the best so far."""
        free = self._unknowns.freeing(names)
        kernel_moves = not {"theta", "Z"}.isdisjoint(names)
        held = self._basis

        def begin(x: Array) -> None:
            nonlocal held
            held = self._bound.basis(free.values(x))  # a new jitter

        def objective(x: Array) -> Point[tuple[dict[str, Array], Basis]]:
            at = free.values(x.copy())
            basis = self._bound.basis(at, jitter=held.jitter) if kernel_moves else held
            value, gradient = self._bound.at(at, self._X, self._y, basis=basis, kernel_gradient=kernel_moves)
            return Point(value, free.gradient(gradient), (at, basis))

        def evaluated(state: tuple[dict[str, Array], Basis], value: float) -> None:
            (self._at, self._basis), self._value = state, value
            self.trainer.report(value)

        found = maximise(
            objective,
            free.x,
            search=search,
            evaluations=lambda: self.trainer.left,
            bounds=free.bounds,
            begin=begin,
            on_evaluation=evaluated,
        )
        self._unknowns = free.at(found.x)
        return found.stopped_by
