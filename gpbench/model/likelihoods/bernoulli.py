"""Bernoulli likelihoods of binary classification: logit p(y=1|f) = σ(f) and probit Φ(f).

First the scalar functions that they and others are made of, in forms that lose no digits: series near removable
singularities, ``erfcx`` and ``log1p`` in the tails. Relative accuracies in their docstrings were measured against
50-digit values.

Labels come as 0 and 1; inside, s = 2y - 1 is -1 or +1 and p(y|f) = p(1|s f). Expectations follow the rule of
:mod:`gpbench.model.quadrature`.

Predictive probabilities of the logit are logistic-normal integrals p(a, s) = E σ(f), f ~ N(-a, s). Fixed Gauss-Hermite
rules fail once √s is a few times the width of σ (64 nodes: 1e-3 at s = 1e4). Four facts give 11 digits at all (a, s),
for less:

1. σ(f) = e^f σ(-f), hence p(a, s) = e^(s/2 - a) p(s - a, s): only a <= s/2 is ever integrated, where p is not tiny,
   and what is tiny comes out in logarithms.
2. The trapezoid rule converges geometrically for integrands analytic in a strip (Trefethen and Weideman 2014); σ has
   its poles at ±iπ. With step η in units of √s, its nodes taken in pairs ±qη and
   σ(-a+x) + σ(-a-x) = 1 - sinh(a) / (cosh(a) + cosh(x)),

       p = 1/2 - sinh(a)/2 Σ_q w_q / (cosh(a) + c_q),   c_q = cosh(qη√s),   w_q ∝ exp(-(qη)²/2).

3. c_(q+1) = 2 c_1 c_q - c_(q-1), so that a pair costs one division and four cheap operations and no exponential.
4. For large s the roles swap: E σ(f) = P(f > ε), ε logistic, = E Φ(-(a + ε)/√s), whose integrand is nearly linear
   there; 16 Gauss nodes for the logistic law suffice.

The number of pairs depends on s alone, in tiers; a row's value never depends on its neighbours.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import special
from scipy.linalg import eigh_tridiagonal

from gpbench.model.likelihoods.base import Likelihood, Prediction, Score, check_classes, require_binary
from gpbench.model.quadrature import concave_expectations

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels

__all__ = [
    "Bernoulli",
    "Logit",
    "Probit",
    "dlambda_jj",
    "lambda_jj",
    "log_cosh_half",
    "log_ndtr",
    "log_sigmoid",
    "log_sigmoid_and_slope",
    "log_tail",
    "mills",
    "probit_curvature",
    "sigmoid",
    "theta_pg",
]

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_SQRT_HALF = math.sqrt(0.5)


def sigmoid(z: Array) -> Array:
    """Logistic function 1 / (1 + exp(-z))."""
    return np.asarray(special.expit(z))


def log_sigmoid(z: Array) -> Array:
    """Logarithm of the logistic function."""
    return np.asarray(-np.logaddexp(0.0, np.negative(z)))


def log_sigmoid_and_slope(z: Array) -> tuple[Array, Array]:
    """Give log σ(z) and its derivative σ(-z) together, for 0.6 of the time, from one exponential of -|z|.

    The logarithm is good to 1e-16 absolutely, not relatively: enough for expectations.
    """
    t = np.abs(z)
    np.negative(t, out=t)
    np.exp(t, out=t)
    u = t + 1.0
    slope = np.where(z > 0.0, t, 1.0)
    slope /= u
    np.log(u, out=u)
    return np.subtract(np.minimum(z, 0.0), u, out=u), slope


def log_ndtr(z: Array) -> Array:
    """Logarithm of the standard normal distribution function."""
    return np.asarray(special.log_ndtr(z))


def mills(z: Array) -> Array:
    """Ratio φ(z)/Φ(z) of the standard normal density and distribution function; 1e-14 relative, 0 for large z."""
    return np.asarray(_SQRT_2_OVER_PI / special.erfcx(-_SQRT_HALF * np.asarray(z)))


def probit_curvature(z: Array) -> Array:
    """Negative second derivative of log Φ: r (z + r) with r = φ(z)/Φ(z), in (0, 1); 4e-12 relative on [-1e6, 36].

    One minus it is the variance of a unit normal with mean z cut to positive values.
    """
    z = np.asarray(z, dtype=np.float64)
    r = mills(z)
    far = z < -150.0
    if not far.any():
        return np.asarray(r * (z + r))
    inverse = np.where(far, z, -150.0) ** -2.0
    near, r = np.where(far, 0.0, z), np.where(far, 1.0, r)
    return np.where(far, 1.0 - inverse * (1.0 - inverse * (6.0 - 50.0 * inverse)), r * (near + r))


def theta_pg(c: Array) -> Array:
    """Mean tanh(c/2) / (2c) of the Pólya-Gamma law PG(1, c); even in c, 1/4 at 0 (wenzel2019, θ)."""
    c = np.maximum(np.abs(c), 1e-100)  # nothing cancels in tanh(x)/x; only 0/0 is to be avoided
    return np.asarray(np.tanh(0.5 * c) / (2.0 * c))


def lambda_jj(xi: Array) -> Array:
    """Coefficient tanh(ξ/2) / (4ξ) of the Jaakkola-Jordan bound (izmailov2016 prints tanh(ξ), a slip)."""
    return np.asarray(0.5 * theta_pg(xi))


def dlambda_jj(xi: Array) -> Array:
    """Derivative of :func:`lambda_jj`; odd in ξ; 1e-9 relative."""
    x = np.abs(np.asarray(xi, dtype=np.float64))
    near = x <= 0.05
    safe = np.where(near, 1.0, x)
    far = 1.0 / (8.0 * safe * np.cosh(np.minimum(0.5 * safe, 350.0)) ** 2) - np.tanh(0.5 * safe) / (4.0 * safe * safe)
    small = np.where(near, x, 0.0)
    square = small * small
    series = small * (-1.0 / 48.0 + square * (1.0 / 240.0 - square * (17.0 / 26880.0)))
    return np.asarray(np.sign(xi) * np.where(near, series, far))


def log_cosh_half(c: Array) -> Array:
    """Logarithm of cosh(c/2), even in c; keeps relative accuracy near 0 through log1p(2 sinh²(c/4))."""
    c = np.abs(np.asarray(c, dtype=np.float64))
    near = np.log1p(2.0 * np.sinh(0.25 * np.minimum(c, 4.0)) ** 2)
    return np.where(c < 4.0, near, 0.5 * c + np.log1p(np.exp(-c)) - math.log(2.0))


# largest s, range of the trapezoid rule in units of √s, pairs of nodes: the fewest with 1e-11 relative error, measured
_TIERS = ((1.0, 7.0, 11), (4.0, 7.0, 20), (9.0, 7.0, 30), (25.0, 7.4, 52), (64.0, 8.0, 90))
_LOGISTIC_NODES = 16
_BLOCK = 4096  # six vectors of this length fit the level-two cache
_FAR = 500.0  # σ(500) is 1 and cosh(500) still a float64


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """Two classes and a symmetric link.

    Parameters
    ----------
    nodes : int
        Gauss-Hermite nodes of ``expectations``; 20 is what GPy and GPflow use.
    """

    nodes: int = 20
    tasks: ClassVar[frozenset[str]] = frozenset({"binary"})

    @abstractmethod
    def _log_link(self, z: Array) -> Array:
        """Log p(1 | z)."""

    @abstractmethod
    def _slope(self, z: Array) -> Array:
        """Derivative of log p(1 | z)."""

    def _log_link_and_slope(self, z: Array) -> tuple[Array, Array]:
        """Both at once, for expectations."""
        return self._log_link(z), self._slope(z)

    @abstractmethod
    def _curvature(self, z: Array) -> Array:
        """Second derivative of log p(1 | z)."""

    @abstractmethod
    def _third(self, z: Array) -> Array:
        """Third derivative of log p(1 | z)."""

    @abstractmethod
    def _log_smaller(self, mean: Array, var: Array) -> Array:
        """Log predictive probability of the less probable class, from latent mean and variance, all of shape (n,)."""

    def spec(self) -> dict[str, Any]:
        """Name and parameters as JSON can hold them; ``likelihood_from_spec`` reads them."""
        return {"name": self.name, "nodes": self.nodes}

    def n_latent(self, classes: int) -> int:
        """One latent function.

        Raises
        ------
        UsageError
            There are not two classes.
        """
        require_binary(self.name, classes)
        return 1

    def check_targets(self, y: Labels, classes: int) -> None:
        """Check that there are two classes and that the labels are 0 and 1 (one of them may be absent).

        Raises
        ------
        UsageError
            There are not two classes.
        DataError
            A label is neither 0 nor 1.
        """
        require_binary(self.name, classes)
        check_classes(y, classes)

    def log_density(self, y: Labels, f: Array) -> Array:
        """Log p(y | f), shape (n,)."""
        return self._log_link(_signs(y) * f)

    def derivatives(self, y: Labels, f: Array) -> tuple[Array, Array]:
        """First and second derivative of log p(y | f) in f, each of shape (n,)."""
        s = _signs(y)
        z = s * f
        return s * self._slope(z), self._curvature(z)

    def log_density_and_slope(self, y: Labels, f: Array) -> tuple[Array, Array]:
        """Log p(y | f) and its first derivative in f at nodes f (Q, n), each of that shape, in the type of f."""
        s = _signs(y).astype(f.dtype)
        value, slope = self._log_link_and_slope(s * f)
        slope *= s
        return value, slope

    def third_derivative(self, y: Labels, f: Array) -> Array:
        """Third derivative of log p(y | f) in f, shape (n,)."""
        s = _signs(y)
        return s * self._third(s * f)

    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:
        """E ℓ under f ~ N(mu, var) and its derivatives e, g, h, each of shape (n,); walk over blocks for many rows."""
        s = _signs(y)
        e, g, h = concave_expectations(self._log_link_and_slope, self._curvature, s * mu, var, nodes=self.nodes)
        return e, s * g, h

    def predict(self, mean: Array, var: Array) -> Prediction:
        """Class and probabilities (n, 2) from the latent mean and variance, each of shape (n, 1)."""
        smaller = np.exp(self._log_smaller(mean[:, 0], var[:, 0]))
        return Prediction(_classes(mean), _probabilities(mean, smaller))

    def log_predictive(self, y: Labels, mean: Array, var: Array) -> Array:
        """Log predictive probability of the observed class, shape (n,).

        The less probable class comes directly from its tail; the other one by ``log1p(-p)``, which loses nothing as
        p <= 1/2.
        """
        log_smaller = self._log_smaller(mean[:, 0], var[:, 0])
        return _observed(y, mean, log_smaller, np.exp(log_smaller))

    def point(self, mean: Array, var: Array) -> Labels:  # noqa: ARG002 - the sign of the mean decides
        """Predicted class, shape (n,): 1 where the latent mean is positive, as both links are symmetric."""
        return _classes(mean)

    def error(self, y: Labels, point: Labels) -> Array:
        """Zero-one error, shape (n,)."""
        return np.not_equal(y, point).astype(np.float64)

    def score(self, y: Labels, mean: Array, var: Array) -> Score:
        """Log predictive probability, error and probabilities; the integral is computed once for all three."""
        log_smaller = self._log_smaller(mean[:, 0], var[:, 0])
        smaller = np.exp(log_smaller)
        log_density = _observed(y, mean, log_smaller, smaller)
        return Score(log_density, self.error(y, _classes(mean)), _probabilities(mean, smaller))


@dataclass(frozen=True)
class Logit(Bernoulli):
    """p(y=1|f) = 1 / (1 + exp(-f))."""

    name: ClassVar[str] = "logit"

    def _log_link(self, z: Array) -> Array:
        return log_sigmoid(z)

    def _slope(self, z: Array) -> Array:
        return sigmoid(-z)

    def _log_link_and_slope(self, z: Array) -> tuple[Array, Array]:
        return log_sigmoid_and_slope(z)

    def _curvature(self, z: Array) -> Array:
        return -sigmoid(z) * sigmoid(-z)

    def _third(self, z: Array) -> Array:
        p, q = sigmoid(z), sigmoid(-z)
        return p * q * (p - q)

    def _log_smaller(self, mean: Array, var: Array) -> Array:
        return log_tail(np.abs(mean), var)


@dataclass(frozen=True)
class Probit(Bernoulli):
    """p(y=1|f) = Φ(f), the standard normal distribution function."""

    name: ClassVar[str] = "probit"

    def _log_link(self, z: Array) -> Array:
        return log_ndtr(z)

    def _slope(self, z: Array) -> Array:
        return mills(z)

    def _curvature(self, z: Array) -> Array:
        return -probit_curvature(z)

    def _third(self, z: Array) -> Array:
        r = mills(z)
        return r * ((z + r) * (z + 2.0 * r) - 1.0)  # of -r (z + r), as r' = -r (z + r)

    def _log_smaller(self, mean: Array, var: Array) -> Array:
        return log_ndtr(-np.abs(mean) / np.sqrt(1.0 + var))  # the convolution of Φ with a normal law is Φ again


def _signs(y: Labels) -> Array:
    return 2.0 * np.asarray(y) - 1.0


def _classes(mean: Array) -> Labels:
    return (mean[:, 0] > 0.0).astype(np.int64)


def _probabilities(mean: Array, smaller: Array) -> Array:
    larger = 1.0 - smaller
    positive = mean[:, 0] > 0.0
    p = np.empty((len(smaller), 2))
    p[:, 0] = np.where(positive, smaller, larger)
    p[:, 1] = np.where(positive, larger, smaller)
    return p


def _observed(y: Labels, mean: Array, log_smaller: Array, smaller: Array) -> Array:
    return np.where(np.asarray(y) == _classes(mean), np.log1p(-smaller), log_smaller)


def log_tail(a: Array, s: Array) -> Array:
    """Logarithm of E σ(f), f ~ N(-a, s).

    Absolute error of the probability below 1e-11, relative error below 2e-11 (up to s = 1e4), also where the
    probability underflows.

    Parameters
    ----------
    a : (n,)
        Negative means.
    s : (n,)
        Variances, not negative. Where a or s is NaN, so is the result.
    """
    result = np.empty(a.shape)
    for start in range(0, a.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        result[part] = _block(a[part], s[part])
    return result


def _block(a: Array, s: Array) -> Array:
    folded = a > 0.5 * s
    b = np.maximum(np.where(folded, s - a, a), -_FAR)
    tier = np.searchsorted([limit for limit, _, _ in _TIERS], s)
    first = int(tier[0])
    if (tier == first).all():  # the common case, without gathering
        log_p = _integral(b, s, first)
    else:
        log_p = np.empty(a.shape)
        for level in np.unique(tier).tolist():
            rows = np.flatnonzero(tier == level)
            log_p[rows] = _integral(b[rows], s[rows], level)
    log_p += np.where(folded, 0.5 * s - a, 0.0)
    return log_p


def _integral(b: Array, s: Array, tier: int) -> Array:
    if tier == len(_TIERS):
        return _swapped(b, s)
    _, reach, pairs = _TIERS[tier]
    return _trapezoid(b, s, reach=reach, pairs=pairs)


def _trapezoid(b: Array, s: Array, *, reach: float, pairs: int) -> Array:
    weights = _trapezoid_weights(reach, pairs)
    centre = np.cosh(b)
    before = np.ones_like(b)
    cosh = np.cosh((reach / pairs) * np.sqrt(s))
    twice = 2.0 * cosh
    total = weights[0] / (centre + 1.0)
    work = np.empty_like(b)
    for weight in weights[1:]:
        np.add(centre, cosh, out=work)
        np.divide(weight, work, out=work)
        np.add(total, work, out=total)
        np.multiply(twice, cosh, out=work)
        np.subtract(work, before, out=before)
        before, cosh = cosh, before
    np.multiply(np.sinh(b), total, out=total)
    return np.log(0.5 - 0.5 * total)


def _swapped(b: Array, s: Array) -> Array:
    nodes, weights = _logistic_rule(_LOGISTIC_NODES)
    logs = special.log_ndtr((-b - nodes[:, None]) / np.sqrt(s))
    top = logs.max(axis=0)
    return np.asarray(top + np.log(weights @ np.exp(logs - top)))


@lru_cache(maxsize=16)
def _trapezoid_weights(reach: float, pairs: int) -> tuple[float, ...]:
    t = reach / pairs * np.arange(pairs + 1)
    w = np.exp(-0.5 * t * t)
    w[0] *= 0.5
    return tuple((w / w.sum()).tolist())


@lru_cache(maxsize=4)
def _logistic_rule(Q: int) -> tuple[Array, Array]:
    """Gauss rule for the standard logistic density by Golub and Welsch.

    Its orthogonal polynomials are continuous Hahn polynomials with parameters 1/2, with the three-term coefficients
    π² n⁴ / (4n² - 1).
    """
    n = np.arange(1.0, Q)
    nodes, vectors = eigh_tridiagonal(np.zeros(Q), math.pi * n * n / np.sqrt(4.0 * n * n - 1.0))
    return np.asarray(nodes, dtype=np.float64), np.asarray(vectors[0] ** 2, dtype=np.float64)
