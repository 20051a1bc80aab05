"""Newton's method with a line search, for inner problems in the M whitened unknowns of a mean.

Both have the Hessian -(I + Tᵀ diag(w) T) with w >= 0: no eigenvalue is nearer to zero than -1, the optimum is unique,
and no jitter is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from gpbench.model.linalg import add_to_diagonal, potrf, trsv

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.model.rows import Array
    from gpbench.model.whitened import Moments

__all__ = ["InnerPoint", "climb_newton"]

_SUFFICIENT = 1e-4
_ROUNDING = 1e-12


class InnerPoint(Protocol):
    """The objective at one mean; making it takes a walk over the rows.

    Attributes
    ----------
    m_w : (M,)
    value : float
        To be maximised.
    ascent : (M,)
        Its gradient.
    sums : Moments
        Tᵀ diag(w) T.
    """

    m_w: Array
    value: float
    ascent: Array
    sums: Moments


P = TypeVar("P", bound=InnerPoint)


def climb_newton(here: P, move: Callable[[P, Array], P], *, tolerance: float, limit: int) -> tuple[P, int, bool]:
    """Climb to the optimum.

    Parameters
    ----------
    here : InnerPoint
        Where to start; counts as the first walk.
    move : callable
        Makes the point at another mean (M,), from the one before.
    tolerance : float
        Converged after the step that was foretold to gain less than half its square; that step squares the error.
    limit : int
        Walks over the rows at most.

    Returns
    -------
    point, walks, settled
        The best point, how many walks it took, and whether it converged.

    Raises
    ------
    NumericalError
        The Hessian is not finite.
    """
    walks, settled = 1, False
    while walks < limit and not settled:
        direction = _direction(here)
        gain = float(direction @ here.ascent)
        settled = gain <= tolerance * tolerance
        rounding, step = _ROUNDING * abs(here.value), 1.0
        while True:
            there = move(here, here.m_w + step * direction)
            walks += 1
            risen = there.value >= here.value + _SUFFICIENT * step * gain - rounding
            if settled or risen or walks >= limit:
                break
            step *= 0.5
        if there.value >= here.value - rounding:
            here = there
    return here, walks, settled


def _direction(at: InnerPoint) -> Array:
    hessian = at.sums.G.copy(order="F")
    add_to_diagonal(hessian, 1.0)
    C = potrf(hessian, what="the inner Hessian", overwrite=True)
    return trsv(C, trsv(C, at.ascent), trans=True)
