"""sparse-map: the bound that hensman2015 tried and abandoned (section 3.2).

========  ===========================================================================  ==========
symbol    meaning                                                                      shape
========  ===========================================================================  ==========
n, d, M   rows, inputs, inducing inputs
q(u)      N(m, S) of the inducing values, at its optimum for each (θ, Z)               (M,), (M, M)
θ, Z      logarithms of the kernel's hyper-parameters, inducing inputs: outer unknowns (P,), (M, d)
F         Σ log Φ(y_n a_nᵀm) - ½ Σ (a_nᵀS a_n + κ̃_n) - KL(q(u) || p(u))                scalar
========  ===========================================================================  ==========

Its m is the mode and its S knows nothing of the labels, as the paper says: with Z = X, S⁻¹ = K⁻¹ + I. F lies below the
KL bound at any q(u). Bound, inner loop and gradient are in :mod:`gpbench.model.sparse_map`; outside, L-BFGS-B or scaled
conjugate gradients climb over (θ, Z).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpbench.model.basis import Basis
from gpbench.model.posterior import Posterior
from gpbench.model.sparse_map import SparseMAP, sparse_map, sparse_map_gradient
from gpbench.schemes.base import setting
from gpbench.schemes.batch_settings import BatchSettings, OptimizerChoice
from gpbench.schemes.nested import NestedRun

if TYPE_CHECKING:
    import numpy as np

    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["SparseMAPScheme"]


@dataclass(frozen=True, kw_only=True)
class SparseMAPScheme(OptimizerChoice, BatchSettings):
    """Batch maximisation of the abandoned bound."""

    link: str = setting("probit", "link function; the bound is the probit's", choices=("probit",))
    learn_inducing: bool = setting(True, "whether the inducing inputs are optimised")
    inner_tolerance: float = setting(1e-6, "Newton decrement at the end of the inner loop", minimum=1e-12, maximum=1)
    inner_iterations: int = setting(200, "walks of the inner loop at most", minimum=1)

    name: ClassVar[str] = "sparse-map"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> NestedRun[_State, Posterior]:
        """A training run at its beginning."""
        return NestedRun(
            self,
            _Inner(self, X, y, likelihood=likelihood),
            kernel=self.initial_kernel(X.shape[1]),
            Z=inducing.choose(X),
            learn_theta=self.hyperparameters == "learned",
            learn_Z=self.learn_inducing,
            limit=self.max_iterations,
        )


@dataclass(frozen=True, eq=False)
class _State:
    """The inner optimum."""

    best: SparseMAP

    @property
    def value(self) -> float:
        return self.best.value

    @property
    def kernel(self) -> Kernel:
        return self.best.basis.kernel

    @property
    def jitter(self) -> float:
        return self.best.basis.jitter

    @property
    def inner_steps(self) -> int:
        return self.best.walks

    @property
    def settled(self) -> bool:
        return self.best.settled


class _Inner:
    """q(u) at given θ and Z."""

    def __init__(self, settings: SparseMAPScheme, X: Rows, y: Labels, *, likelihood: Likelihood) -> None:
        self._settings, self._X, self._y, self._likelihood = settings, X, y, likelihood

    def solve(self, kernel: Kernel, Z: Array, *, jitter: float | None, warm: _State | None) -> _State:
        settings = self._settings
        best = sparse_map(
            Basis(kernel, Z, jitter=jitter),
            self._X,
            self._y,
            tolerance=settings.inner_tolerance,
            limit=settings.inner_iterations,
            m_w=None if warm is None else warm.best.m_w,
            size=settings.block_rows,
        )
        return _State(best)

    def gradient(self, at: _State) -> tuple[Array, Array]:
        return sparse_map_gradient(at.best, self._X, self._y, size=self._settings.block_rows)

    def posterior(self, at: _State, facts: dict[str, object]) -> Posterior:
        return Posterior((at.best.latent(),), self._likelihood, classes=2, facts=facts)
