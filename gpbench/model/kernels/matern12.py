"""Matérn kernel with smoothness 1/2, σ² exp(-r); symbols as in :mod:`gpbench.model.kernels.stationary`.

E = -2 ∂k/∂(r²) = σ² exp(-r)/r has no limit at r = 0, where the kernel has a kink; what it is multiplied by there, a
difference of two equal inputs, is 0, and so E is taken as 0 too: the gradient in an inducing input that lies on a row
is then that of all other rows. As r comes from a difference of squares, "at 0" means below 1e-7, which changes a
value or a gradient in log ℓ by as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpbench.model.kernels.stationary import Stationary, StationaryFeatures

if TYPE_CHECKING:
    from gpbench.model.kernels.stationary import Work
    from gpbench.model.rows import Array

__all__ = ["Matern12"]

_COINCIDENT = 1e-7


class Matern12(Stationary):
    """Matérn with smoothness 1/2 (exponential): σ² exp(-r)."""

    kind = "matern12"
    stretch = 1.0

    def bind(self, Z: Array) -> StationaryFeatures:
        """Prepare once what depends on Z and ``theta``, for the hot path."""
        return _Matern12Features(self, Z)


class _Matern12Features(StationaryFeatures):
    def _augment(self) -> tuple[float, float, Array]:
        return -2.0, 1.0, self._z_squares  # x̂ẑᵀ = r²

    def _profile(self, work: Work) -> None:
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
