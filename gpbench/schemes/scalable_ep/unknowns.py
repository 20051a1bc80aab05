"""Hyper-parameters and inducing inputs of all latent functions in one flat vector, for gradient ascent.

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
F         latent functions
θ, Z      log hyper-parameters and inducing inputs of each                                     (P,), (M, d)
unit      a half for log length scales, since ascent is in log ℓ² (villacampa2017's code);      as θ, Z
          the standard deviation of its column for an entry of Z; 1 for all else
p         θ and Z of each latent function in turn, divided by their units                      (size,)
========  ===================================================================================  ===========

Units make ascent indifferent to those of X; on standardised inputs they change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpbench.schemes.batch_settings import LOG_BOUND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array

__all__ = ["Unknowns"]


class Unknowns:
    """Where everything stands in p.

    Parameters
    ----------
    kernel : Kernel
        What each latent function begins with.
    Z : sequence of (M, d)
        First inducing inputs; numbers may differ.
    theta, inducing : bool
        Whether each is learned.

    Attributes
    ----------
    size : int
        Of p; 0 where nothing is learned.
    parts : list of slice
        The part of each latent function.
    """

    def __init__(self, kernel: Kernel, Z: Sequence[Array], *, theta: bool, inducing: bool) -> None:
        self._kernel, self._Z, self._theta, self._inducing = kernel, list(Z), theta, inducing
        self._P = kernel.theta.size if theta else 0
        scales = [0.5 if "lengthscales" in name else 1.0 for name in kernel.names]
        spread = np.concatenate(self._Z).std(axis=0)
        self._unit = np.where(spread > 0, spread, 1.0)
        units = [np.concatenate([scales, np.tile(self._unit, len(each))]) for each in self._Z]
        kept = [slice(None if theta else len(scales), None if inducing else len(scales)) for _ in units]
        pieces = [unit[keep] for unit, keep in zip(units, kept, strict=True)]
        self._units = np.concatenate([np.empty(0), *pieces])
        ends = np.cumsum([len(piece) for piece in pieces])
        self.parts = [slice(int(end) - len(piece), int(end)) for end, piece in zip(ends, pieces, strict=True)]
        self.size = len(self._units)

    def start(self) -> Array:
        """Where p begins."""
        return np.asarray(self._flat([(self._kernel.theta, Z) for Z in self._Z]) / self._units)

    def at(self, p: Array) -> tuple[list[Kernel], list[Array]]:
        """Kernel and Z of each latent function."""
        kernels, inducing = [], []
        values = p * self._units
        for part, Z in zip(self.parts, self._Z, strict=True):
            own = values[part]
            kernels.append(self._kernel.with_theta(own[: self._P]) if self._theta else self._kernel)
            inducing.append(own[self._P :].reshape(Z.shape) if self._inducing else Z)
        return kernels, inducing

    def gradient(self, parts: Sequence[tuple[Array, Array]]) -> Array:
        """Gradient in p from those in θ and Z of each latent function."""
        return np.asarray(self._flat(parts) * self._units)

    def bounded(self, p: Array) -> Array:
        """Keep log hyper-parameters within their bounds, in place: the length scale of an idle input has none."""
        for part in self.parts:
            units = self._units[part][: self._P]
            own = p[part][: self._P]
            np.clip(own, -LOG_BOUND / units, LOG_BOUND / units, out=own)
        return p

    def _flat(self, parts: Sequence[tuple[Array, Array]]) -> Array:
        pieces = [np.empty(0)]
        for theta, Z in parts:
            if self._theta:
                pieces.append(theta)
            if self._inducing:
                pieces.append(Z.reshape(-1))
        return np.concatenate(pieces)
