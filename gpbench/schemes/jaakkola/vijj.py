"""vi-jj, vi-taylor, vi-jj-hybrid, vi-jj-full: quadratic bounds of the logit (Izmailov and Kropotov 2016, section 4).

========  ===============================================================================  ==========
symbol    meaning                                                                          shape
========  ===============================================================================  ==========
n, M      rows, inducing inputs
y         labels as ±1                                                                     (n,)
ξ         where each row's log σ(y f) is expanded                                          (n,)
μ, s      mean and variance of q(f) at the rows (the paper's m_i and S_i², S_t)            (n,)
q(u)      N(μ̂, Σ̂), the best one for given ξ: (12), (13) or (17), (18)
θ         logarithms of the kernel's hyper-parameters                                      (P,)
Ĵ         the bound at that q, (14) or (19), as a function of θ and ξ                      scalar
========  ===============================================================================  ==========

The bounds and their maximisation over q are in :mod:`gpbench.schemes.jaakkola.logistic_bounds` and
:mod:`gpbench.schemes.jaakkola.collapsed`; the walk through Algorithm 1 is in :mod:`gpbench.schemes.jaakkola.run`:

- ``alternate`` (vi-jj, vi-taylor): Algorithm 1. Stage 1, ``updates`` times: ξ from q by (15), ξ² = μ² + s (Taylor:
  ξ = μ), then q from ξ. Stage 2: L-BFGS-B on θ at fixed ξ with ``stage_evaluations`` evaluations. Both are repeated.
- ``hybrid`` (vi-jj-hybrid): the same with stage 2 over θ and ξ.
- ``full`` (vi-jj-full): one L-BFGS-B over θ and ξ, from ξ = 1, without stage 1; n more unknowns.

The inducing inputs stay as the inducing rule gives them. Beyond the paper: Taylor's stage 1 is Newton's method for the
mode, and its steps are halved where the mode's objective would fall (with a large prior variance full steps oscillate).
Ĵ of Taylor is no bound and may fall from one iteration to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpbench.errors import UsageError
from gpbench.schemes.base import setting
from gpbench.schemes.batch_settings import BatchSettings
from gpbench.schemes.jaakkola.run import Run

if TYPE_CHECKING:
    import numpy as np

    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Labels, Rows

__all__ = ["VIJJ"]


@dataclass(frozen=True, kw_only=True)
class VIJJ(BatchSettings):
    """Batch maximisation of a quadratic bound of the logit."""

    link: str = setting("logit", "link function; the bounds are the logit's", choices=("logit",))
    memory: int = setting(10, "L-BFGS-B: pairs that the Hessian is approximated from", minimum=1, maximum=100)
    bound: str = setting("jj", "Jaakkola and Jordan's bound, or Taylor's expansion", choices=("jj", "taylor"))
    variant: str = setting(
        "alternate",
        "Algorithm 1, with ξ in its second stage too, or all at once",
        choices=("alternate", "hybrid", "full"),
    )
    updates: int = setting(3, "closed-form updates of ξ and q in stage 1 (the paper's n_upd)", minimum=1)
    stage_evaluations: int = setting(5, "evaluations of stage 2 (the paper's maxfun)", minimum=1)
    tolerance: float = setting(
        1e-6, "ends when stages 1 and 2 together raise the bound by less, relatively", minimum=0.0, maximum=1.0
    )

    name: ClassVar[str] = "vi-jj"

    def __post_init__(self) -> None:
        if self.bound == "taylor" and self.variant != "alternate":
            raise UsageError(f"Taylor's expansion needs variant alternate, since ξ has no optimum; got {self.variant}")

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> Run:
        """A training run at its beginning."""
        return Run(self, X, y, Z=inducing.choose(X), likelihood=likelihood)
