"""Poisson likelihood of counts with the exponential link: p(y | f) = exp(y f - e^f) / y! (sheth2015, table 1).

Everything but the predictive probability has a closed form; with E = exp(mu + var/2)

    e = y mu - E - log y!,    g = y - E,    h = -E/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from gpbench.errors import DataError
from gpbench.model.likelihoods.base import Likelihood, Prediction, check_no_classes, fractional_error
from gpbench.model.likelihoods.poisson_lognormal import log_poisson_lognormal

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels

__all__ = ["Poisson"]

_LARGEST = 300.0
"""Exponents are cut here: e^300 is beyond every count, and its square and sums of many are still float64 numbers."""


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Counts with intensity e^f."""

    name: ClassVar[str] = "poisson"
    tasks: ClassVar[frozenset[str]] = frozenset({"count"})

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
        """Check that the targets are counts.

        Raises
        ------
        UsageError
            There are classes.
        DataError
            A target is no integer, or negative.
        """
        check_no_classes(self.name, classes)
        y = np.asarray(y)
        if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
            raise DataError(f"counts must be a vector of integers 0, 1, 2, ...; got {y.dtype} of shape {y.shape}")
        if y.size and y.min() < 0:
            raise DataError(f"counts must be 0 or more; got {y.min()}")

    def log_density(self, y: Labels, f: Array) -> Array:
        """Log p(y | f), shape (n,)."""
        return np.asarray(y * f - _intensity(f) - special.gammaln(np.asarray(y) + 1.0))

    def derivatives(self, y: Labels, f: Array) -> tuple[Array, Array]:
        """First and second derivative of log p(y | f) in f, each of shape (n,)."""
        intensity = _intensity(f)
        return y - intensity, -intensity

    def third_derivative(self, y: Labels, f: Array) -> Array:  # noqa: ARG002 - the same for all counts
        """Third derivative of log p(y | f) in f, shape (n,)."""
        return -_intensity(f)

    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:
        """E ℓ under f ~ N(mu, var) and its derivatives e, g, h, each of shape (n,)."""
        mean = _intensity(mu + 0.5 * var)
        return y * mu - mean - special.gammaln(np.asarray(y) + 1.0), y - mean, -0.5 * mean

    def predict(self, mean: Array, var: Array) -> Prediction:
        """Predictive mean, from the latent mean and variance, each of shape (n, 1)."""
        return Prediction(_intensity(mean[:, 0] + 0.5 * var[:, 0]))

    def log_predictive(self, y: Labels, mean: Array, var: Array) -> Array:
        """Log predictive probability of the observed count, shape (n,)."""
        return log_poisson_lognormal(np.asarray(y, dtype=np.float64), mean[:, 0], var[:, 0])

    def error(self, y: Labels, point: Labels) -> Array:
        """Fractional error |y - ŷ| / max(y, 1), shape (n,)."""
        return fractional_error(y, point)


def _intensity(f: Array) -> Array:
    return np.asarray(np.exp(np.minimum(f, _LARGEST)))
