"""Gaussian likelihood, of counts taken as numbers and of real numbers: p(y | f) = N(y | f, v) (sheth2015, table 1).

e = log N(y | mu, v) - var/(2v),    g = (y - mu)/v,    h = -1/(2v),    ψ = log v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpbench.errors import DataError, UsageError
from gpbench.model.likelihoods.base import Likelihood, Prediction, check_no_classes, fractional_error

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels

__all__ = ["Gaussian"]

_LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """Numbers with normal noise.

    Parameters
    ----------
    variance : float
        v > 0.

    Raises
    ------
    UsageError
        A variance that is not positive.
    """

    variance: float = 1.0
    name: ClassVar[str] = "gaussian"
    tasks: ClassVar[frozenset[str]] = frozenset({"count"})

    def __post_init__(self) -> None:
        if not 0 < self.variance < np.inf:
            raise UsageError(f"the variance of a Gaussian likelihood must be positive and finite; got {self.variance}")

    def spec(self) -> dict[str, Any]:
        """Name and parameters as JSON can hold them; ``likelihood_from_spec`` reads them."""
        return {"name": self.name, "variance": float(self.variance)}

    @property
    def free(self) -> Array:
        """The logarithm of the variance, shape (1,)."""
        return np.array([math.log(self.variance)])

    @property
    def free_names(self) -> tuple[str, ...]:
        """``log_variance``."""
        return ("log_variance",)

    def with_free(self, values: Array) -> Gaussian:
        """The same likelihood with another log variance, shape (1,).

        Raises
        ------
        UsageError
            Wrong number of parameters.
        """
        if np.shape(values) != (1,):
            raise UsageError(f"a Gaussian likelihood has one parameter; got shape {np.shape(values)}")
        return Gaussian(math.exp(values[0]))

    def n_latent(self, classes: int) -> int:
        """One latent function.

        Raises
        ------
        UsageError
            There are classes.
        """
        check_no_classes(self.name, classes)
        return 1

    def check_targets(self, y: Labels, classes: int) -> None:
        """Check that the targets are finite numbers.

        Raises
        ------
        UsageError
            There are classes.
        DataError
            A target is not finite.
        """
        check_no_classes(self.name, classes)
        y = np.asarray(y)
        if y.ndim != 1 or not np.isfinite(y).all():
            raise DataError(f"targets of a Gaussian likelihood must be a vector of finite numbers; got {y}")

    def log_density(self, y: Labels, f: Array) -> Array:
        """Log p(y | f), shape (n,)."""
        return -0.5 * (_LOG_2PI + math.log(self.variance) + np.square(y - f) / self.variance)

    def derivatives(self, y: Labels, f: Array) -> tuple[Array, Array]:
        """First and second derivative of log p(y | f) in f, each of shape (n,)."""
        return (y - f) / self.variance, np.full(len(f), -1.0 / self.variance)

    def third_derivative(self, y: Labels, f: Array) -> Array:  # noqa: ARG002 - zero
        """Third derivative of log p(y | f) in f, shape (n,): zero."""
        return np.zeros(len(f))

    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:
        """E ℓ under f ~ N(mu, var) and its derivatives e, g, h, each of shape (n,)."""
        g, curvature = self.derivatives(y, mu)
        return self.log_density(y, mu) - 0.5 * var / self.variance, g, 0.5 * curvature

    def free_gradient(self, y: Labels, mu: Array, var: Array) -> Array:
        """Derivative Σ_n ∂e_n/∂log v of the ``expectations``, shape (1,)."""
        return np.array([0.5 * float(((np.square(y - mu) + var) / self.variance - 1.0).sum())])

    def free_derivatives(self, y: Labels, f: Array) -> tuple[Array, Array, Array]:
        """Derivatives in log v of ℓ and of its first and second derivative in f, each of shape (1, n)."""
        residual = (y - f) / self.variance
        first = 0.5 * (residual * (y - f) - 1.0)
        return first[None], -residual[None], np.full((1, len(f)), 1.0 / self.variance)

    def predict(self, mean: Array, var: Array) -> Prediction:  # noqa: ARG002 - the mean alone
        """Predictive mean, from the latent mean and variance, each of shape (n, 1)."""
        return Prediction(mean[:, 0].copy())

    def log_predictive(self, y: Labels, mean: Array, var: Array) -> Array:
        """Log predictive density of the observed number, shape (n,)."""
        total = var[:, 0] + self.variance
        return np.asarray(-0.5 * (_LOG_2PI + np.log(total) + np.square(y - mean[:, 0]) / total))

    def error(self, y: Labels, point: Labels) -> Array:
        """Fractional error |y - ŷ| / max(|y|, 1), shape (n,)."""
        return fractional_error(y, point)
