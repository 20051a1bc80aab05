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

from gpbench.schemes.base import setting
from gpbench.schemes.general.bound import GaussianV, bound_at, factor, precision_of, root_gradient
from gpbench.schemes.general.mean_newton import climb_in_mean
from gpbench.schemes.general.run import Report, Solution, SolvedScheme

if TYPE_CHECKING:
    from gpbench.model.rows import Array
    from gpbench.schemes.general.bound import At
    from gpbench.schemes.general.observation import Observation
    from gpbench.schemes.general.rows import FeatureRows

__all__ = ["FixedPoint", "GVIFixedPoint"]

MOST = 500
"""Iterations for one kernel at most, as in the paper."""
FALL = 1e-6
MIXES = 30


@dataclass(frozen=True, kw_only=True)
class GVIFixedPoint(SolvedScheme):
    """Newton's method in the mean, the fixed point in the covariance."""

    newton_steps: int = setting(20, "Newton steps in the mean at most, for each step of the covariance", minimum=1)
    newton_ratio: float = setting(
        0.1, "fall of the gradient in the mean after which the covariance moves", minimum=0.0, maximum=1.0
    )

    name: ClassVar[str] = "gvi-fixed-point"

    def solver(self) -> FixedPoint:
        """The solver."""
        return FixedPoint(self)


class FixedPoint:
    """The solver for one kernel."""

    def __init__(self, settings: GVIFixedPoint) -> None:
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
        at, before = bound_at(rows, observation, start), -np.inf
        gradient = np.inf
        for _ in range(MOST):
            inner = climb_in_mean(
                rows,
                observation,
                at,
                tolerance=settings.gradient_tolerance,
                steps=settings.newton_steps,
                ratio=settings.newton_ratio,
            )
            at, precision = inner.at, precision_of(inner.sums)
            gradient = max(inner.size, float(np.abs(root_gradient(at.q, precision)).max()))
            report(at.q, at.value)
            if settings.settled(gradient, at.value - before):
                return Solution(at, at.value, gradient, converged=True)
            before = at.value
            at = _moved(rows, observation, at, precision)
        return Solution(at, at.value, gradient, converged=False)


def _moved(rows: FeatureRows, observation: Observation, at: At, precision: Array) -> At:
    """T(V): the covariance whose precision is Λ, mixed with the old one while the bound falls."""
    old: Array | None = None
    for _ in range(MIXES):
        q = GaussianV(at.q.m_w, factor(precision), "precision")
        moved = bound_at(rows, observation, q, mu=at.mu)
        if moved.value >= at.value - FALL:
            return moved
        if old is None:
            old = at.q.root @ at.q.root.T
        precision = 0.5 * (precision + old)
    return at
