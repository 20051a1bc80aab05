"""Newton's method in the mean of q(v) with its covariance held: the inner step of sheth2015's primal methods.

========  ==============================================================================  ========
symbol    meaning                                                                         shape
========  ==============================================================================  ========
F         bound; concave in m_w for log-concave likelihoods                               scalar
T         whitened features                                                               (n, M)
g, h      derivatives of the data terms in mean and variance of f; ½ ∂g/∂μ is about h     (n,)
Λ         I + Tᵀ diag(-2h) T: minus the Hessian, and the precision of the fixed point     (M, M)
========  ==============================================================================  ========

m_w moves by η Λ⁻¹ (Tᵀg - m_w). Without a line search such steps diverge where the signal variance is large; here η is
halved until F has risen by a tenth of a thousandth of what its slope promises. A trial costs no walk over the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpbench.model.linalg import trsv
from gpbench.schemes.general.bound import factor, precision_of

if TYPE_CHECKING:
    from gpbench.model.rows import Array
    from gpbench.model.whitened import Moments
    from gpbench.schemes.general.bound import At
    from gpbench.schemes.general.observation import Observation
    from gpbench.schemes.general.rows import FeatureRows

__all__ = ["InMean", "climb_in_mean"]

_HALVINGS = 60
_SUFFICIENT = 1e-4
_ROUNDING = 1e-13
"""Relative to the sum of the data terms' sizes, a fall that rounding explains."""


class InMean(NamedTuple):
    """Where the mean has come.

    Attributes
    ----------
    at : At
    sums : Moments
        Tᵀ diag(-2h) T and Tᵀg there.
    size : float
        Largest entry of the gradient Tᵀg - m_w.
    steps : int
    """

    at: At
    sums: Moments
    size: float
    steps: int


def climb_in_mean(
    rows: FeatureRows, observation: Observation, at: At, *, tolerance: float, steps: int, ratio: float = 0.0
) -> InMean:
    """Climb until the gradient is small.

    Parameters
    ----------
    rows : FeatureRows
    observation : Observation
    at : At
    tolerance : float
        Largest entry of the gradient that is small enough.
    steps : int
        Newton steps at most.
    ratio : float
        A gradient of so much of the first one is small enough, too.
    """
    taken = 0
    while True:
        sums = rows.moments(weights=-2.0 * at.h, targets=at.g)
        gradient = sums.r - at.q.m_w
        size = float(np.abs(gradient).max())
        if taken == 0:
            tolerance = max(tolerance, ratio * size)
        if size <= tolerance or taken >= steps:
            return InMean(at, sums, size, taken)
        C = factor(precision_of(sums))
        direction = trsv(C, trsv(C, gradient), trans=True)
        moved = _search(rows, observation, at, direction=direction, slope=float(gradient @ direction))
        if moved is None:
            return InMean(at, sums, size, taken)
        at = moved
        taken += 1


def _search(rows: FeatureRows, observation: Observation, at: At, *, direction: Array, slope: float) -> At | None:
    """The point along the direction; None where rounding hides every rise."""
    change = rows.means(direction)
    rounding = _ROUNDING * (abs(at.value) + float(np.abs(at.q.m_w).max() ** 2))
    eta = 1.0
    for _ in range(_HALVINGS):
        m_w, mu = at.q.m_w + eta * direction, at.mu + eta * change
        fit, g, h = observation.expectations(rows.y, mu, at.s)
        value = fit - 0.5 * float(m_w @ m_w) - at.spread
        if value >= at.value + _SUFFICIENT * eta * slope - rounding:
            return at._replace(q=at.q.with_mean(m_w), mu=mu, g=g, h=h, value=value)
        eta *= 0.5
        if eta * slope <= rounding:
            break
    return None
