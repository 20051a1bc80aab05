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

from gpbench.model.gaussian import GaussianQ
from gpbench.model.linalg import trmm
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.maximise import Point, maximise
from gpbench.schemes.base import setting
from gpbench.schemes.general import settings
from gpbench.schemes.general.bound import Solution, bound_at, bound_gradient, maximise_mean, precision_of
from gpbench.schemes.general.settings import GeneralScheme
from gpbench.schemes.general.training import SparseScheme, SubsetScheme

if TYPE_CHECKING:
    from gpbench.model.rows import Array
    from gpbench.optimize.training import StoppedBy
    from gpbench.schemes.general.bound import At, FeatureRows, Report
    from gpbench.schemes.general.settings import Observation

__all__ = ["GVIGradient", "GradientAscent", "GradientSettings", "SoDGradient"]

ROUNDS = 500
"""Of Newton's method and L-BFGS for one kernel at most."""


@dataclass(frozen=True, kw_only=True)
class GradientSettings(GeneralScheme):
    """What the solver reads, on all rows or on a subset."""

    edges: str | None = settings.edges()
    slope: float = settings.slope()
    learn_slope: bool = settings.learn_slope()
    nodes: int = settings.nodes()
    gradient_tolerance: float = settings.gradient_tolerance()
    value_tolerance: float = settings.value_tolerance()
    whiten: bool = setting(True, "whether the factor is that of the whitened covariance, or of V, as in the paper")
    newton_steps: int = setting(20, "Newton steps in the mean at most, for each search in the covariance", minimum=1)
    root_evaluations: int = setting(50, "evaluations for each search in the covariance at most", minimum=2)

    def solver(self) -> GradientAscent:
        """Gradient ascent."""
        return GradientAscent(self)


@dataclass(frozen=True, kw_only=True)
class GVIGradient(GradientSettings, SparseScheme):
    """Newton's method in the mean, L-BFGS in the covariance's Cholesky factor."""

    name: ClassVar[str] = "gvi-gradient"


@dataclass(frozen=True, kw_only=True)
class SoDGradient(GradientSettings, SubsetScheme):
    """The same on the active set's own rows."""

    name: ClassVar[str] = "sod-gradient"


class GradientAscent:
    """The solver for one kernel after another.

    Parameters
    ----------
    scheme : GradientSettings
    """

    def __init__(self, scheme: GradientSettings) -> None:
        self._scheme = scheme

    def solve(
        self,
        rows: FeatureRows,
        observation: Observation,
        start: GaussianQ,
        *,
        warm: bool,  # noqa: ARG002 - it begins at ``start`` in any case
        report: Report,
    ) -> Solution:
        """Find q; see :class:`gpbench.schemes.general.bound.Solver`."""
        scheme = self._scheme
        at = bound_at(rows, observation, GaussianQ(start.mean, start.covariance_root(), "covariance"))
        before, gradient = -np.inf, np.inf
        stopped_by: StoppedBy = "iterations"
        for _ in range(ROUNDS):
            best_mean = maximise_mean(
                rows, observation, at, tolerance=scheme.gradient_tolerance, steps=scheme.newton_steps
            )
            at = best_mean.at
            by_root = _root_gradient(at.q.root, precision_of(best_mean.sums))
            gradient = max(best_mean.gradient, float(np.abs(by_root).max()))
            report(at.q, at.value)
            if settings.settled(scheme, gradient, increase=at.value - before):
                stopped_by = "converged"
                break
            before = at.value
            at = self._maximise_root(rows, observation, at, report)
        return Solution(
            at.q, at.value, at.value, stopped_by, lambda: bound_gradient(rows, observation, at), gradient=gradient
        )

    def _maximise_root(self, rows: FeatureRows, observation: Observation, first: At, report: Report) -> At:
        """L-BFGS in the root, with the mean held."""
        scheme, M = self._scheme, rows.M
        lower = np.tril_indices(M)
        L, used = rows.basis.L, 0

        def point(x: Array) -> Point[At]:
            nonlocal used
            used += 1
            root = np.zeros((M, M), order="F")
            root[lower] = x
            if not scheme.whiten:
                root = trmm(rows.basis.L_inv, root, overwrite=True)
            if not np.diag(root).all():  # at a singular covariance F is minus infinity
                return Point(-np.inf, np.zeros(len(x)), first)
            at = bound_at(rows, observation, GaussianQ(first.q.mean, root, "covariance"), mu=first.mu)
            sums = rows.moments(weights=-2.0 * at.h, targets=at.g)
            gradient = _root_gradient(root, precision_of(sums))
            if not scheme.whiten:
                gradient = trmm(rows.basis.L_inv, gradient, trans=True, overwrite=True)
            return Point(at.value, gradient[lower], at)

        search = LBFGSB(
            memory=scheme.memory,
            gradient_tolerance=scheme.gradient_tolerance,
            value_tolerance=scheme.value_tolerance / max(1.0, abs(first.value)),  # scipy's is relative
        )
        return maximise(
            point,
            (first.q.root if scheme.whiten else trmm(L, first.q.root))[lower],
            search=search,
            evaluations=lambda: scheme.root_evaluations - used,
            on_evaluation=lambda at, value: report(at.q, value),
        ).state


def _root_gradient(root: Array, precision: Array) -> Array:
    """Gradient of F in the lower triangle of L_w, shape (M, M)."""
    gradient = np.asfortranarray(-np.tril(blas.dgemm(1.0, precision, root)))
    np.einsum("ii->i", gradient)[...] += 1.0 / np.diag(root)
    return gradient
