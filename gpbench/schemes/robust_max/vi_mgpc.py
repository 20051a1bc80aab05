"""vi-mgpc: the variational rival of villacampa2017 (section 3), with the robust-max likelihood (13).

========  ===============================================================================  ============
symbol    meaning                                                                          shape
========  ===============================================================================  ============
n, d      rows, inputs
C, M      classes, and inducing inputs of each class's latent function
X, y      rows and their classes 0..C-1                                                    (n, d), (n,)
Z^c, u^c  inducing inputs of class c and the function's values there                       (M, d), (M,)
q(u^c)    N(m, L Lᵀ); whitened: that of v, u = L_K v                                       (M,), (M, M)
θ^c       logarithms of the kernel's hyper-parameters, for each class                      (P,)
ε         share of labels that (13) takes as drawn at random                               scalar
F         the bound (15)                                                                   scalar
========  ===============================================================================  ============

F is climbed in m, L, θ and Z of all classes together, from q(u) = p(u): by L-BFGS-B on all rows, or by Adam on
mini-batches, with the data term times n / b. Expectations are one-dimensional: a trapezoid rule of 100 nodes on ±10
standard deviations, as in the released code, or Gauss-Hermite. Each class has its own kernel and its own Z, drawn
independently. Two classes have two latent functions, as the likelihood has it.

The paper keeps ε at 0.001, so that a confident mistake costs log(ε/C), 8 nats with three classes, in F and in the test
NLL; most of the paper's bad NLLs of VI come from there. ``learn_epsilon`` makes ε one more unknown of F, after
``hold_epsilon`` line searches: at q(u) = p(u) every class is as likely as the others, F then takes all labels for
random, and the search stays near there (vehicle, M = 5 %, five splits: NLL 0.92, and 0.54 with ε held at first).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpbench.errors import UsageError
from gpbench.model.likelihoods import RobustMax
from gpbench.schemes.base import OnStep, setting
from gpbench.schemes.batch_settings import SearchSettings
from gpbench.schemes.binary import trained
from gpbench.schemes.robust_max.bound import RobustMaxBound
from gpbench.schemes.robust_max.run import BatchRun, StochasticRun
from gpbench.schemes.settings import GPSettings
from gpbench.schemes.stochastic_settings import MinibatchSettings

if TYPE_CHECKING:
    import numpy as np

    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.posterior import Posterior
    from gpbench.model.rows import Labels, Rows

__all__ = ["VIMGPC"]

BATCH_UP_TO = 10_000
"""Rows up to which mode ``auto`` looks at all of them at each evaluation."""


@dataclass(frozen=True, kw_only=True)
class VIMGPC(SearchSettings, MinibatchSettings, GPSettings):
    """Variational inference for several classes with the robust-max likelihood."""

    mode: str = setting(
        "auto",
        "L-BFGS-B on all rows, or Adam on mini-batches; auto: batch up to 10,000 rows",
        choices=("auto", "batch", "stochastic"),
    )
    epsilon: float = setting(1e-3, "share of labels taken as random, or its first value", minimum=1e-9, maximum=0.999)
    learn_epsilon: bool = setting(False, "whether that share is learned with the hyper-parameters")
    hold_epsilon: int = setting(50, "line searches, or mini-batches, before that share begins to be learned", minimum=0)
    whiten: bool = setting(True, "whether m and L parametrise q(v) of the whitened v, or q(u)")
    learn_inducing: bool = setting(True, "whether the inducing inputs are optimised")
    quadrature: str = setting("trapezoid", "rule of the expectations", choices=("trapezoid", "hermite"))
    nodes: int | None = setting(
        None, "nodes of that rule (none: 100 for the trapezoid, 20 for hermite)", kind=int, minimum=2, maximum=1000
    )
    max_iterations: int | None = setting(
        None, "at most (none: 1000 evaluations of batch training, 10,000 mini-batches)", kind=int, minimum=1
    )
    batch_size: int = setting(200, "rows in a mini-batch", minimum=1)
    rate: float = setting(0.01, "stochastic: rate of Adam", minimum=1e-6, maximum=1.0)

    name: ClassVar[str] = "vi-mgpc"

    def likelihood(self, task: str, n_classes: int) -> Likelihood:
        """The robust-max likelihood (13).

        Raises
        ------
        UsageError
            The task is no classification.
        """
        if task not in RobustMax.tasks or n_classes < 2:
            raise UsageError(f"{self.name} does classification; got task {task} with {n_classes} classes")
        nodes = {"trapezoid": 100, "hermite": 20}[self.quadrature] if self.nodes is None else self.nodes
        return RobustMax(self.epsilon, self.quadrature, nodes)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
        on_step: OnStep,
    ) -> Posterior:
        """Train; see :class:`gpbench.schemes.base.Scheme`."""
        if not isinstance(likelihood, RobustMax) or likelihood.epsilon == 0.0:
            raise UsageError(f"{self.name} needs the likelihood robust-max with epsilon > 0; got {likelihood.spec()}")
        likelihood.check_targets(y, classes)

        def start() -> BatchRun | StochasticRun:
            Z = [inducing.for_latent(c).choose(X) for c in range(classes)]
            bound = RobustMaxBound(self.initial_kernel(X), likelihood, Z=Z, whitened=self.whiten, size=self.block_rows)
            if self.mode == "batch" or (self.mode == "auto" and len(X) <= BATCH_UP_TO):
                return BatchRun(self, bound, X, y, classes=classes)
            return StochasticRun(self, bound, X, y, classes=classes, rng=rng)

        return trained(self.name, start, on_step)
