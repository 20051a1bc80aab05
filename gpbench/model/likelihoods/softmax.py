"""Classes by the softmax of independent latent values: p(y = k | f) = exp(f_k) / Σ_j exp(f_j).

Predictive probabilities of two classes are a logistic-normal integral over the difference, which is normal: as exact
as the logit likelihood's own. Those of more are averages over the same 1,000 standard normal draws for each row
(Milios et al. 2018 sample too), so that a row's prediction depends on that row alone and two runs agree to the bit; the
draws' error is about 0.01 where a probability is most unsure.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from gpbench.errors import UsageError
from gpbench.model.likelihoods.base import LatentPerClass, of_observed
from gpbench.model.likelihoods.bernoulli import Logit

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels

__all__ = ["Softmax"]

BLOCK_VALUES = 1 << 18
"""Latent values drawn together: 2 MB."""


@dataclass(frozen=True)
class Softmax(LatentPerClass):
    """p(y | f), one latent function for each class.

    Parameters
    ----------
    draws : int
        For the predictions of more than two classes.
    """

    draws: int = 1000
    name: ClassVar[str] = "softmax"
    tasks: ClassVar[frozenset[str]] = frozenset({"binary", "multiclass"})

    def spec(self) -> dict[str, Any]:
        """Name and parameters as JSON can hold them; ``likelihood_from_spec`` reads them."""
        return {"name": self.name, "draws": self.draws}

    def log_density(self, y: Labels, f: Array) -> Array:
        """Log p(y | f), shape (n,), of latent values f (n, C)."""
        return of_observed(np.asarray(log_softmax(f, axis=1)), y)

    def derivatives(self, y: Labels, f: Array) -> tuple[Array, Array]:
        """First derivatives of log p(y | f) in each latent value, and the second ones' diagonal; each (n, C)."""
        p = np.asarray(softmax(f, axis=1))
        first = -p
        np.put_along_axis(first, np.asarray(y)[:, None], 1.0 - np.take_along_axis(p, y[:, None], axis=1), axis=1)
        return first, -p * (1.0 - p)

    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:  # noqa: ARG002 - refused
        """Refused: no scheme needs them yet.

        Raises
        ------
        UsageError
            Always.
        """
        raise UsageError(f"likelihood {self.name} has no expectations; got mu of shape {mu.shape}")

    def log_probabilities(self, mean: Array, var: Array) -> Array:
        """Log predictive probabilities (n, C) from the latent mean and variance (n, C)."""
        n, C = mean.shape
        if C == 2:
            gap, spread = mean[:, 1:] - mean[:, :1], var.sum(axis=1, keepdims=True)
            ones = np.ones(n, dtype=np.int64)
            return np.stack([Logit().log_predictive(y, gap, spread) for y in (0 * ones, ones)], axis=1)
        t, out = _draws(self.draws, C), np.empty((n, C))
        size = max(1, BLOCK_VALUES // t.size)
        for start in range(0, n, size):
            rows = slice(start, start + size)
            f = mean[rows, None] + np.sqrt(var[rows, None]) * t
            out[rows] = logsumexp(log_softmax(f, axis=2), axis=1) - np.log(len(t))
        return out


@lru_cache(maxsize=8)
def _draws(number: int, classes: int) -> Array:
    """The standard normal draws (I, C) that all rows share, in pairs ±t so that means are exact."""
    half = np.random.default_rng(0).normal(size=((number + 1) // 2, classes))
    t = np.concatenate([half, -half])[:number]
    t.setflags(write=False)
    return t
