"""Kernels of the scaled distance: squared exponential, Matérn-1/2 and Matérn-3/2.

They have one length scale for all inputs, or one for each.

==========  ==========================================================================  ==========
symbol      meaning                                                                     shape
==========  ==========================================================================  ==========
σ²          variance (amplitude)                                                        scalar
ℓ           length scales                                                               (1,), (d,)
r²          Σ_d (x_d - z_d)² / ℓ_d²                                                     (b, m)
x̃, z̃        inputs, centred at the mean of Z and divided by ℓ (Matérn-3/2: times √3)    (b, d)
E           -2 ∂k/∂(r̃²), r̃² the squared distance of x̃ and z̃                            (b, m)
W           G ∘ E                                                                       (b, m)
==========  ==========================================================================  ==========

SE: k = σ² exp(-r̃²/2), E = k. Matérn-3/2: k = σ² (1 + r̃) exp(-r̃), E = σ² exp(-r̃), finite at 0. In all
∂k/∂log ℓ_d = E (x̃_d - z̃_d)², so that one pullback serves them; its squares are expanded into matrix products and
nothing of shape (b, m, d) is formed.

Matérn-1/2: k = σ² exp(-r), E = σ² exp(-r)/r, which has no limit at r = 0, where the kernel has a kink; what it is
multiplied by there, a difference of two equal inputs, is 0, and so E is taken as 0 too: the gradient in an inducing
input that lies on a row is then that of all other rows. As r comes from a difference of squares, "at 0" means below
1e-7, which changes a value or a gradient in log ℓ by as much.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError
from gpbench.model.kernels.base import Features, Leaf, check_inputs, positive, row_buffer, row_type

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["SE", "Matern12", "Matern32", "Stationary"]

_COINCIDENT = 1e-7


class Stationary(Leaf):
    """A kernel σ² ρ(r) of the scaled distance; ``theta`` holds log σ² and then log ℓ (one, or one for each input)."""

    stretch: float
    """x̃ is stretch * x / ℓ."""

    def __init__(self, theta: npt.ArrayLike) -> None:
        super().__init__(theta)
        if self.theta.size < 2:
            raise UsageError(
                f"kernel {self.kind} needs a variance and at least one length scale; got {self.theta.size} number"
            )

    @classmethod
    def of(cls, *, variance: float, lengthscales: npt.ArrayLike) -> Self:
        """Kernel from its hyper-parameters themselves; ``lengthscales`` a number (isotropic) or of shape (d,)."""
        return cls(np.concatenate([positive(variance, "variance"), positive(lengthscales, "length scales")]))

    @property
    def variance(self) -> float:
        """Prior variance σ²."""
        return math.exp(self.theta[0])

    @property
    def lengthscales(self) -> Array:
        """Length scales ℓ, shape (1,) or (d,)."""
        return np.exp(self.theta[1:])

    @property
    def names(self) -> tuple[str, ...]:
        """``log_variance`` and ``log_lengthscales[i]``."""
        return ("log_variance", *(f"log_lengthscales[{i}]" for i in range(self.theta.size - 1)))

    @property
    def constant_diag(self) -> float:
        """The prior variance."""
        return self.variance

    def diag(self, A: Array) -> Array:
        """Prior variances, shape (n,): σ² everywhere."""
        return np.full(A.shape[0], self.variance)

    def diag_pullback(self, A: Array, g: Array) -> Array:  # noqa: ARG002 - the interface passes A
        """Gradient (P,): the length scales play no part in the diagonal."""
        gradient = np.zeros(self.theta.size)
        gradient[0] = self.variance * g.sum()
        return gradient

    @abstractmethod
    def bind(self, Z: Array, *, single: bool = False) -> StationaryFeatures:
        """Prepare once what depends on Z and ``theta``, for the hot path."""


class _Work:
    """Buffers for one number of rows; allocated again only when that number changes."""

    __slots__ = ("e", "k", "left", "rows", "squares", "x")

    def __init__(self, rows: int, *, d: int, m: int, dtype: type[np.floating]) -> None:
        self.rows = rows
        self.left = np.empty((rows, d + 2), dtype=dtype)  # x̂ = [x̃, |x̃|², 1]
        self.left[:, d + 1] = 1.0
        self.x = self.left[:, :d]
        self.squares = self.left[:, d]
        self.k = row_buffer(rows, m, dtype)
        self.e = self.k  # the SE's profile is its own derivative; Matérn's gets a buffer at its first evaluation


class StationaryFeatures(Features):
    """Distances to a fixed set of inputs by one matrix product of augmented, scaled inputs.

    With x̂ = [x̃, |x̃|², 1] (b, d+2) and ẑ = [β z̃, γ, δ] (m, d+2), chosen by ``_augment``, x̂ẑᵀ is what the kernel's
    profile starts from. Centring at the mean of Z keeps |x̃| near the distances themselves, so that the expansion of
    the square loses no digits; it is left out (it costs as much as the scaling) where that mean lies within one length
    scale of 0.
    """

    def __init__(self, kernel: Stationary, Z: Array, *, single: bool) -> None:
        self._dtype = row_type(single=single)
        ell = kernel.lengthscales
        self._isotropic = ell.size == 1
        Z = check_inputs(Z, None if self._isotropic else ell.size, kernel.kind)
        self._variance = kernel.variance
        m, d = Z.shape
        self._scale = kernel.stretch / ell if ell.size == d else np.full(d, kernel.stretch / ell[0])
        centre = np.add.reduce(Z, axis=0) / m
        self._centre = centre if np.abs(centre * self._scale).max() > 1.0 else None
        self._z: Array = np.empty((m, d))
        self._rescale(Z, self._z, self._scale)
        self._z_squares = np.vecdot(self._z, self._z)
        self._right = np.empty((d + 2, m))  # ẑᵀ
        beta, gamma, delta = self._augment()
        np.multiply(self._z.T, beta, out=self._right[:d])
        self._right[d] = gamma
        self._right[d + 1] = delta
        # of the rows, in their type; all else about Z stays in float64
        self._rows = self._right.astype(self._dtype), self._scale.astype(self._dtype)
        self._w: Array | None = None  # room for W
        self._work: _Work | None = None
        self._own: _Work | None = None  # k(Z, Z), when it is asked for

    @abstractmethod
    def _augment(self) -> tuple[float, float, Array]:
        """β, γ and δ (m,) of ẑ."""

    @abstractmethod
    def _profile(self, work: _Work) -> None:
        """From x̂ẑᵀ in ``work.k`` to kernel values in ``work.k`` and E in ``work.e``."""

    def cross(self, X: Array) -> Array:
        """Kernel matrix k(X, Z), shape (b, m), in a reused buffer."""
        b, d = X.shape
        if d != self._scale.size:
            raise UsageError(f"expected rows with {self._scale.size} columns, as Z has; got {d}")
        work = self._work
        if work is None or b != work.rows:
            work = self._work = _Work(b, d=d, m=self._z.shape[0], dtype=self._dtype)
        right, scale = self._rows
        self._rescale(X, work.x, scale)
        np.vecdot(work.x, work.x, out=work.squares)
        np.matmul(work.left, right, out=work.k)
        self._profile(work)
        return work.k

    def pullback(self, G: Array) -> tuple[Array, Array]:
        """Gradients from the adjoint of the last ``cross``."""
        if self._work is None:
            raise UsageError("pullback belongs to the last cross; there was none")
        return self._gradients(G, self._work)

    def hand_over(self) -> _Work | None:
        """What ``pullback`` needs of the last ``cross``."""
        held, self._work = self._work, None
        return held

    def take_back(self, held: _Work | None) -> None:
        """Go back to the ``cross`` that handed this over."""
        self._work = held

    def gram(self) -> Array:
        """Kernel matrix k(Z, Z), shape (m, m), a new array."""
        return self._gram().k.copy(order="F")

    def gram_pullback(self, G: Array) -> tuple[Array, Array]:
        """Gradients from the symmetric adjoint of ``gram()``: both slots of the kernel contribute to dZ."""
        dtheta, dZ = self._gradients(G, self._gram())
        return dtheta, 2.0 * dZ

    def _rescale(self, X: Array, out: Array, scale: Array) -> None:
        if self._centre is None:
            np.multiply(X, scale, out=out)
        else:
            np.subtract(X, self._centre, out=out)
            np.multiply(out, scale, out=out)

    def _gram(self) -> _Work:
        if self._own is None:
            m, d = self._z.shape
            work = self._own = _Work(m, d=d, m=m, dtype=np.float64)
            work.x[...] = self._z
            work.squares[...] = self._z_squares
            np.matmul(work.left, self._right, out=work.k)
            self._profile(work)
            np.einsum("ii->i", work.k)[:] = self._variance  # fill_diagonal takes 200 us in Fortran order
        return self._own

    def _gradients(self, G: Array, work: _Work) -> tuple[Array, Array]:
        d = self._scale.size
        out = self._w
        if out is None or out.shape != work.k.shape or out.dtype != work.k.dtype:
            out = self._w = np.empty_like(work.k)
        W = np.multiply(G, work.k, out=out)
        dlog_variance = None
        if work.e is not work.k:
            dlog_variance = W.sum()
            W = np.multiply(G, work.e, out=out)
        Q = np.matmul(W.T, work.left)  # Wᵀx̂, (m, d+2)
        moment, columns = Q[:, :d], Q[:, d + 1]  # Wᵀx̃ and Wᵀ1
        dZ = (moment - columns[:, None] * self._z) * self._scale
        dtheta = np.empty(2 if self._isotropic else 1 + d)
        dtheta[0] = columns.sum() if dlog_variance is None else dlog_variance
        if self._isotropic:
            dtheta[1] = Q[:, d].sum() + columns @ self._z_squares - 2.0 * np.vdot(moment, self._z)
        else:
            rows = W @ np.ones(W.shape[1], dtype=W.dtype)
            dtheta[1:] = rows @ np.square(work.x) + columns @ np.square(self._z)
            dtheta[1:] -= 2.0 * np.einsum("md,md->d", moment, self._z)
        return dtheta, dZ


class SE(Stationary):
    """Squared exponential σ² exp(-r²/2)."""

    kind = "se"
    stretch = 1.0

    def bind(self, Z: Array, *, single: bool = False) -> StationaryFeatures:
        """Prepare once what depends on Z and ``theta``, for the hot path."""
        return _SEFeatures(self, Z, single=single)


class _SEFeatures(StationaryFeatures):
    def _augment(self) -> tuple[float, float, Array]:
        self._log_variance = math.log(self._variance)
        return 1.0, -0.5, self._log_variance - 0.5 * self._z_squares  # x̂ẑᵀ = log σ² - r̃²/2

    def _profile(self, work: _Work) -> None:
        if work.k.dtype == np.float32:  # e^-35 is nothing, and float32's denormal numbers cost ten times as much
            np.clip(work.k, self._log_variance - 35.0, self._log_variance, out=work.k)
        else:
            np.minimum(work.k, self._log_variance, out=work.k)
        np.exp(work.k, out=work.k)


class Matern12(Stationary):
    """Matérn with smoothness 1/2 (exponential): σ² exp(-r)."""

    kind = "matern12"
    stretch = 1.0

    def bind(self, Z: Array, *, single: bool = False) -> StationaryFeatures:
        """Prepare once what depends on Z and ``theta``, for the hot path."""
        return _Matern12Features(self, Z, single=single)


class _Matern12Features(StationaryFeatures):
    def _augment(self) -> tuple[float, float, Array]:
        return -2.0, 1.0, self._z_squares  # x̂ẑᵀ = r²

    def _profile(self, work: _Work) -> None:
        if work.e is work.k:
            work.e = np.empty_like(work.k)
        np.maximum(work.k, 0.0, out=work.k)
        r = np.sqrt(work.k)
        r[r <= _COINCIDENT] = 0.0
        np.negative(r, out=work.k)
        np.exp(work.k, out=work.k)
        np.multiply(work.k, self._variance, out=work.k)
        work.e.fill(0.0)
        np.divide(work.k, r, out=work.e, where=r > 0.0)


class Matern32(Stationary):
    """Matérn with smoothness 3/2: σ² (1 + √3 r) exp(-√3 r)."""

    kind = "matern32"
    stretch = math.sqrt(3.0)

    def bind(self, Z: Array, *, single: bool = False) -> StationaryFeatures:
        """Prepare once what depends on Z and ``theta``, for the hot path."""
        return _Matern32Features(self, Z, single=single)


class _Matern32Features(StationaryFeatures):
    def _augment(self) -> tuple[float, float, Array]:
        return -2.0, 1.0, self._z_squares  # x̂ẑᵀ = r̃²

    def _profile(self, work: _Work) -> None:
        if work.e is work.k:
            work.e = np.empty_like(work.k)
        np.maximum(work.k, 0.0, out=work.k)
        np.sqrt(work.k, out=work.k)
        np.negative(work.k, out=work.e)
        np.exp(work.e, out=work.e)
        np.multiply(work.e, self._variance, out=work.e)
        np.add(work.k, 1.0, out=work.k)
        np.multiply(work.k, work.e, out=work.k)
