"""Bernoulli likelihoods of binary classification: logit p(y=1|f) = σ(f) and probit Φ(f).

Labels come as 0 and 1; inside, s = 2y - 1 is -1 or +1 and p(y|f) = p(1|s f). The expectations follow one rule for all
(hensman2015 (22) and below, with the derivative in the variance taken of the quadrature rule itself):

    e = Σ w ℓ(f_q),  g = Σ w ℓ'(f_q),  h = Σ w t_q ℓ'(f_q) / (2 √var),  f_q = mu + √var t_q.

h is then the exact derivative of the e that is computed, needs no second derivative, and is never positive.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpbench.model.functions import log_ndtr, log_sigmoid, log_sigmoid_and_slope, mills, probit_curvature, sigmoid
from gpbench.model.likelihoods.base import Likelihood, Prediction, Score, check_classes, require_binary
from gpbench.model.likelihoods.logistic_normal import log_tail
from gpbench.model.quadrature import hermite

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels

__all__ = ["Bernoulli", "Logit", "Probit"]

_SMALL_VARIANCE = 1e-8
"""Below it h is ℓ''(mu)/2: the quotient by √var loses its digits."""


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

    def third_derivative(self, y: Labels, f: Array) -> Array:
        """Third derivative of log p(y | f) in f, shape (n,)."""
        s = _signs(y)
        return s * self._third(s * f)

    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:
        """E ℓ under f ~ N(mu, var) and its derivatives e, g, h, each of shape (n,); walk over blocks for many rows."""
        nodes, weights = hermite(self.nodes)
        s = _signs(y)
        z = s * mu
        root = np.sqrt(var)
        points = z[:, None] + root[:, None] * nodes
        values, slopes = self._log_link_and_slope(points)
        e = values @ weights
        g = s * (slopes @ weights)
        small = var < _SMALL_VARIANCE
        h = slopes @ (weights * nodes) / (2.0 * np.where(small, 1.0, root))
        if small.any():
            h[small] = 0.5 * self._curvature(z[small])
        return e, g, np.minimum(h, 0.0, out=h)  # rounding, where the link saturates

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
