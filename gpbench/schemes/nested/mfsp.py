"""mfsp: the sparse mean-field method (Hensman, Matthews and Ghahramani 2015, section 3.1).

========  ===================================================================================  ==========
symbol    meaning                                                                              shape
========  ===================================================================================  ==========
n, d, M   rows, inputs, inducing inputs
g         noisy function values, y_n = sign g_n; the probit is what g ~ N(f, I) leaves behind  (n,)
q(g)      Π_n of normal laws cut to the side of y_n, whose a_n are the inner unknowns          (n,)
q(u)      the inducing values; given g they are normal, exactly                                (M,), (M, M)
θ, Z      logarithms of the kernel's hyper-parameters, inducing inputs: the outer unknowns     (P,), (M, d)
F         the bound (12), with σ̃_n² the reciprocal of the diagonal that the paper prints       scalar
========  ===================================================================================  ==========

Bound and gradient are in :mod:`gpbench.schemes.nested.mean_field`, O(n M²), the inner loop in ``mean_field_inner``: the
paper's sweeps over a (``inner = sweeps``), or Newton's method in M unknowns, which finds the same optimum in fewer
walks over the rows. Outside, L-BFGS-B climbs over (θ, Z), or scaled conjugate gradients as in the paper's figure 2.

Prediction: ``gaussian`` puts g at its mean, so that q(u) is normal; ``monte-carlo`` averages over draws of g, as the
paper has it. The paper reports over-confident predictions: probabilities are not clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpbench.model.basis_old import Basis
from gpbench.model.posterior import Posterior
from gpbench.model.sampled import SampledPosterior
from gpbench.schemes.base import setting
from gpbench.schemes.nested.mean_field import MeanField, mean_field_gradient, mean_field_rows
from gpbench.schemes.nested.mean_field_inner import newton, sweep
from gpbench.schemes.nested.nested import NestedScheme

if TYPE_CHECKING:
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["MFSp"]


@dataclass(frozen=True, kw_only=True)
class MFSp(NestedScheme):
    """Batch maximisation of the sparse mean-field bound."""

    inner: str = setting(
        "newton", "inner loop: Newton's method, or the paper's sweeps over a", choices=("newton", "sweeps")
    )
    inner_tolerance: float = setting(1e-6, "largest change of a at the end of the inner loop", minimum=1e-12, maximum=1)
    inner_iterations: int = setting(2000, "iterations of the inner loop at most", minimum=1)
    prediction: str = setting(
        "gaussian", "g at its mean, or averages over draws of g", choices=("gaussian", "monte-carlo")
    )
    draws: int = setting(1000, "draws of g for the monte-carlo prediction", minimum=1)

    name: ClassVar[str] = "mfsp"

    def inner_problem(self, X: Rows, y: Labels, *, likelihood: Likelihood, rng: np.random.Generator) -> _Inner:
        """The inner problem."""
        return _Inner(self, X, y, likelihood=likelihood, seed=int(rng.integers(2**63)))


class _Inner:
    """q(g) at given θ and Z."""

    def __init__(self, settings: MFSp, X: Rows, y: Labels, *, likelihood: Likelihood, seed: int) -> None:
        self._settings, self._X, self._y, self._likelihood, self._seed = settings, X, y, likelihood, seed

    def solve(self, kernel: Kernel, Z: Array, *, jitter: float | None, warm: MeanField | None) -> MeanField:
        settings = self._settings
        rows = mean_field_rows(Basis(kernel, Z, jitter=jitter), self._X, self._y, size=settings.block_rows)
        tolerance, limit = settings.inner_tolerance, settings.inner_iterations
        if settings.inner == "newton":
            m_w = None if warm is None else warm.m_w
            return newton(rows, tolerance=tolerance, limit=limit, m_w=m_w)
        z = None if warm is None else warm.z
        return sweep(rows, tolerance=tolerance, limit=limit, z=z)

    def gradient(self, at: MeanField) -> tuple[Array, Array]:
        return mean_field_gradient(at)

    def posterior(self, at: MeanField, facts: dict[str, object]) -> Posterior | SampledPosterior:
        latent = at.latent()
        if self._settings.prediction == "gaussian":
            return Posterior((latent,), self._likelihood, classes=2, facts=facts)
        # the same draws whenever it is asked for, since a clock decides when that is
        draws = at.draws(np.random.default_rng(self._seed), self._settings.draws)
        return SampledPosterior.of_means(latent, draws, likelihood=self._likelihood, classes=2, facts=facts)
