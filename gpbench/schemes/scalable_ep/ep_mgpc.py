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

On all rows (:mod:`gpbench.schemes.scalable_ep.batch`) sites and hyper-parameters move at the same time, from one look
at the state: ``inner-approx`` follows eq. (10), ``inner-exact`` the gradient that is exact while EP has not converged,
and ``outer`` runs EP to its fixed point before each step. Steps have the adaptive rates of the supplementary material.
On mini-batches (:mod:`gpbench.schemes.scalable_ep.stored_run`) steps are Adam's, and each row keeps, for each latent
function, the vector ν that its sites stand on: n F M numbers, as float64 or float32, whichever fits.

The label noise of several classes is the kernels' white noise alone. Each class draws its own Z.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpbench.errors import UsageError
from gpbench.schemes.base import setting
from gpbench.schemes.scalable_ep.batch import BatchRun
from gpbench.schemes.scalable_ep.settings import MGPCSettings, Problem
from gpbench.schemes.scalable_ep.stored_run import StoredRun, stored_type
from gpbench.schemes.scalable_ep.tied_run import TiedRun

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
    stored_mb: float = setting(
        1000.0, "mini-batches: megabytes that stored vectors may take, as float64 or as float32", minimum=0.0
    )
    beyond: str = setting(
        "refuse", "mini-batches: what to do where they take more; tied: as sep-mgpc does", choices=("refuse", "tied")
    )

    name: ClassVar[str] = "ep-mgpc"

    def start(self, problem: Problem) -> TrainingRun:
        """A training run at its beginning.

        Raises
        ------
        UsageError
            Stored vectors would take more memory than they may.
        """
        n = len(problem.X)
        if self.is_batch(n):
            return BatchRun(self, problem)
        _, inducing = problem.unknowns.at(problem.unknowns.start())
        M = sum(len(Z) for Z in inducing)
        dtype = stored_type(n, M, self.stored_mb)
        if dtype is not None:
            return StoredRun(self, problem, dtype=dtype)
        if self.beyond == "tied":
            return TiedRun(self, problem, batch=False, block_rows=self.block_rows)
        raise UsageError(
            f"{self.name} stores {M} numbers for each row, {4e-6 * n * M:.0f} MB as float32; stored_mb allows "
            f"{self.stored_mb:g} MB. Allow more, set beyond = tied, or use sep-mgpc"
        )
