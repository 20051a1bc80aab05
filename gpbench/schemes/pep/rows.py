"""What power EP does with a row: its cavity, its tilted integral with derivatives, its site, its share of the energy.

=========  ==================================================================================  =======
symbol     meaning                                                                             shape
=========  ==================================================================================  =======
a          the power (α in the paper), 0 to 1                                                  scalar
c, d       a row's site exp(c f - ½ d f²), d >= 0                                              (n,)
μ, r, k̃    mean of q(f), its variance through u, and what u leaves of the prior variance       (n,)
u          1 - a d r: how much of q is left where a of the site is taken away                   (n,)
m⁻, s      mean and variance of the cavity, q without a of the site; s = r/u + k̃                (n,)
e          (1/a) log ∫ p(y|f)ᵃ N(f; m⁻, s) df, the log of the tilted normaliser                 (n,)
g, h       ∂e/∂m⁻ and ∂e/∂s                                                                    (n,)
N          2 c μ - d μ² - a c² r                                                               (n,)
=========  ==================================================================================  =======

The three steps of power EP (Bui, Yan and Turner 2017, section 3): 1. deletion, which gives the cavity; 2. projection:
the moments of the tilted distribution are matched, for which the derivatives g and h suffice; 3. update: the new site
is what the match adds to the cavity, divided by a. For a <= 1/2 the cavity is never far from q, 1/2 < u <= 1, and for a
log-concave likelihood 0 <= β s < 1, so that all rows can be updated at once and without damping.

For a = 0 the tilted integral becomes the expectation of log p, the site d = -2h, c = g - 2hμ, and the energy the bound
of the sparse KL method: the update is then a step of length 1 along the natural gradient (Khan and Lin 2017).

Integrals are by Gauss-Hermite quadrature, and g and h are the derivatives of the quadrature, not of the integral, so
that the gradient of the energy is exact. Twelve nodes do not keep β s below 1 where s is above 30 or so; rows in which
one of the two clips would act are integrated again with 64, and what is clipped then is counted.

A count of y makes p(y|f) narrower the larger it is, so that it falls between the cavity's nodes (y = 30, s = 1: e is
off by 2, and a search climbs such errors). Of counts the nodes lie about the mode of p(y|f)ᵃ N(f; m⁻, s), as wide as
the curvature there says, and g and h are those of the integral, since nodes that move have derivatives of their own: 20
of them leave 4e-7 at s = 1 and 5e-4 at s = 5, less the larger the count.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpbench.model.likelihoods import Bernoulli, Gaussian, Poisson, Probit, RobustMax
from gpbench.model.likelihoods.bernoulli import log_ndtr, mills
from gpbench.model.likelihoods.multiclass import argmax_probability
from gpbench.model.quadrature import hermite

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels

__all__ = ["Cavity", "Energies", "Tilted", "cavity", "energies", "first_sites", "free_gradient", "matched", "tilted"]

NODES = 12
NODES_OF_COUNTS = 20
FINE_NODES = 64
NEWTON_STEPS = 20
WIDE = 0.1
"""Precision of the prior under which a row's mode is looked for where there are more than two outcomes."""
LEAST_LEFT = 1e-6
"""Least u and least 1 - β r/u: at a = 1 a site may hold all that is known of its row."""


class Cavity(NamedTuple):
    """u, m⁻, s and r/u of rows, each (n,)."""

    u: Array
    mean: Array
    var: Array
    through: Array


class Tilted(NamedTuple):
    """e, g and h of rows, each (n,)."""

    e: Array
    g: Array
    h: Array


class Energies(NamedTuple):
    """A block's part of the energy, and its derivatives in what q says of the rows, sites held.

    Attributes
    ----------
    value : float
        Σ e - N/(2u) - log(u)/(2a) (nats); for a = 0 Σ e - N/2 + d r/2.
    by_mean, by_var : (n,)
        ∂/∂μ and ∂/∂r, beyond what the sites' own part of the energy gives: both are 0 at EP's fixed point.
    """

    value: float
    by_mean: Array
    by_var: Array


def cavity(c: Array, d: Array, *, mu: Array, r: Array, rest: Array, power: float) -> Cavity:
    """Q without ``power`` of each row's own site; ``rest`` is k̃."""
    u = np.maximum(1.0 - power * d * r, LEAST_LEFT)
    through = r / u
    return Cavity(u, (mu - power * c * r) / u, through + rest, through)


def tilted(
    likelihood: Likelihood, y: Labels, at: Cavity, *, power: float, nodes: int = NODES, single: bool = False
) -> Tilted:
    """The tilted integral and its derivatives; in closed form where there is one.

    Parameters
    ----------
    likelihood : Likelihood
    y : (n,)
    at : Cavity
    power : float
    nodes : int
        Of the quadrature.
    single : bool
        Whether float32 will do for what is computed at the nodes, where the likelihood can.
    """
    mean, var = at.mean, at.var
    if power == 0.0:
        e, g, h = likelihood.expectations(y, mean.T, var.T)
        return Tilted(e, g.T, h.T)
    if isinstance(likelihood, RobustMax):
        P, by_mean, by_var = argmax_probability(y, mean.T, likelihood.noise + var.T, rule="hermite", nodes=2 * nodes)
        right, wrong = (math.exp(power * level) for level in likelihood.log_levels(len(mean)))
        total = wrong + (right - wrong) * P
        weight = (right - wrong) / (power * total)
        return Tilted(np.log(total) / power, weight * by_mean.T, weight * by_var.T)
    if isinstance(likelihood, Gaussian):
        wide = likelihood.variance / power + var  # N(y; f, v)ᵃ is N(y; f, v/a) times what does not depend on f
        residual = (y - mean) / wide
        e = -0.5 * (np.log(wide * power / likelihood.variance) + residual * residual * wide) / power
        e -= 0.5 * np.log(2.0 * np.pi * likelihood.variance)
        return Tilted(e, residual / power, 0.5 * (residual * residual - 1.0 / wide) / power)
    if power == 1.0 and isinstance(likelihood, Probit):
        signs, total = 2.0 * np.asarray(y) - 1.0, 1.0 + var
        z = signs * mean / np.sqrt(total)
        ratio = mills(z)
        return Tilted(log_ndtr(z), signs * ratio / np.sqrt(total), -0.5 * z * ratio / total)
    if isinstance(likelihood, Poisson):
        return _tilted_counts(likelihood, y, at, power=power, nodes=max(nodes, NODES_OF_COUNTS))
    dtype: Any = np.float32 if single and isinstance(likelihood, Bernoulli) else np.float64
    x, weights = hermite(nodes)
    root = np.sqrt(var)
    f = root.astype(dtype) * x.astype(dtype)[:, None]
    f += mean.astype(dtype)
    p, slope = likelihood.log_density_and_slope(y, f)
    p *= power
    top = p.max(axis=0)
    p -= top
    np.exp(p, out=p)
    sums = np.stack([weights, weights * x]).astype(dtype)
    total = (sums[0] @ p).astype(np.float64)
    p *= slope
    g, h = (sums @ p) / total
    return Tilted((top + np.log(total)) / power, g, h / (2.0 * root))


def _tilted_counts(likelihood: Poisson, y: Labels, at: Cavity, *, power: float, nodes: int) -> Tilted:
    """The same by nodes about each row's own mode."""
    mean, var = at.mean, at.var
    mode, curvature = likelihood.tilted_mode(y, mean, var, power=power)
    x, weights = hermite(nodes)
    x = x[:, None]
    f = mode + x / np.sqrt(curvature)
    apart = f - mean
    p, slope = likelihood.log_density_and_slope(y, f)
    p = power * p - 0.5 * (apart * apart / var - x * x)
    top = p.max(axis=0)
    p = weights[:, None] * np.exp(p - top)
    total = p.sum(axis=0)
    p *= slope / total
    e = (top + np.log(total) - 0.5 * np.log(var * curvature)) / power
    return Tilted(e, p.sum(axis=0), (p * apart).sum(axis=0) / (2.0 * var))


def matched(
    likelihood: Likelihood, y: Labels, at: Cavity, *, power: float, single: bool = False
) -> tuple[Array, Array, int]:
    """The sites that match the tilted moments: c, d, and in how many rows a clip acted.

    For log-concave likelihoods and exact integrals 0 <= β s < 1, and no clip ever acts.
    """
    found = tilted(likelihood, y, at, power=power, single=single)
    if power == 0.0:
        d = -2.0 * found.h
        kept = np.maximum(d, 0.0)
        return found.g + kept * at.mean, kept, len(_clipped(d, np.ones_like(d)))
    beta, keep = _beta(found, at, power=power)
    clipped = 0
    wrong = _clipped(beta, keep)
    if wrong.size:
        part = Cavity(*(each[..., wrong] for each in at))
        finer = tilted(likelihood, np.asarray(y)[wrong], part, power=power, nodes=FINE_NODES)
        beta[..., wrong], keep[..., wrong] = _beta(finer, part, power=power)
        found.g[..., wrong] = finer.g
        clipped = len(_clipped(beta, keep))
        np.maximum(beta, 0.0, out=beta)
        keep = np.maximum(1.0 - beta * at.through, LEAST_LEFT)
    keep *= power
    return (power * found.g + beta * at.mean) / keep, beta / keep, clipped


def _clipped(beta: Array, keep: Array) -> npt.NDArray[np.int64]:
    """Numbers of the rows in which a clip would act, in any latent function."""
    wrong = ~((beta >= 0.0) & (keep > LEAST_LEFT))
    return np.flatnonzero(wrong if wrong.ndim == 1 else wrong.any(axis=0))


def _beta(found: Tilted, at: Cavity, *, power: float) -> tuple[Array, Array]:
    """β = -∂² (a e)/∂m⁻², and 1 - β r/u."""
    beta = np.square(power * found.g) - 2.0 * power * found.h
    return beta, 1.0 - beta * at.through


def energies(found: Tilted, at: Cavity, *, c: Array, d: Array, mu: Array, r: Array, power: float) -> Energies:
    """The rows' part of the energy and its derivatives, sites held."""
    u, (e, g, h) = at.u, found
    N = c * (2.0 * mu) - d * (mu * mu) - (power * r) * (c * c)
    slack = d * mu - c
    by_mean = (g + slack) / u
    by_var = (power * g * slack / u + h / u + 0.5 * power * c * c + 0.5 * d - 0.5 * power * d * N / u) / u
    value = float(e.sum()) - 0.5 * float((N / u).sum())
    if power == 0.0:
        value += 0.5 * float(np.vdot(d, r))
    else:
        value -= 0.5 * float(np.log(u).sum()) / power
    return Energies(value, by_mean, by_var)


def first_sites(likelihood: Likelihood, y: Labels, mean: float) -> tuple[Array, Array]:
    """The sites c and d that Laplace's method sets at each row's own mode under a wide prior (logit: c = y/2, d = 1/4).

    Newton's steps in f - mean, shortened to 1, from 0; with two classes that is the one step from there, since the mode
    says nothing of a label.
    """
    f = np.zeros(len(y))
    steps = 0 if isinstance(likelihood, Bernoulli) else NEWTON_STEPS
    for _ in range(steps):
        slope, curvature = likelihood.derivatives(y, f + mean)
        step = (slope - WIDE * f) / (WIDE - curvature)
        f += np.clip(step, -1.0, 1.0)
    slope, curvature = likelihood.derivatives(y, f + mean)
    return slope - curvature * f, -np.minimum(curvature, 0.0)


def free_gradient(likelihood: Likelihood, y: Labels, at: Cavity, *, power: float) -> Array:
    """Derivatives Σ ∂e/∂ψ in the likelihood's own parameters, shape (k,)."""
    if power == 0.0:
        return likelihood.free_gradient(y, at.mean, at.var)
    if isinstance(likelihood, Gaussian):
        own = likelihood.variance / power
        wide = own + at.var
        by_log = (np.square(y - at.mean) / wide - 1.0) * own / wide + 1.0
        return np.array([0.5 * float((by_log / power - 1.0).sum())])
    x, weights = hermite(NODES)
    f = at.mean + np.sqrt(at.var) * x[:, None]
    p = power * likelihood.log_density(y, f)
    p -= p.max(axis=0)
    np.exp(p, out=p)
    p *= weights[:, None]
    p /= p.sum(axis=0)
    by_node = likelihood.free_derivatives(np.tile(y, len(x)), f.ravel())[0]
    return np.asarray(by_node @ p.ravel())
