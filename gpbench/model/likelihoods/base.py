"""What a likelihood is: densities and derivatives, expectations under a normal law, and predictive distributions.

=========  ===============================================================  =========
symbol     meaning                                                          shape
=========  ===============================================================  =========
y          targets: classes 0..C-1, ordinal categories, or counts           (n,)
f          latent values; (n, F) where there are several latent functions   (n,)
mu, var    mean and variance of q(f); (n, F) likewise                       (n,)
mean, var  the same at prediction, one column for each latent function      (n, F)
ℓ          log p(y | f)                                                     (n,)
=========  ===============================================================  =========
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels

__all__ = ["Expecting", "LatentPerClass", "Likelihood", "Prediction", "Score"]


@dataclass(frozen=True)
class Prediction:
    """Predictive distribution of each row.

    Attributes
    ----------
    point : (n,)
        Predicted class (an integer), or predictive mean of a count: what ``error`` is computed from.
    probabilities : (n, C) or None
        Probabilities of the classes; None for counts.
    """

    point: Labels
    probabilities: Array | None = None

    @property
    def values(self) -> Array:
        """Probabilities (n, C), or the predictive mean (n,) where there are no classes."""
        return self.point if self.probabilities is None else self.probabilities


class Score(NamedTuple):
    """How well targets were predicted.

    Attributes
    ----------
    log_density : (n,)
        Log predictive probability of the observed target (nats).
    error : (n,)
        Zero-one error of the predicted class, or the fractional error of a count.
    values : (n, C) or (n,)
        Predicted probabilities, or the predictive mean of a count.
    """

    log_density: Array
    error: Array
    values: Array


class Expecting(Protocol):
    """What a bound of expectations needs of a likelihood."""

    def expectations(self, y: Labels, mu: Array, var: Array, /) -> tuple[Array, Array, Array]:
        """E ℓ under f ~ N(mu, var), and its derivatives in mu and var, each of shape (n,)."""


class Likelihood(ABC):
    """p(y | f), one factor for each row."""

    name: ClassVar[str]
    tasks: ClassVar[frozenset[str]]

    def spec(self) -> dict[str, Any]:
        """Name and parameters as JSON can hold them; ``likelihood_from_spec`` reads them."""
        return {"name": self.name}

    @property
    def free(self) -> Array:
        """Parameters ψ of the likelihood that can be learned, in a form without bounds, shape (k,); here none."""
        return np.empty(0)

    @property
    def free_names(self) -> tuple[str, ...]:
        """One name for each entry of ``free``."""
        return ()

    def with_free(self, values: Array) -> Likelihood:
        """The same likelihood with other parameters ψ, shape (k,).

        Raises
        ------
        UsageError
            Wrong number of parameters.
        """
        if np.shape(values) != (0,):
            raise UsageError(f"likelihood {self.name} has no parameters to learn; got shape {np.shape(values)}")
        return self

    def identified_by(self, y: Labels) -> npt.NDArray[np.bool_]:  # noqa: ARG002 - all of them here
        """Which of the parameters ψ the targets y (n,) identify, shape (k,); others should stay as they are."""
        return np.ones(len(self.free), dtype=bool)

    def free_gradient(self, y: Labels, mu: Array, var: Array) -> Array:  # noqa: ARG002 - none to be differentiated
        """Derivatives Σ_n ∂e_n/∂ψ of the ``expectations``, shape (k,)."""
        return np.empty(0)

    def free_derivatives(self, y: Labels, f: Array) -> tuple[Array, Array, Array]:  # noqa: ARG002 - as above
        """Derivatives in ψ of ℓ and of its first and second derivative in f, each of shape (k, n)."""
        return np.empty((0, len(f))), np.empty((0, len(f))), np.empty((0, len(f)))

    def third_derivative(self, y: Labels, f: Array) -> Array:  # noqa: ARG002 - there is none here
        """Third derivative of log p(y | f) in f, shape (n,): what the gradient of Laplace's evidence needs.

        Raises
        ------
        UsageError
            The likelihood does not offer it.
        """
        raise UsageError(f"Laplace's method needs a third derivative, which likelihood {self.name} does not offer")

    @abstractmethod
    def n_latent(self, classes: int) -> int:
        """Number of latent functions F for a number of classes (0 for counts).

        Raises
        ------
        UsageError
            The likelihood cannot have so many classes.
        """

    @abstractmethod
    def check_targets(self, y: Labels, classes: int) -> None:
        """Check that the targets are in the likelihood's range.

        Raises
        ------
        UsageError
            The likelihood cannot have so many classes.
        DataError
            A target is out of range.
        """

    @abstractmethod
    def log_density(self, y: Labels, f: Array) -> Array:
        """Log p(y | f), shape (n,)."""

    @abstractmethod
    def derivatives(self, y: Labels, f: Array) -> tuple[Array, Array]:
        """First and second derivative of log p(y | f) in f, each of shape (n,)."""

    def log_density_and_slope(self, y: Labels, f: Array) -> tuple[Array, Array]:
        """Log p(y | f) and its first derivative in f at nodes f (Q, n), each of that shape; float32 may stay so."""
        f = np.asarray(f, dtype=np.float64)
        return self.log_density(y, f), self.derivatives(y, f)[0]

    @abstractmethod
    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:
        """E ℓ under f ~ N(mu, var) and its derivatives.

        Returns
        -------
        e, g, h : (n,)
            E ℓ, ∂e/∂mu and ∂e/∂var (which is about E ℓ''/2).
        """

    @abstractmethod
    def predict(self, mean: Array, var: Array) -> Prediction:
        """Predictive distribution from the latent mean and variance, each of shape (n, F)."""

    @abstractmethod
    def log_predictive(self, y: Labels, mean: Array, var: Array) -> Array:
        """Log predictive probability of the observed target, computed directly, shape (n,)."""

    @abstractmethod
    def error(self, y: Labels, point: Labels) -> Array:
        """Error of each prediction, shape (n,)."""

    def point(self, mean: Array, var: Array) -> Labels:
        """Predicted class or predictive mean, shape (n,), from the latent mean and variance, each of shape (n, F)."""
        return self.predict(mean, var).point

    def score(self, y: Labels, mean: Array, var: Array) -> Score:
        """Log predictive probability, error and predictive values of observed targets."""
        prediction = self.predict(mean, var)
        return Score(self.log_predictive(y, mean, var), self.error(y, prediction.point), prediction.values)


class LatentPerClass(Likelihood):
    """Classes with a latent function each; a subclass knows the predictive probabilities, and all else follows."""

    def n_latent(self, classes: int) -> int:
        """One latent function for each class.

        Raises
        ------
        UsageError
            There are fewer than two classes.
        """
        if classes < 2:
            raise UsageError(f"likelihood {self.name} needs 2 classes or more; got {classes}")
        return classes

    def check_targets(self, y: Labels, classes: int) -> None:
        """Check that there are two classes or more and that the labels are 0..C-1 (some may be absent).

        Raises
        ------
        UsageError
            There are fewer than two classes.
        DataError
            A label is out of range.
        """
        self.n_latent(classes)
        check_classes(y, classes)

    @abstractmethod
    def log_probabilities(self, mean: Array, var: Array) -> Array:
        """Log predictive probabilities (n, C) from the latent mean and variance (n, C)."""

    def predict(self, mean: Array, var: Array) -> Prediction:
        """Most probable class and probabilities (n, C), not renormalised, from the latent mean and variance (n, C)."""
        log_p = self.log_probabilities(mean, var)
        return Prediction(log_p.argmax(axis=1), np.exp(log_p))

    def log_predictive(self, y: Labels, mean: Array, var: Array) -> Array:
        """Log predictive probability of the observed class, shape (n,); as exact for 1e-100 as for 0.1."""
        return of_observed(self.log_probabilities(mean, var), y)

    def error(self, y: Labels, point: Labels) -> Array:
        """Zero-one error, shape (n,)."""
        return np.not_equal(y, point).astype(np.float64)

    def score(self, y: Labels, mean: Array, var: Array) -> Score:
        """Log predictive probability, error and probabilities, which are computed once for all three."""
        log_p = self.log_probabilities(mean, var)
        return Score(of_observed(log_p, y), self.error(y, log_p.argmax(axis=1)), np.exp(log_p))


def of_observed(log_p: Array, y: Labels) -> Array:
    """The entry of each row's observed class, shape (n,), of values (n, C)."""
    return np.asarray(np.take_along_axis(log_p, np.asarray(y)[:, None], axis=1)[:, 0])


def check_classes(y: Labels, classes: int) -> None:
    """Check that labels are integers 0..classes-1.

    Raises
    ------
    DataError
        They are not.
    """
    y = np.asarray(y)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise DataError(f"labels must be a vector of integers 0..{classes - 1}; got {y.dtype} of shape {y.shape}")
    if y.size and not (y.min() >= 0 and y.max() < classes):
        raise DataError(f"labels must lie in 0..{classes - 1}; got values from {y.min()} to {y.max()}")


def check_no_classes(name: str, classes: int) -> None:
    """Check that there are no classes, as for counts and real numbers.

    Raises
    ------
    UsageError
        There are.
    """
    if classes != 0:
        raise UsageError(f"likelihood {name} takes counts or numbers, not classes; got {classes} classes")


def fractional_error(y: Labels, point: Labels) -> Array:
    """|y - ŷ| / max(|y|, 1) of each row, shape (n,): sheth2015's fractional error, defined where y is 0 too."""
    y = np.asarray(y, dtype=np.float64)
    return np.asarray(np.abs(y - point) / np.maximum(np.abs(y), 1.0))


def require_binary(name: str, classes: int) -> None:
    """Check that there are two classes.

    Raises
    ------
    UsageError
        There are not.
    """
    if classes != 2:
        raise UsageError(f"likelihood {name} needs 2 classes; got {classes}")
