"""ep-mgpc: scalable expectation propagation (Villacampa-Calvo and Hernández-Lobato 2017), and epgpc, its binary preset.

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
n, d, M   rows, inputs, inducing inputs
F         latent functions: 1 for two classes (probit), else one for each class, C
q(u^c)    N(m, V) ∝ p(u^c) times the sites of class c, u^c the function's values at Z^c          (M,), (M, M)
φ_ik      Φ((ν_i^yᵀu^y - ν_i^kᵀu^k) / √(s_i^y + s_i^k)), k ≠ y_i: eq. (6)
sites     exp(-½ c₁ (νᵀu)² + c₂ νᵀu), two for each φ_ik, one for a row of two classes           2 n C pairs
θ, Z      log hyper-parameters and inducing inputs of each latent function                     (P,), (M, d)
log Z_q   EP's approximation of the log evidence, eq. (9); its gradient, eq. (10)              scalar
ε         damping of the site updates
========  ===================================================================================  ===========

On all rows (:mod:`gpbench.schemes.ep_mgpc_batch`) sites and hyper-parameters move at the same time, from one look at
the state: ``inner-approx`` follows eq. (10), ``inner-exact`` the gradient that is exact while EP has not converged, and
``outer`` runs EP to its fixed point before each step. Steps have the adaptive rates of the supplementary material. On
mini-batches steps are Adam's (:mod:`gpbench.schemes.ep_mgpc_stored`).

The label noise of several classes is the kernels' white noise alone. Each class draws its own Z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpbench.schemes.base import setting
from gpbench.schemes.ep_mgpc_batch import BatchRun
from gpbench.schemes.mgpc_settings import MGPCSettings, Problem

if TYPE_CHECKING:
    from gpbench.schemes.binary import TrainingRun

__all__ = ["EPMGPC"]


@dataclass(frozen=True, kw_only=True)
class EPMGPC(MGPCSettings):
    """Scalable EP with a site for each factor."""

    training: str = setting(
        "inner-approx",
        "batch: hyper-parameters move with the sites, by eq. (10) or the exact gradient, or after EP has converged",
        choices=("inner-approx", "inner-exact", "outer"),
    )
    ep_tolerance: float = setting(
        1e-3, "outer: EP has settled when no site would change the posterior by more", minimum=1e-12, maximum=1.0
    )
    ep_iterations: int = setting(1000, "outer: site updates at most before a step", minimum=1)
    block_rows: int = setting(1024, "rows looked at together; bounds the memory", minimum=1)

    name: ClassVar[str] = "ep-mgpc"

    def start(self, problem: Problem) -> TrainingRun:
        """A training run at its beginning."""
        return BatchRun(self, problem)
