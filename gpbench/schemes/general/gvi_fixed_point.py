"""gvi-fixed-point and sod-fixed-point: the covariance by a fixed point (Sheth, Wang and Khardon 2015, section 4).

==========  ============================================================================  ============
symbol      meaning                                                                       shape
==========  ============================================================================  ============
q(u)        N(m, V), m = c + L m_w, V = L (C Cᵀ)⁻¹ Lᵀ                                      (M,), (M, M)
T(V)        the operator (13); in v: the precision C Cᵀ becomes Λ                         (M, M)
Λ           I + Tᵀ diag(-λ) T, T the whitened features, λ = 2h of (10) at (m, V)          (M, M)
ρ           g of (10), ∂F/∂μ                                                              (n,)
F           the bound (2)                                                                 scalar
==========  ============================================================================  ============

One iteration: Newton's method in m, whose Hessian is -Λ, and one application of T. Its limit fulfils (12a) and (12b).
The paper leaves open how the two alternate. Here Newton's method goes on until the gradient in m is small against the
one in V, since a mean that is exact for a wrong V is wrong; the last Newton matrix is the Λ of T(V), so that an
iteration costs one walk over the rows for each Newton step and one for the variances. Where F falls by more than 1e-6,
which it has not been seen to do with the line search in m, the precisions are mixed half and half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpbench.model.gaussian import GaussianQ
from gpbench.schemes.base import setting
from gpbench.schemes.general import settings
from gpbench.schemes.general.bound import (
    Solution,
    bound_at,
    bound_gradient,
    maximise_mean,
    precision_factor,
    precision_of,
    root_gradient,
)
from gpbench.schemes.general.settings import GeneralScheme
from gpbench.schemes.general.training import SparseScheme, SubsetScheme

if TYPE_CHECKING:
    from gpbench.model.rows import Array
    from gpbench.optimize.training import StoppedBy
    from gpbench.schemes.general.bound import At, FeatureRows, Report
    from gpbench.schemes.general.settings import Observation

__all__ = ["FixedPoint", "FixedPointSettings", "GVIFixedPoint", "SoDFixedPoint"]

MOST = 500
"""Iterations for one kernel at most, as in the paper."""
FALL = 1e-6
MIXES = 30


@dataclass(frozen=True, kw_only=True)
class FixedPointSettings(GeneralScheme):
    """What the solver reads, on all rows or on a subset."""

    edges: str | None = settings.edges()
    slope: float = settings.slope()
    learn_slope: bool = settings.learn_slope()
    nodes: int = settings.nodes()
    gradient_tolerance: float = settings.gradient_tolerance()
    value_tolerance: float = settings.value_tolerance()
    newton_steps: int = setting(20, "Newton steps in the mean at most, for each step of the covariance", minimum=1)
    newton_ratio: float = setting(
        0.1, "fall of the gradient in the mean after which the covariance moves", minimum=0.0, maximum=1.0
    )

    def solver(self) -> FixedPoint:
        """The fixed point."""
        return FixedPoint(self)


@dataclass(frozen=True, kw_only=True)
class GVIFixedPoint(FixedPointSettings, SparseScheme):
    """Newton's method in the mean, the fixed point in the covariance."""

    name: ClassVar[str] = "gvi-fixed-point"


@dataclass(frozen=True, kw_only=True)
class SoDFixedPoint(FixedPointSettings, SubsetScheme):
    """The same on the active set's own rows."""

    name: ClassVar[str] = "sod-fixed-point"


class FixedPoint:
    """The solver for one kernel after another.

    Parameters
    ----------
    scheme : FixedPointSettings
    """

    def __init__(self, scheme: FixedPointSettings) -> None:
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
        at, before, gradient = bound_at(rows, observation, start), -np.inf, np.inf
        stopped_by: StoppedBy = "iterations"
        for _ in range(MOST):
            best_mean = maximise_mean(
                rows,
                observation,
                at,
                tolerance=scheme.gradient_tolerance,
                steps=scheme.newton_steps,
                ratio=scheme.newton_ratio,
            )
            at, precision = best_mean.at, precision_of(best_mean.sums)
            gradient = max(best_mean.gradient, float(np.abs(root_gradient(at.q, precision)).max()))
            report(at.q, at.value)
            if settings.settled(scheme, gradient, increase=at.value - before):
                stopped_by = "converged"
                break
            moved = _moved(rows, observation, at, precision)
            if moved is None:
                stopped_by = "failed-to-improve"
                break
            before, at = at.value, moved
        return Solution(
            at.q, at.value, at.value, stopped_by, lambda: bound_gradient(rows, observation, at), gradient=gradient
        )


def _moved(rows: FeatureRows, observation: Observation, at: At, precision: Array) -> At | None:
    """T(V): the covariance whose precision is Λ, mixed with the old one while the bound falls; none if it goes on."""
    old: Array | None = None
    for _ in range(MIXES):
        q = GaussianQ(at.q.mean, precision_factor(precision), "precision")
        moved = bound_at(rows, observation, q, mu=at.mu)
        if moved.value >= at.value - FALL:
            return moved
        if old is None:
            old = at.q.root @ at.q.root.T
        precision = 0.5 * (precision + old)
    return None
