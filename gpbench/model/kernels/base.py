"""What a kernel is: values, and pullbacks from adjoints of its matrices to its parameters.

No automatic differentiation: a scheme works out the adjoints of its kernel matrices and hands them in.

=============  ===========================================================  =========
symbol         meaning                                                      shape
=============  ===========================================================  =========
theta          logarithms of the hyper-parameters                           (P,)
A, B, X        inputs                                                       (n, d)
Z              inducing inputs                                              (m, d)
G              adjoint of a kernel matrix: derivative of an objective       as that matrix
               with respect to each of its entries
g              adjoint of a diagonal                                        (n,)
=============  ===========================================================  =========

White noise is a property of a row, not of its value: it enters ``diag`` and ``gram`` and never ``cross``, also when two
inputs coincide. Jitter is no part of a kernel. Formulae: Rasmussen and Williams (2006), section 4.2 and 5.4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from gpbench.errors import NumericalError, UsageError

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Features", "Kernel", "Leaf"]

LOG_LIMIT = 100.0
"""Largest absolute value of a log hyper-parameter; its square still has a float64 exponential."""


class Kernel(ABC):
    """A covariance function with its hyper-parameters; immutable."""

    @property
    @abstractmethod
    def theta(self) -> Array:
        """Logarithms of the hyper-parameters, shape (P,), read-only."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """One name for each entry of ``theta``, such as ``"part0.log_lengthscales[0]"``."""

    @abstractmethod
    def with_theta(self, theta: npt.ArrayLike) -> Self:
        """The same kernel with other hyper-parameters, shape (P,)."""

    @property
    def constant_diag(self) -> float | None:
        """The value of ``diag`` where it is the same for all inputs, else None: spares the hot path small arrays."""
        return None

    @abstractmethod
    def diag(self, A: Array) -> Array:
        """Prior variances k(a, a), white noise included, shape (n,)."""

    @abstractmethod
    def diag_pullback(self, A: Array, g: Array) -> Array:
        """Gradient with respect to ``theta`` of an objective whose adjoint of ``diag(A)`` is g; shape (P,)."""

    @abstractmethod
    def bind(self, Z: Array) -> Features:
        """Prepare once what depends on Z and ``theta``, for the hot path."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """Description that JSON can hold and ``kernel_from_spec`` reads, exact to the last bit."""

    def cross(self, A: Array, B: Array) -> Array:
        """Kernel matrix k(A, B) without white noise, shape (n, m), Fortran-ordered."""
        return self.bind(B).cross(A).copy(order="F")

    def gram(self, Z: Array) -> Array:
        """Kernel matrix k(Z, Z) with white noise on its diagonal, without jitter, shape (m, m), Fortran-ordered."""
        return self.bind(Z).gram()

    def gram_pullback(self, Z: Array, G: Array) -> tuple[Array, Array]:
        """Gradients from the adjoint of ``gram(Z)``.

        Parameters
        ----------
        Z : (m, d)
            Inputs.
        G : (m, m)
            Symmetric adjoint of ``gram(Z)``.

        Returns
        -------
        dtheta : (P,)
        dZ : (m, d)
        """
        return self.bind(Z).gram_pullback(G)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value:.6g}" for name, value in self.values().items())
        return f"{type(self).__name__}({values})"

    def values(self) -> dict[str, float]:
        """Hyper-parameters themselves, not their logarithms, by name: ``"part0.lengthscales[0]"``, ``"white"``."""
        plain = (name.replace("log_", "") for name in self.names)
        return dict(zip(plain, np.exp(self.theta).tolist(), strict=True))


class Features(ABC):
    """Kernel values between rows and a fixed set of inputs Z, for the hot path.

    Buffers are reused: what ``cross`` returns is valid until its next call, and ``pullback`` belongs to the last
    ``cross``. For the same reason one object must not be used from several threads at a time.
    """

    @abstractmethod
    def cross(self, X: Array) -> Array:
        """Kernel matrix k(X, Z) without white noise, shape (b, m), Fortran-ordered, in a reused buffer."""

    @abstractmethod
    def pullback(self, G: Array) -> tuple[Array, Array]:
        """Gradients (dtheta (P,), dZ (m, d)) from the adjoint G (b, m) of the last ``cross``."""

    @abstractmethod
    def gram(self) -> Array:
        """Kernel matrix k(Z, Z) with white noise on its diagonal, shape (m, m), Fortran-ordered, a new array."""

    @abstractmethod
    def gram_pullback(self, G: Array) -> tuple[Array, Array]:
        """Gradients (dtheta (P,), dZ (m, d)) from the symmetric adjoint G (m, m) of ``gram()``."""


class Leaf(Kernel):
    """A kernel that is no sum: it owns its ``theta``.

    Parameters
    ----------
    theta : (P,)
        Logarithms of the hyper-parameters.

    Raises
    ------
    UsageError
        Wrong shape.
    NumericalError
        A value is not finite or beyond ±100.
    """

    kind: str
    __slots__ = ("_theta",)

    def __init__(self, theta: npt.ArrayLike) -> None:
        values = np.array(theta, dtype=np.float64)
        if values.ndim != 1 or values.size == 0:
            raise UsageError(f"hyper-parameters of kernel {self.kind} must be a vector; got shape {values.shape}")
        if not np.abs(values).max() <= LOG_LIMIT:  # also catches NaN
            raise NumericalError(f"log hyper-parameters of kernel {self.kind} left ±{LOG_LIMIT:g}: {values}")
        values.setflags(write=False)
        self._theta = values

    @property
    def theta(self) -> Array:
        """Logarithms of the hyper-parameters, shape (P,), read-only."""
        return self._theta

    def with_theta(self, theta: npt.ArrayLike) -> Self:
        """The same kernel with other hyper-parameters, shape (P,)."""
        new = type(self)(theta)
        if new.theta.shape != self._theta.shape:
            raise UsageError(f"kernel {self.kind} has {self._theta.size} hyper-parameters; got {new.theta.size}")
        return new

    def spec(self) -> dict[str, Any]:
        """Description that JSON can hold and ``kernel_from_spec`` reads, exact to the last bit."""
        return {"kind": self.kind, "theta": self._theta.tolist()}


def check_inputs(Z: Array, wanted: int | None, kind: str) -> Array:
    """Z as a float64 matrix whose number of columns fits the kernel.

    Raises
    ------
    UsageError
        Z is no matrix or has another number of columns than the kernel has hyper-parameters for.
    """
    Z = np.asarray(Z, dtype=np.float64)
    if Z.ndim != 2:
        raise UsageError(f"inputs of kernel {kind} must have shape (m, d); got {Z.shape}")
    if wanted is not None and Z.shape[1] != wanted:
        raise UsageError(f"kernel {kind} has hyper-parameters for {wanted} input columns; got {Z.shape[1]}")
    return Z


def positive(values: npt.ArrayLike, what: str) -> Array:
    """Logarithms of positive numbers as a vector.

    Raises
    ------
    UsageError
        A number is not positive or not finite.
    """
    numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not (np.isfinite(numbers).all() and (numbers > 0).all()):
        raise UsageError(f"{what} must be positive and finite; got {values!r}")
    return np.log(numbers)
