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
KL bound at any q(u). Bound, inner loop and gradient are in :mod:`gpbench.schemes.nested.sparse_map_bound`; outside,
L-BFGS-B or scaled conjugate gradients climb over (θ, Z).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gpbench.model.basis_old import Basis
from gpbench.model.posterior import Posterior
from gpbench.schemes.base import setting
from gpbench.schemes.nested.nested import NestedScheme
from gpbench.schemes.nested.sparse_map_bound import SparseMAP, sparse_map, sparse_map_gradient

if TYPE_CHECKING:
    import numpy as np

    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["SparseMAPScheme"]


@dataclass(frozen=True, kw_only=True)
class SparseMAPScheme(NestedScheme):
    """Batch maximisation of the abandoned bound."""

    inner_tolerance: float = setting(1e-6, "Newton decrement at the end of the inner loop", minimum=1e-12, maximum=1)
    inner_iterations: int = setting(200, "walks of the inner loop at most", minimum=1)

    name: ClassVar[str] = "sparse-map"

    def inner_problem(self, X: Rows, y: Labels, *, likelihood: Likelihood, rng: np.random.Generator) -> _Inner:  # noqa: ARG002 - nothing here is random
        """The inner problem."""
        return _Inner(self, X, y, likelihood=likelihood)


class _Inner:
    """q(u) at given θ and Z."""

    def __init__(self, settings: SparseMAPScheme, X: Rows, y: Labels, *, likelihood: Likelihood) -> None:
        self._settings, self._X, self._y, self._likelihood = settings, X, y, likelihood

    def solve(self, kernel: Kernel, Z: Array, *, jitter: float | None, warm: SparseMAP | None) -> SparseMAP:
        settings = self._settings
        return sparse_map(
            Basis(kernel, Z, jitter=jitter),
            self._X,
            self._y,
            tolerance=settings.inner_tolerance,
            limit=settings.inner_iterations,
            m_w=None if warm is None else warm.m_w,
            size=settings.block_rows,
        )

    def gradient(self, at: SparseMAP) -> tuple[Array, Array]:
        return sparse_map_gradient(at, self._X, self._y, size=self._settings.block_rows)

    def posterior(self, at: SparseMAP, facts: dict[str, object]) -> Posterior:
        return Posterior((at.latent(),), self._likelihood, classes=2, facts=facts)
