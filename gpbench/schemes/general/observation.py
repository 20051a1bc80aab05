"""How rows are observed: a likelihood and the constant prior mean c of f, with what of both can be learned.

Inside, everything works with f - c, whose prior mean is 0; c and the likelihood's own parameters stand in one vector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpbench.model.whitened import BLOCK_ROWS

if TYPE_CHECKING:
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels

__all__ = ["Observation"]

_EXPECTATION_ROWS = BLOCK_ROWS
"""Rows whose quadrature nodes are in memory together: 20 nodes of them are 0.2 MB, which the cache holds."""


@dataclass(frozen=True)
class Observation:
    """p(y | f) with f = c + f₀, f₀ of prior mean 0.

    Parameters
    ----------
    likelihood : Likelihood
    mean : float
        c.
    has_mean : bool
        Whether c is a parameter; else it stays.
    """

    likelihood: Likelihood
    mean: float = 0.0
    has_mean: bool = False

    @property
    def free(self) -> Array:
        """What can be learned: c if it is a parameter, then the likelihood's own, shape (k,)."""
        own = self.likelihood.free
        return np.concatenate([[self.mean], own]) if self.has_mean else own

    @property
    def free_names(self) -> tuple[str, ...]:
        """One name for each entry of ``free``."""
        own = tuple(f"{self.likelihood.name}.{name}" for name in self.likelihood.free_names)
        return ("mean", *own) if self.has_mean else own

    def with_free(self, values: Array) -> Observation:
        """The same with other parameters, shape (k,)."""
        if not self.has_mean:
            return replace(self, likelihood=self.likelihood.with_free(values))
        return replace(self, mean=float(values[0]), likelihood=self.likelihood.with_free(values[1:]))

    def values(self) -> dict[str, float]:
        """Parameters by name."""
        return dict(zip(self.free_names, self.free.tolist(), strict=True))

    def expectations(self, y: Labels, mu: Array, s: Array) -> tuple[float, Array, Array]:
        """Σ E ℓ for f₀ ~ N(mu, s), and its derivatives in mu and s, each of shape (n,); block by block."""
        total, g, h = 0.0, np.empty(len(mu)), np.empty(len(mu))
        for start in range(0, len(mu), _EXPECTATION_ROWS):
            rows = slice(start, start + _EXPECTATION_ROWS)
            e, g[rows], h[rows] = self.likelihood.expectations(y[rows], mu[rows] + self.mean, s[rows])
            total += float(e.sum())
        return total, g, h

    def free_gradient(self, y: Labels, mu: Array, s: Array, *, by_mean: float) -> Array:
        """Derivatives of Σ E ℓ in ``free``, shape (k,); that in c is handed in, as it depends on what else is held."""
        own = np.zeros(len(self.likelihood.free))
        if own.size:
            for start in range(0, len(mu), _EXPECTATION_ROWS):
                rows = slice(start, start + _EXPECTATION_ROWS)
                own += self.likelihood.free_gradient(y[rows], mu[rows] + self.mean, s[rows])
        return np.concatenate([[by_mean], own]) if self.has_mean else own
