"""Sites of expectation propagation's probit factors: cavities, tilted distributions, site updates, evidence.

========  =============================================================================  =======
symbol    meaning                                                                        shape
========  =============================================================================  =======
μ, σ²     mean and variance of the scalar (f_i, or νᵀu) that a site is about             any
τ, b      natural parameters of a site exp(-½ τ f² + b f), τ ≥ 0                         any
m⁻, s⁻    mean and variance of the cavity: the posterior without one copy of the site    any
z         variance of what the factor looks at; Φ(gap / √z) is the factor's integral     any
β         gap / √z: y m⁻ / √z for a factor Φ(y f), (m⁻_y - m⁻_k) / √z for f_y > f_k       any
r, w, v   φ(β)/Φ(β), r (r + β) in [0, 1), and 1 - w, the variance of a cut unit normal   any
========  =============================================================================  =======

With z = rest + s⁻, where rest ≥ 0 is what else the factor integrates over, matching moments (Rasmussen and Williams
2006, section 3.6) gives τ = w / (rest + v s⁻) and b = (± r √z + w m⁻) / (rest + v s⁻): positive denominators without
cancellation, so that τ is never negative; damped by a factor in (0, 1], 1 - τ σ² stays above 0 and cavities proper.
Zero sites need no special case. All functions work elementwise and broadcast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.likelihoods.bernoulli import log_ndtr, mills
from gpbench.model.linalg import trsm

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = [
    "LEAST_KEEP",
    "LEAST_Z",
    "Cavity",
    "Tilted",
    "cavity",
    "cavity_evidence",
    "matched_site",
    "share_left",
    "tilted",
    "variances_left",
]

LEAST_Z = 1e-12
"""Least variance z: without label noise the step factors of the multi-class models have none of their own."""
LEAST_KEEP = 1e-12
"""Least 1 - τ σ²: rounding alone brings it lower."""
_LEAST_TAKEN = 1e-5
"""Least share τσ² that a site takes of a posterior's precision for σ² to be had from it to 11 digits."""
_ROUNDING = 1e-6
"""A 1 - τ σ² below minus this is no rounding: sites and posterior do not belong together."""
_FAR = -30.0
"""Below it v comes from its asymptotic series; there both forms are good to 2e-10, relatively."""


class Cavity(NamedTuple):
    """Mean and variance of a posterior without one site."""

    mean: Array
    var: Array


class Tilted(NamedTuple):
    """What a factor's integral Φ(β) under a cavity and its derivatives are made of.

    Attributes
    ----------
    beta, r, w, v, z
        As in the module's glossary.
    """

    beta: Array
    r: Array
    w: Array
    v: Array
    z: Array

    @property
    def log_z(self) -> Array:
        """Logarithm of the factor's integral, log Φ(β)."""
        return log_ndtr(self.beta)

    @property
    def slope(self) -> Array:
        """d₁ = r / √z, the derivative of log Φ(β) in the gap."""
        return np.asarray(self.r / np.sqrt(self.z))

    @property
    def curvature(self) -> Array:
        """b₂ = w / z, minus the second derivative of log Φ(β) in the gap."""
        return np.asarray(self.w / self.z)

    @property
    def z_slope(self) -> Array:
        """ζ = -½ r β / z, the derivative of log Φ(β) in z."""
        return np.asarray(-0.5 * self.r * self.beta / self.z)


def cavity(mean: Array, var: Array, *, tau: Array, b: Array) -> Cavity:
    """Posterior N(mean, var) without the site (tau, b).

    Raises
    ------
    NumericalError
        The cavity would be improper by more than rounding.
    """
    keep = share_left(var, tau=tau)
    return Cavity((mean - var * b) / keep, var / keep)


def cavity_evidence(mean: Array, var: Array, *, tau: Array, b: Array) -> Array:
    """Log normaliser of the cavity minus that of the posterior: one site's share of the evidence beside log Φ(β).

    Δ = -½ log(1 - τσ²) + ½ [τ (μ - bσ²)² / (1 - τσ²) - 2 b μ + b² σ²]; no division by τ.

    Raises
    ------
    NumericalError
        The cavity would be improper by more than rounding.
    """
    keep = share_left(var, tau=tau)
    without = mean - var * b
    return np.asarray(0.5 * (tau * without * without / keep - b * (mean + without)) - 0.5 * np.log(keep))


def tilted(gap: Array, z: Array) -> Tilted:
    """Moments of the factor whose integral under the cavity is Φ(gap / √z); z is floored at ``LEAST_Z``.

    Relative accuracy 1e-14 of r, 1e-10 of w and 2e-10 of v, for β from -1e8 up.
    """
    z = np.maximum(z, LEAST_Z)
    beta = gap / np.sqrt(z)
    r = mills(beta)
    w = r * (r + beta)
    v = 1.0 - w
    far = beta < _FAR
    if far.any():
        u = np.where(far, beta, _FAR) ** -2.0
        series = u * (1.0 - u * (6.0 - u * (50.0 - u * (518.0 - 6354.0 * u))))
        v = np.where(far, series, v)
        w = np.where(far, 1.0 - series, w)
    return Tilted(beta, r, w, v, z)


def matched_site(
    at: Tilted, *, mean: Array, var: Array, rest: Array | float, sign: Array | float
) -> tuple[Array, Array]:
    """Site that makes the posterior of a scalar match the tilted distribution's mean and variance.

    Parameters
    ----------
    at : Tilted
    mean, var
        The scalar's cavity.
    rest
        z - var, as the caller knows it without cancellation: 1 for a probit factor Φ(y f), the other latent's cavity
        variance for a step factor.
    sign
        Derivative of the gap in the scalar: y for a probit factor, +1 and -1 for f_y and f_k of a step factor.

    Returns
    -------
    tau, b
        tau is at least 0.
    """
    scale = 1.0 / np.maximum(rest + at.v * var, LEAST_Z)
    return at.w * scale, (sign * at.r * np.sqrt(at.z) + at.w * mean) * scale


def share_left(var: Array, *, tau: Array) -> Array:
    """1 - τ σ², the share of a posterior's precision that is not the site's; positive, up to rounding.

    Raises
    ------
    NumericalError
        It is negative by more than rounding: the cavity would be improper.
    """
    keep = 1.0 - tau * var
    least = float(np.min(keep, initial=1.0))
    if not least > LEAST_KEEP:  # also catches NaN
        if not least > -_ROUNDING:
            raise NumericalError(f"an EP cavity must have a positive variance; got 1 - tau var = {least:.3g}")
        keep = np.maximum(keep, LEAST_KEEP)
    return np.asarray(keep)


def variances_left(K: Array, root: Array, L_B: Array, *, kept: Array) -> Array:
    """Posterior variances σ² (n,) of f ~ N(0, K) under sites of precision τ.

    As τσ² = 1 - (B⁻¹)_ii, they need no product with K; rows whose site takes next to nothing are solved for.

    Parameters
    ----------
    K : (n, n)
    root : (n,)
        τ^½.
    L_B : (n, n)
        Cholesky factor of B = I + τ^½ K τ^½.
    kept : (n,)
        The diagonal of B⁻¹.
    """
    taken = 1.0 - kept
    few = taken < _LEAST_TAKEN
    var = np.divide(taken, np.square(root), out=np.empty(len(root)), where=~few)
    if few.any():
        half = trsm(L_B, np.asfortranarray(K[:, few] * root[:, None]), overwrite=True)
        var[few] = np.maximum(K.diagonal()[few] - np.einsum("ij,ij->j", half, half), 0.0)
    return var
