"""Linear kernel with one variance for each input: k(x, z) = Σ_d v_d x_d z_d; one matrix product, no centring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError
from gpbench.model.kernels.base import Features, Leaf, check_inputs, positive

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Linear"]


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

    def bind(self, Z: Array) -> Features:
        """Prepare once what depends on Z and ``theta``, for the hot path."""
        return _LinearFeatures(self, Z)


class _LinearFeatures(Features):
    def __init__(self, kernel: Linear, Z: Array) -> None:
        self._z = check_inputs(Z, kernel.theta.size, kernel.kind)
        self._variances = kernel.variances
        self._right = np.ascontiguousarray(self._z * self._variances).T
        self._x = np.empty((0, self._z.shape[1]))
        self._k = np.empty((0, self._z.shape[0]), order="F")

    def cross(self, X: Array) -> Array:
        if X.shape[1] != self._z.shape[1]:
            raise UsageError(f"expected rows with {self._z.shape[1]} columns, as Z has; got {X.shape[1]}")
        if X.shape[0] != self._k.shape[0]:
            self._k = np.empty((X.shape[0], self._z.shape[0]), order="F")
            self._x = np.empty(X.shape)
        self._x[...] = X  # the caller may reuse its buffer before it asks for the pullback
        return np.matmul(self._x, self._right, out=self._k)

    def pullback(self, G: Array) -> tuple[Array, Array]:
        moment = np.matmul(G.T, self._x)  # GᵀX, (m, d)
        return self._variances * np.einsum("md,md->d", moment, self._z), moment * self._variances

    def gram(self) -> Array:
        return np.matmul(self._z, self._right, out=np.empty((self._z.shape[0],) * 2, order="F"))

    def gram_pullback(self, G: Array) -> tuple[Array, Array]:
        moment = np.matmul(G, self._z)
        return self._variances * np.einsum("md,md->d", moment, self._z), 2.0 * moment * self._variances
