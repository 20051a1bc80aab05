"""One role of scalable EP's factors: a site's cavity, the site that matches moments, and the weights of its gradient.

========  ===================================================================================  =======
symbol    meaning                                                                              shape
========  ===================================================================================  =======
ν, w      the vector that νᵀu is about, and the one that the site stands on, if another        (M,)
h, g      νᵀVν and νᵀm under q(u) = N(m, V)                                                    any
c₁, c₂    the site exp(-½ c₁ (wᵀu)² + c₂ wᵀu), c₁ ≥ 0                                          any
λ, ζ      derivatives of log Φ(β) in the cavity's mean of νᵀu, and in its variance             any
========  ===================================================================================  =======

The gradient, eq. (10) of villacampa2017, takes log Φ(β) with the cavity held: ν enters through νᵀm⁻, with weight λ, and
νᵀV⁻ν, with ζ. With γ = 1 / (1 - c₁h), V⁻ν = γ V ν and m⁻ = m + γ (c₁g - c₂) V ν, so that a row adds λ m + ξ V ν,
ξ = γ [λ (c₁g - c₂) + 2ζ]. Where a site stands on another vector w than the current ν (mini-batches), it adds
λ m + 2ζ V ν + χ V w, χ = γ [λ (c₁ wᵀm - c₂) + 2ζ c₁ νᵀVw] with γ = 1 / (1 - c₁ wᵀVw).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpbench.model.sites import Tilted, cavity, cavity_evidence, matched_site, share_left

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Moved", "Role", "Slopes"]


class Moved(NamedTuple):
    """wᵀVw, νᵀVw and wᵀm, each (n, F), for sites that stand on other vectors w than ν."""

    var: Array
    cross: Array
    mean: Array


class Slopes(NamedTuple):
    """What a row adds to the gradient of log Z, for each latent function: (n, F) each.

    Attributes
    ----------
    lam, xi, zeta
        Weights of m and V ν, and the derivative in s.
    chi : or None
        Weight of V w, where sites stand on other vectors.
    e1, e2 : or None
        Mismatch of moments: mean and second moment, for the exact gradient away from EP's fixed point.
    """

    lam: Array
    xi: Array
    zeta: Array
    chi: Array | None = None
    e1: Array | None = None
    e2: Array | None = None


class Role:
    """Sites of one role with their cavities.

    Parameters
    ----------
    c1, c2, h, g
        Of any shapes that broadcast.
    moved : Moved or None
        Where sites stand on other vectors.

    Attributes
    ----------
    mean, var
        Of νᵀu under the cavity.

    Raises
    ------
    NumericalError
        A cavity is improper by more than rounding.
    """

    def __init__(self, c1: Array, c2: Array, h: Array, g: Array, moved: Moved | None) -> None:
        self.c1, self.c2, self.h, self.g, self.moved = c1, c2, h, g, moved
        if moved is None:
            self.mean, self.var = cavity(g, h, tau=c1, b=c2)
            return
        pull = moved.cross / share_left(moved.var, tau=c1)
        self.var = h + c1 * moved.cross * pull
        self.mean = g + pull * (c1 * moved.mean - c2)

    def matched(self, at: Tilted, *, rest: Array | float, sign: Array | float) -> tuple[Array, Array]:
        """c₁ and c₂ that match the tilted moments; arguments as in :func:`gpbench.model.sites.matched_site`."""
        return matched_site(at, mean=self.mean, var=self.var, rest=rest, sign=sign)

    def evidence(self) -> Array:
        """Log normaliser of the cavity minus that of q(u)."""
        if self.moved is None:
            return cavity_evidence(self.g, self.h, tau=self.c1, b=self.c2)
        return cavity_evidence(self.moved.mean, self.moved.var, tau=self.c1, b=self.c2)

    def slopes(self, lam: Array, zeta: Array, curvature: Array, *, exact: bool) -> Slopes:
        """What the factors add to the gradient through this role; ``curvature`` is b₂."""
        c1, twice = self.c1, 2.0 * zeta
        if self.moved is not None:
            var, cross, mean = self.moved
            gamma = 1.0 / share_left(var, tau=c1)
            return Slopes(lam, twice, zeta, chi=gamma * (lam * (c1 * mean - self.c2) + twice * c1 * cross))
        gamma = 1.0 / share_left(self.h, tau=c1)
        shift = c1 * self.g - self.c2
        xi = gamma * (lam * shift + twice)
        if not exact:
            return Slopes(lam, xi, zeta)
        e1 = gamma * (shift + lam)
        return Slopes(lam, xi, zeta, e1=e1, e2=gamma * (c1 - gamma * curvature) + e1 * e1)
