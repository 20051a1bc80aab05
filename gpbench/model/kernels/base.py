"""What a kernel is: values, and pullbacks from adjoints of its matrices to its parameters; white noise, and sums.

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

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from gpbench.errors import NumericalError, UsageError
from gpbench.model.linalg import add_to_diagonal

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Features", "Kernel", "Leaf", "Sum", "White"]

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
    def bind(self, Z: Array, *, single: bool = False) -> Features:
        """Prepare once what depends on Z and ``theta``, for the hot path.

        With ``single`` the rows' matrices are float32: for half the memory and less than half of the time.
        """

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
    def hand_over(self) -> Any:
        """What ``pullback`` needs of the last ``cross``, not to be overwritten by the next, for ``take_back``."""

    @abstractmethod
    def take_back(self, held: Any) -> None:
        """Go back to the ``cross`` that handed this over: the next ``pullback`` belongs to it."""

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


def row_type(*, single: bool) -> type[np.floating]:
    """The type of the rows' matrices."""
    return np.float32 if single else np.float64


def row_buffer(b: int, m: int, dtype: npt.DTypeLike) -> Array:
    """An empty matrix (b, m) of rows: in Fortran's order, or in C's if float32, where the products are faster so."""
    return np.empty((b, m), dtype=dtype, order="C" if dtype == np.float32 else "F")


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


class White(Leaf):
    """A variance that every row has for itself, part of ``diag`` and ``gram`` and never of ``cross``.

    ``theta`` holds log σ_w², shape (1,).
    """

    kind = "white"

    @classmethod
    def of(cls, *, variance: float) -> Self:
        """Kernel from its variance."""
        return cls(positive(variance, "white-noise variance"))

    @property
    def variance(self) -> float:
        """White-noise variance σ_w²."""
        return math.exp(self.theta[0])

    @property
    def names(self) -> tuple[str, ...]:
        """``log_white``."""
        return ("log_white",)

    @property
    def constant_diag(self) -> float:
        """The white-noise variance."""
        return self.variance

    def diag(self, A: Array) -> Array:
        """Prior variances, shape (n,): σ_w² everywhere."""
        return np.full(A.shape[0], self.variance)

    def diag_pullback(self, A: Array, g: Array) -> Array:  # noqa: ARG002 - the interface passes A
        """Gradient (1,) from the adjoint g (n,) of ``diag(A)``."""
        return np.array([self.variance * g.sum()])

    def bind(self, Z: Array, *, single: bool = False) -> Features:
        """Prepare once what depends on Z and ``theta``."""
        return _WhiteFeatures(self, Z, single=single)


class _WhiteFeatures(Features):
    def __init__(self, kernel: White, Z: Array, *, single: bool) -> None:
        self._shape, self._dtype = check_inputs(Z, None, kernel.kind).shape, row_type(single=single)
        self._variance = kernel.variance

    def cross(self, X: Array) -> Array:
        if X.shape[1] != self._shape[1]:
            raise UsageError(f"expected rows with {self._shape[1]} columns, as Z has; got {X.shape[1]}")
        K = row_buffer(X.shape[0], self._shape[0], self._dtype)
        K.fill(0.0)
        return K

    def pullback(self, G: Array) -> tuple[Array, Array]:  # noqa: ARG002 - cross does not depend on the variance
        return np.zeros(1), np.zeros(self._shape)

    def hand_over(self) -> None:
        pass

    def take_back(self, held: None) -> None:
        pass

    def gram(self) -> Array:
        return np.asfortranarray(np.diag(np.full(self._shape[0], self._variance)))

    def gram_pullback(self, G: Array) -> tuple[Array, Array]:
        return np.array([self._variance * np.trace(G)]), np.zeros(self._shape)


class Sum(Kernel):
    """Sum of kernels, in order; ``theta`` is theirs, one after the other.

    Parameters
    ----------
    parts : tuple of Kernel
        At least one; none is itself a sum, at most one is white noise. The i-th part that is not white noise gives its
        names the prefix ``part{i}.``; white noise keeps ``log_white``.

    Raises
    ------
    UsageError
        The parts are not as said.
    """

    __slots__ = ("_slices", "_theta", "parts")

    def __init__(self, parts: tuple[Kernel, ...]) -> None:
        white = sum(isinstance(part, White) for part in parts)
        if white > 1 or len(parts) == white or any(isinstance(part, Sum) for part in parts):
            raise UsageError(f"a sum needs one kernel or more, none a sum, at most one white noise; got {parts}")
        self.parts = parts
        self._theta = np.concatenate([part.theta for part in parts])
        self._theta.setflags(write=False)
        ends = np.cumsum([part.theta.size for part in parts]).tolist()
        self._slices = tuple(slice(end - part.theta.size, end) for part, end in zip(parts, ends, strict=True))

    @property
    def theta(self) -> Array:
        """Logarithms of the hyper-parameters, shape (P,), read-only."""
        return self._theta

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts' hyper-parameters with the prefix ``part{i}.``."""
        found: list[str] = []
        index = 0
        for part in self.parts:
            if isinstance(part, White):
                found.extend(part.names)
            else:
                found.extend(f"part{index}.{name}" for name in part.names)
                index += 1
        return tuple(found)

    def with_theta(self, theta: npt.ArrayLike) -> Self:
        """The same kernel with other hyper-parameters, shape (P,)."""
        values = np.array(theta, dtype=np.float64)
        values.setflags(write=False)
        if values.shape != self._theta.shape:
            raise UsageError(f"this sum has {self._theta.size} hyper-parameters; got shape {values.shape}")
        pairs = zip(self.parts, self._slices, strict=True)
        new = object.__new__(type(self))  # the parts need no second check; this runs at each hyper-parameter step
        new.parts = tuple(part.with_theta(values[rows]) for part, rows in pairs)
        new._theta = values
        new._slices = self._slices
        return new

    @property
    def constant_diag(self) -> float | None:
        """The sum of the parts' values, where each has one."""
        total = 0.0
        for part in self.parts:
            value = part.constant_diag
            if value is None:
                return None
            total += value
        return total

    def diag(self, A: Array) -> Array:
        """Prior variances, white noise included, shape (n,)."""
        total = self.parts[0].diag(A)
        for part in self.parts[1:]:
            total += part.diag(A)
        return total

    def diag_pullback(self, A: Array, g: Array) -> Array:
        """Gradient (P,) from the adjoint g (n,) of ``diag(A)``."""
        return np.concatenate([part.diag_pullback(A, g) for part in self.parts])

    def bind(self, Z: Array, *, single: bool = False) -> Features:
        """Prepare once what depends on Z and ``theta``, for the hot path."""
        return _SumFeatures(self, Z, single=single)

    def spec(self) -> dict[str, Any]:
        """Description that JSON can hold and ``kernel_from_spec`` reads, exact to the last bit."""
        return {"kind": "sum", "parts": [part.spec() for part in self.parts]}


class _SumFeatures(Features):
    def __init__(self, kernel: Sum, Z: Array, *, single: bool) -> None:
        self._parts = [part.bind(Z, single=single) for part in kernel.parts]
        self._white = [isinstance(part, White) for part in kernel.parts]
        self._noise = sum(part.variance for part in kernel.parts if isinstance(part, White))
        self._smooth = [part for part, white in zip(self._parts, self._white, strict=True) if not white]
        self._k = row_buffer(0, Z.shape[0], row_type(single=single))

    def cross(self, X: Array) -> Array:
        first = self._smooth[0].cross(X)
        if len(self._smooth) == 1:
            return first
        if self._k.shape[0] != X.shape[0]:
            self._k = row_buffer(X.shape[0], self._k.shape[1], self._k.dtype)
        np.add(first, self._smooth[1].cross(X), out=self._k)
        for part in self._smooth[2:]:
            self._k += part.cross(X)
        return self._k

    def pullback(self, G: Array) -> tuple[Array, Array]:
        pieces = [
            (np.zeros(1), None) if white else part.pullback(G)
            for part, white in zip(self._parts, self._white, strict=True)
        ]
        return np.concatenate([dtheta for dtheta, _ in pieces]), _total([dZ for _, dZ in pieces if dZ is not None])

    def hand_over(self) -> list[Any]:
        return [part.hand_over() for part in self._parts]

    def take_back(self, held: list[Any]) -> None:
        for part, own in zip(self._parts, held, strict=True):
            part.take_back(own)

    def gram(self) -> Array:
        total = _total([part.gram() for part in self._smooth])
        add_to_diagonal(total, self._noise)
        return total

    def gram_pullback(self, G: Array) -> tuple[Array, Array]:
        pieces = [part.gram_pullback(G) for part in self._parts]
        return np.concatenate([dtheta for dtheta, _ in pieces]), _total([dZ for _, dZ in pieces])


def _total(arrays: list[Array]) -> Array:
    total = arrays[0]
    for other in arrays[1:]:
        total += other
    return total
