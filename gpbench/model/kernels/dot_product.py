"""Dot-product kernels (Rasmussen and Williams 2006, section 4.2.2).

Linear, one variance for each input: k(x, z) = Σ_d v_d x_d z_d; one matrix product, no centring.

Quadratic (polynomial): k(x, z) = σ² (1 + xᵀz/ℓ²)², all products of up to two inputs as features.

========  =====================================================  =========
symbol    meaning                                                shape
========  =====================================================  =========
σ², ℓ     variance and length scale                              scalar
x̃, z̃      inputs divided by ℓ                                    (b, d)
u         1 + x̃ᵀz̃                                                (b, m)
W         G ∘ ∂k/∂u = 2σ² G ∘ u, G the adjoint of k              (b, m)
========  =====================================================  =========

∂/∂log σ² = Σ G ∘ k, ∂/∂log ℓ = -2 Σ W ∘ (u - 1), ∂/∂Z = Wᵀ x̃ / ℓ.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError
from gpbench.model.kernels.base import Features, Leaf, check_inputs, positive, row_buffer, row_type

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Linear", "Quadratic"]


class Linear(Leaf):
    """Linear kernel; ``theta`` holds log v, shape (d,)."""

    kind = "linear"

    @classmethod
    def of(cls, *, variances: npt.ArrayLike) -> Self:
        """Kernel from its variances, shape (d,)."""
        return cls(positive(variances, "variances"))

    @property
    def variances(self) -> Array:
        """Variances v, shape (d,)."""
        return np.exp(self.theta)

    @property
    def names(self) -> tuple[str, ...]:
        """``log_variances[i]``."""
        return tuple(f"log_variances[{i}]" for i in range(self.theta.size))

    def diag(self, A: Array) -> Array:
        """Prior variances Σ_d v_d a_d², shape (n,)."""
        return np.square(check_inputs(A, self.theta.size, self.kind)) @ self.variances

    def diag_pullback(self, A: Array, g: Array) -> Array:
        """Gradient (P,) from the adjoint g (n,) of ``diag(A)``."""
        return self.variances * (g @ np.square(check_inputs(A, self.theta.size, self.kind)))

    def bind(self, Z: Array, *, single: bool = False) -> Features:
        """Prepare once what depends on Z and ``theta``, for the hot path."""
        return _LinearFeatures(self, Z, single=single)


class _LinearFeatures(Features):
    def __init__(self, kernel: Linear, Z: Array, *, single: bool) -> None:
        self._z = check_inputs(Z, kernel.theta.size, kernel.kind)
        self._variances, self._dtype = kernel.variances, row_type(single=single)
        self._right = np.ascontiguousarray(self._z * self._variances, dtype=self._dtype).T
        self._x = np.empty((0, self._z.shape[1]), dtype=self._dtype)
        self._k = row_buffer(0, len(self._z), self._dtype)

    def cross(self, X: Array) -> Array:
        if X.shape[1] != self._z.shape[1]:
            raise UsageError(f"expected rows with {self._z.shape[1]} columns, as Z has; got {X.shape[1]}")
        if len(self._k) != len(X):
            self._k = row_buffer(len(X), len(self._z), self._dtype)
        if len(self._x) != len(X):
            self._x = np.empty(X.shape, dtype=self._dtype)
        self._x[...] = X  # the caller may reuse its buffer before it asks for the pullback
        return np.matmul(self._x, self._right, out=self._k)

    def pullback(self, G: Array) -> tuple[Array, Array]:
        moment = np.matmul(G.T, self._x)  # GᵀX, (m, d)
        return self._variances * np.einsum("md,md->d", moment, self._z), moment * self._variances

    def hand_over(self) -> Array:
        held, self._x = self._x, np.empty_like(self._x)
        return held

    def take_back(self, held: Array) -> None:
        self._x = held

    def gram(self) -> Array:
        right = (self._z * self._variances).T
        return np.matmul(self._z, right, out=np.empty((self._z.shape[0],) * 2, order="F"))

    def gram_pullback(self, G: Array) -> tuple[Array, Array]:
        moment = np.matmul(G, self._z)
        return self._variances * np.einsum("md,md->d", moment, self._z), 2.0 * moment * self._variances


class Quadratic(Leaf):
    """Quadratic kernel; ``theta`` holds log σ² and log ℓ."""

    kind = "quadratic"

    def __init__(self, theta: npt.ArrayLike) -> None:
        super().__init__(theta)
        if self.theta.size != 2:
            raise UsageError(f"kernel {self.kind} has a variance and one length scale; got {self.theta.size} numbers")

    @classmethod
    def of(cls, *, variance: float, lengthscale: float) -> Self:
        """Kernel from its hyper-parameters themselves."""
        return cls(np.concatenate([positive(variance, "variance"), positive(lengthscale, "length scale")]))

    @property
    def variance(self) -> float:
        """Variance σ²."""
        return math.exp(self.theta[0])

    @property
    def lengthscale(self) -> float:
        """Length scale ℓ."""
        return math.exp(self.theta[1])

    @property
    def names(self) -> tuple[str, ...]:
        """``log_variance`` and ``log_lengthscale``."""
        return ("log_variance", "log_lengthscale")

    def diag(self, A: Array) -> Array:
        """Prior variances, shape (n,)."""
        return self.variance * np.square(self._squares(A) + 1.0)

    def diag_pullback(self, A: Array, g: Array) -> Array:
        """Gradient (P,) from the adjoint g (n,) of ``diag(A)``."""
        squares = self._squares(A)
        u = squares + 1.0
        return self.variance * np.array([float(g @ np.square(u)), -4.0 * float(g @ (u * squares))])

    def bind(self, Z: Array, *, single: bool = False) -> Features:
        """Prepare once what depends on Z and ``theta``, for the hot path."""
        return _QuadraticFeatures(self, Z, single=single)

    def _squares(self, A: Array) -> Array:
        A = check_inputs(A, None, self.kind) / self.lengthscale
        return np.asarray(np.vecdot(A, A))


class _QuadraticFeatures(Features):
    def __init__(self, kernel: Quadratic, Z: Array, *, single: bool) -> None:
        self._variance, self._scale = kernel.variance, 1.0 / kernel.lengthscale
        self._z = check_inputs(Z, None, kernel.kind) * self._scale
        m, d = self._z.shape
        self._dtype = row_type(single=single)
        self._right = self._z.T.astype(self._dtype)
        self._x = np.empty((0, d), dtype=self._dtype)
        self._u, self._k = (row_buffer(0, m, self._dtype) for _ in range(2))

    def cross(self, X: Array) -> Array:
        if X.shape[1] != self._z.shape[1]:
            raise UsageError(f"expected rows with {self._z.shape[1]} columns, as Z has; got {X.shape[1]}")
        if len(self._k) != len(X):
            self._k = row_buffer(len(X), len(self._z), self._dtype)
        if len(self._x) != len(X):
            self._x, self._u = np.empty(X.shape, dtype=self._dtype), row_buffer(len(X), len(self._z), self._dtype)
        np.multiply(X, self._scale, out=self._x)
        np.matmul(self._x, self._right, out=self._u)
        np.add(self._u, 1.0, out=self._u)
        np.multiply(self._u, self._u, out=self._k)
        return np.multiply(self._k, self._variance, out=self._k)

    def pullback(self, G: Array) -> tuple[Array, Array]:
        return self._gradients(G, self._x, self._u)

    def hand_over(self) -> tuple[Array, Array]:
        held = self._x, self._u
        self._x, self._u = np.empty_like(self._x), np.empty_like(self._u)
        return held

    def take_back(self, held: tuple[Array, Array]) -> None:
        self._x, self._u = held

    def gram(self) -> Array:
        u = self._gram()
        return np.multiply(self._variance, u * u, out=np.empty(u.shape, order="F"))

    def gram_pullback(self, G: Array) -> tuple[Array, Array]:
        dtheta, dZ = self._gradients(G, self._z, self._gram())
        return dtheta, 2.0 * dZ

    def _gram(self) -> Array:
        return np.asarray(np.matmul(self._z, self._z.T) + 1.0)

    def _gradients(self, G: Array, x: Array, u: Array) -> tuple[Array, Array]:
        W = G * u
        W *= 2.0 * self._variance
        dtheta = np.array([0.5 * float(np.vdot(W, u)), -2.0 * float(np.vdot(W, u - 1.0))])
        return dtheta, np.matmul(W.T, x) * self._scale
