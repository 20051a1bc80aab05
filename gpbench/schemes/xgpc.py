"""x-gpc: scalable GP classification by Pólya-Gamma augmentation (Wenzel, Galy-Fajou, Donner, Kloft and Opper 2019).

=========  ==============================================================================  ========
symbol     meaning                                                                         shape
=========  ==============================================================================  ========
n, d, M    rows, inputs, inducing inputs
X, y       a mini-batch of b rows, and its labels as ±1                                    (b, d), (b,)
ζ          n / b, scales a batch to all rows
Z, u       inducing inputs and the function's values there                                 (M, d), (M,)
L, v       K_mm = L Lᵀ, u = L v: v is standard normal under the prior                      (M, M), (M,)
T          L⁻¹ K_mn of a batch, transposed                                                 (b, M)
κ̃          diagonal of K_nn - K_nm K_mm⁻¹ K_mn                                             (b,)
η, Λ       natural parameters of q(v) = N(Λ⁻¹η, Λ⁻¹); paper: η₁ = L⁻ᵀη, η₂ = -½L⁻ᵀΛL⁻¹       (M,), (M, M)
μ, s       mean and variance of q(f) at the rows                                           (b,)
ω, c       Pólya-Gamma variables, one for each row: q(ω) = PG(1, c)                        (b,)
θ(c)       mean tanh(c/2)/(2c) of ω; Θ = diag(θ)                                           (b,)
ρ          step size
=========  ==============================================================================  ========

The bound is (10), with the constants that the paper leaves out. One iteration: the local update c = √(μ² + s) (11);
the targets η̂ = ζ/2 Tᵀy and Λ̂ = I + ζ TᵀΘT, towards which η and Λ move by ρ (12); and a step of Adam on the logarithms
of the hyper-parameters along the gradient of (10) at fixed q(u) and c.
Prediction is (13) and (14), in ``model/posterior.py``.

Beyond the paper, each chosen by measurement (see the help of the settings):

- ρ_t = w/(w + t) instead of the adaptive rate. What is averaged grows with t, so that the noise of mini-batches fades
  as the hyper-parameters settle; under a floor it stays in q and pushes the prior variance up without end.
- When the kernel moves, the data's part of q(u) is kept and the prior's part replaced: q is never far behind.
- Steps of the hyper-parameters become rarer and longer: where q forgets slowly, one step in five does what five did.
- A last passage with fixed hyper-parameters, in which ρ falls like 1/t, settles q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpbench.schemes.base import setting
from gpbench.schemes.binary import BinaryScheme
from gpbench.schemes.xgpc_run import Run

if TYPE_CHECKING:
    import numpy as np

    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Labels, Rows

__all__ = ["XGPC"]


@dataclass(frozen=True, kw_only=True)
class XGPC(BinaryScheme):
    """Stochastic variational inference with closed-form natural gradients for binary classification."""

    link: str = setting("logit", "link function; the augmentation holds for the logit alone", choices=("logit",))
    batch_size: int = setting(100, "rows in a mini-batch", minimum=1)
    max_iterations: int = setting(20_000, "iterations at most, the settling included", minimum=1)
    rate_rule: str = setting(
        "annealed", "step size of q: w/(w+t), Ranganath's, or constant", choices=("annealed", "adaptive", "constant")
    )
    window: float = setting(20.0, "w of the annealed rate; larger forgets faster", minimum=0.1, maximum=1e6)
    rate: float | None = setting(
        None,
        "constant rate, or floor of the adaptive one (none: 0.02 while learning, else 0)",
        kind=float,
        minimum=0.0,
        maximum=1.0,
    )
    adapt_every: int = setting(
        5,
        "iterations from one look at the adaptive rate to the next, which costs half a step; 1 in the paper",
        minimum=1,
    )
    hyper_rate: float = setting(0.05, "first step size of Adam on the log hyper-parameters", minimum=0.0, maximum=1.0)
    hyper_decay: float = setting(
        200.0, "iterations after which that step size is halved; it falls like 1/t", minimum=1.0
    )
    hyper_thinning: float = setting(
        400.0, "hyper-parameter steps are 1 + t/this iterations apart, and longer in proportion", minimum=1.0
    )
    keep: str = setting(
        "sites", "what stays when the kernel moves: the data's part of q(u), or q(u)", choices=("sites", "q")
    )
    noise_floor: float = setting(1e-4, "least white noise, relative to the prior variance", minimum=0.0, maximum=1.0)
    stop: str = setting(
        "auto",
        "stopping rule; auto: held-out from 10,000 rows on, else parameters",
        choices=("auto", "held-out", "parameters", "none"),
    )
    tolerance: float | None = setting(
        None,
        "threshold of the stopping rule (none: 1e-3 held-out, 1e-4 parameters)",
        kind=float,
        minimum=0.0,
        maximum=1.0,
    )
    validation: int = setting(2000, "rows held out for the stopping rule, at most a tenth", minimum=1)
    settle: float = setting(
        0.2, "share of iterations added at the end with fixed hyper-parameters", minimum=0.0, maximum=1.0
    )

    name: ClassVar[str] = "x-gpc"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        rng: np.random.Generator,
    ) -> Run:
        """A training run at its beginning."""
        return Run(self, X, y, inducing=inducing, likelihood=likelihood, rng=rng)
