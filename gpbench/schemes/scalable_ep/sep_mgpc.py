"""sep-mgpc: stochastic expectation propagation (villacampa2017, section 2.3.1), whose memory is O(C M²).

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
n, d, M   rows, inputs, inducing inputs
F         latent functions: 1 for two classes (probit), else one for each class, C
φ_ik      factors (6), as in ep-mgpc; those that touch a latent function share one site
n_c       factors that touch latent function c: n - N_c + N_c (C - 1), N_c its rows; n for two classes
θ, Z      log hyper-parameters and inducing inputs of each latent function                     (P,), (M, d)
========  ===================================================================================  ===========

The algorithm is in :mod:`gpbench.schemes.scalable_ep.tied`; it trains on all rows or on mini-batches, one look for one
step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpbench.schemes.base import setting
from gpbench.schemes.scalable_ep.settings import MGPCSettings, Problem
from gpbench.schemes.scalable_ep.tied_run import TiedRun

if TYPE_CHECKING:
    from gpbench.schemes.binary import TrainingRun

__all__ = ["SEPMGPC"]


@dataclass(frozen=True, kw_only=True)
class SEPMGPC(MGPCSettings):
    """Scalable EP with tied factors."""

    block_rows: int = setting(1024, "rows looked at together; bounds the memory", minimum=1)

    name: ClassVar[str] = "sep-mgpc"

    def start(self, problem: Problem) -> TrainingRun:
        """A training run at its beginning."""
        return TiedRun(self, problem, batch=self.is_batch(len(problem.X)), block_rows=self.block_rows)
