"""gvi-gradient and sod-gradient: gradient ascent in the covariance (Sheth, Wang and Khardon 2015, section 4).

==========  ============================================================================  ============
symbol      meaning                                                                       shape
==========  ============================================================================  ============
q(u)        N(m, V), m = c + L m_w, V = L L_w L_wᵀ Lᵀ                                      (M,), (M, M)
L_w         lower triangular; its diagonal's signs are free                               (M, M)
Λ           I + Tᵀ diag(-2h) T at the present q                                           (M, M)
F           the bound (2), concave in L_w for log-concave likelihoods                     scalar
==========  ============================================================================  ============

Coordinate ascent after Challis and Barber (2013): Newton's method in m, then L-BFGS in the Cholesky factor of the
covariance, whose gradient is tril(diag(1/L_w) - Λ L_w), in turn until both are small. The paper's factor is that of V,
L L_w (``whiten`` false); whitened it is better conditioned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.linalg import blas

from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.schemes.base import setting
from gpbench.schemes.general.bound import At, GaussianV, bound_at, precision_of
from gpbench.schemes.general.mean_newton import climb_in_mean
from gpbench.schemes.general.run import Report, Solution, SolvedScheme

if TYPE_CHECKING:
    from gpbench.model.rows import Array
    from gpbench.schemes.general.observation import Observation
    from gpbench.schemes.general.rows import FeatureRows

__all__ = ["GVIGradient", "GradientAscent"]

ROUNDS = 500


@dataclass(frozen=True, kw_only=True)
class GVIGradient(SolvedScheme):
    """Newton's method in the mean, L-BFGS in the covariance's Cholesky factor."""

    whiten: bool = setting(True, "whether the factor is that of the whitened covariance, or of V, as in the paper")
    newton_steps: int = setting(20, "Newton steps in the mean at most, for each search in the covariance", minimum=1)
    root_evaluations: int = setting(50, "evaluations for each search in the covariance at most", minimum=2)

    name: ClassVar[str] = "gvi-gradient"

    def solver(self) -> GradientAscent:
        """The solver."""
        return GradientAscent(self)


class GradientAscent:
    """The solver for one kernel."""

    def __init__(self, settings: GVIGradient) -> None:
        self._settings = settings

    def solve(
        self,
        rows: FeatureRows,
        observation: Observation,
        start: GaussianV,
        *,
        warm: bool,  # noqa: ARG002 - it begins at ``start`` in any case
        report: Report,
    ) -> Solution:
        """Find q; see :class:`gpbench.schemes.general.run.Solver`."""
        settings = self._settings
        at = bound_at(rows, observation, GaussianV(start.m_w, start.covariance_root(), "covariance"))
        before, gradient = -np.inf, np.inf
        for _ in range(ROUNDS):
            inner = climb_in_mean(
                rows, observation, at, tolerance=settings.gradient_tolerance, steps=settings.newton_steps
            )
            at = inner.at
            by_root = _root_gradient(at.q.root, precision_of(inner.sums))
            gradient = max(inner.size, float(np.abs(by_root).max()))
            report(at.q, at.value)
            if settings.settled(gradient, at.value - before):
                return Solution(at, at.value, gradient, converged=True)
            before = at.value
            at = self._climb(rows, observation, at, report)
        return Solution(at, at.value, gradient, converged=False)

    def _climb(self, rows: FeatureRows, observation: Observation, at: At, report: Report) -> At:
        """L-BFGS in the root, with the mean held."""
        settings, M = self._settings, rows.M
        lower = np.tril_indices(M)
        L, L_inv = rows.basis.L, rows.basis.L_inv
        best = trial = at

        def objective(x: Array) -> tuple[float, Array]:
            nonlocal trial
            root = np.zeros((M, M), order="F")
            root[lower] = x
            if not settings.whiten:
                root = blas.dtrmm(1.0, L_inv, root, lower=1)
            if not np.diag(root).all():  # at a singular covariance F is minus infinity
                return -np.inf, np.zeros(len(x))
            trial = bound_at(rows, observation, GaussianV(at.q.m_w, root, "covariance"), mu=at.mu)
            sums = rows.moments(weights=-2.0 * trial.h, targets=trial.g)
            gradient = _root_gradient(root, precision_of(sums))
            if not settings.whiten:
                gradient = blas.dgemm(1.0, L_inv, gradient, trans_a=1)
            return trial.value, gradient[lower]

        def evaluated(value: float, *, improved: bool) -> None:  # noqa: ARG001 - the interface passes it
            nonlocal best
            if improved:
                best = trial
            report(best.q, best.value)

        first = at.q.root if settings.whiten else blas.dtrmm(1.0, L, at.q.root, lower=1)
        search = LBFGSB(
            memory=settings.memory,
            gradient_tolerance=settings.gradient_tolerance,
            value_tolerance=settings.value_tolerance / max(1.0, abs(at.value)),  # scipy's is relative
        )
        search.maximise(objective, first[lower], max_evaluations=settings.root_evaluations, on_evaluation=evaluated)
        return best


def _root_gradient(root: Array, precision: Array) -> Array:
    """Gradient of F in the lower triangle of L_w, shape (M, M)."""
    gradient = np.asfortranarray(-np.tril(blas.dgemm(1.0, precision, root)))
    np.einsum("ii->i", gradient)[...] += 1.0 / np.diag(root)
    return gradient
