"""White noise: a variance that every row has for itself. It is part of ``diag`` and ``gram`` and never of ``cross``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

import numpy as np

from gpbench.errors import UsageError
from gpbench.model.kernels.base import Features, Leaf, check_inputs, positive

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["White"]


class White(Leaf):
    """White noise; ``theta`` holds log σ_w², shape (1,)."""

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

    def bind(self, Z: Array) -> Features:
        """Prepare once what depends on Z and ``theta``."""
        return _WhiteFeatures(self, Z)


class _WhiteFeatures(Features):
    def __init__(self, kernel: White, Z: Array) -> None:
        self._shape = check_inputs(Z, None, kernel.kind).shape
        self._variance = kernel.variance

    def cross(self, X: Array) -> Array:
        if X.shape[1] != self._shape[1]:
            raise UsageError(f"expected rows with {self._shape[1]} columns, as Z has; got {X.shape[1]}")
        return np.zeros((X.shape[0], self._shape[0]), order="F")

    def pullback(self, G: Array) -> tuple[Array, Array]:  # noqa: ARG002 - cross does not depend on the variance
        return np.zeros(1), np.zeros(self._shape)

    def gram(self) -> Array:
        return np.asfortranarray(np.diag(np.full(self._shape[0], self._variance)))

    def gram_pullback(self, G: Array) -> tuple[Array, Array]:
        return np.array([self._variance * np.trace(G)]), np.zeros(self._shape)
