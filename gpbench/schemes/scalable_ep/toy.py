"""EP and SEP for one unknown, to see what a tied factor does (villacampa2017, section 2.3.1 and figure 2).

=========  ====================================================================================  =====
symbol     meaning                                                                               shape
=========  ====================================================================================  =====
θ          the unknown, prior N(0, v₀)
φ_i        factor Φ((θ - b_i) / w_i); a step down where w_i < 0                                   (n,)
τ_i, ν_i   precision, and precision times mean, of the site φ̃_i                                  (n,)
q          N(ν/τ, 1/τ) with τ = 1/v₀ + Σ τ_i, ν = Σ ν_i
=========  ====================================================================================  =====

EP keeps a site for each factor. SEP keeps their product alone: the cavity takes away the n-th root of it, and each
factor's new site moves the root by an n-th (Li, Hernández-Lobato and Turner 2015). Moments under a cavity are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr

from gpbench.errors import UsageError

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Sites", "exact_density", "factor_values", "settle"]

_MOST = 5000
_SETTLED = 1e-12
_DAMPING = 0.5


@dataclass(frozen=True, eq=False)
class Sites:
    """The approximation that EP or SEP settled at.

    Attributes
    ----------
    tau, nu : (n,)
        Of the sites; all the same for SEP.
    mean, variance : float
        Of q.
    """

    tau: Array
    nu: Array
    mean: float
    variance: float


def settle(centres: Array, widths: Array, *, prior_variance: float, tied: bool) -> Sites:
    """Iterate EP (``tied`` False) or SEP to their fixed point.

    Parameters
    ----------
    centres, widths : (n,)
        b and w; no width is 0.
    prior_variance : float
    tied : bool

    Raises
    ------
    UsageError
        Numbers out of range, or no fixed point is reached.
    """
    b, w = np.asarray(centres, dtype=np.float64), np.asarray(widths, dtype=np.float64)
    if b.ndim != 1 or b.shape != w.shape or not len(b) or not w.all() or not prior_variance > 0:
        raise UsageError(
            "expected as many centres as widths, none of them 0, and a positive prior variance; "
            f"got {b.tolist()}, {w.tolist()} and {prior_variance}"
        )
    tau, nu = np.zeros(len(b)), np.zeros(len(b))
    for _ in range(_MOST):
        rest_tau, rest_nu = 1.0 / prior_variance + tau.sum() - tau, nu.sum() - nu
        new_tau, new_nu = _sites(b, w, rest_tau, rest_nu)
        if tied:
            new_tau, new_nu = np.full(len(b), new_tau.mean()), np.full(len(b), new_nu.mean())
        moved = max(float(np.abs(new_tau - tau).max()), float(np.abs(new_nu - nu).max()))
        tau, nu = tau + _DAMPING * (new_tau - tau), nu + _DAMPING * (new_nu - nu)
        if moved < _SETTLED:
            precision = 1.0 / prior_variance + float(tau.sum())
            return Sites(tau, nu, float(nu.sum()) / precision, 1.0 / precision)
    raise UsageError(f"{'SEP' if tied else 'EP'} has not settled after {_MOST} iterations: last change {moved:.3g}")


def factor_values(theta: Array, centre: float, width: float) -> Array:
    """Φ((θ - b) / w) at points (k,)."""
    values: Array = np.exp(log_ndtr((theta - centre) / width))
    return values


def exact_density(theta: Array, centres: Array, widths: Array, *, prior_variance: float) -> Array:
    """The posterior density at evenly spaced points (k,), normalised over them."""
    log = -0.5 * theta**2 / prior_variance
    for b, w in zip(centres, widths, strict=True):
        log = log + log_ndtr((theta - b) / w)
    density = np.exp(log - log.max())
    found: Array = density / (density.sum() * (theta[1] - theta[0]))
    return found


def _sites(b: Array, w: Array, tau: Array, nu: Array) -> tuple[Array, Array]:
    """Sites whose products with the cavities N(ν/τ, 1/τ) have the moments of the tilted distributions."""
    mean, var = nu / tau, 1.0 / tau
    scale = np.sqrt(w**2 + var)
    sign = np.sign(w)
    z = sign * (mean - b) / scale
    ratio = np.exp(-0.5 * z**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(z))
    tilted_mean = mean + var * sign * ratio / scale
    tilted_var = var - var**2 * ratio * (z + ratio) / scale**2
    return 1.0 / tilted_var - tau, tilted_mean / tilted_var - nu
