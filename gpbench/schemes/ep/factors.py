"""EP's site parameters and their parallel update: probit factors of two classes, step factors of several.

========  ==============================================================================  ===========
symbol    meaning                                                                         shape
========  ==============================================================================  ===========
n, F      rows, latent functions (1, or the number of classes C)
μ, σ²     posterior means and variances of the latent values at the rows                  (n, F)
y         labels: ±1, or 0..C-1                                                           (n,)
x         all site parameters, flat, precisions first                                     (k,)
========  ==============================================================================  ===========

Two classes: one factor Φ(y_i f_i) for each row, one site (τ_i, b_i). Several: one factor Θ(f_i^y - f_i^k) for each row
and each k ≠ y (villacampa2017's factors (1), each by itself), with one site on f_i^y and one on f_i^k; the sites at
k = y are zero. The posterior sees their sums for each row and class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from gpbench.model.basis import row_blocks
from gpbench.model.sites import cavity, cavity_evidence, matched_site, tilted
from gpbench.optimize.fixed_point import Proposal

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels

__all__ = ["ProbitFactors", "SiteFactors", "StepFactors"]

_ROWS = 32_768
"""Rows looked at together, which bounds the memory of what is between sites and sites."""


class SiteFactors(ABC):
    """The factors of a data set and what EP does with them."""

    @abstractmethod
    def start(self) -> Array:
        """Sites of zero precision, x (k,)."""

    @abstractmethod
    def totals(self, x: Array) -> tuple[Array, Array]:
        """Sums τ and b of the sites of each row and latent function, each (n, F), Fortran-ordered."""

    @abstractmethod
    def propose(self, x: Array, mean: Array, var: Array) -> Proposal:
        """Sites that match moments, from the posterior means and variances (n, F) that x gives.

        Raises
        ------
        NumericalError
            A cavity is improper by more than rounding.
        """

    @abstractmethod
    def evidence(self, x: Array, mean: Array, var: Array) -> float:
        """Σ log of the factors' integrals, and of cavities over posteriors: the part of log Z that is a sum over rows.

        Raises
        ------
        NumericalError
            A cavity is improper by more than rounding.
        """


class ProbitFactors(SiteFactors):
    """Φ(y_i f_i) for labels y (n,) of ±1."""

    def __init__(self, y: Array) -> None:
        self.y = y

    def start(self) -> Array:
        """Sites of zero precision."""
        return np.zeros(2 * len(self.y))

    def totals(self, x: Array) -> tuple[Array, Array]:
        """The sites themselves, each (n, 1)."""
        n = len(self.y)
        return x[:n, None], x[n:, None]

    def propose(self, x: Array, mean: Array, var: Array) -> Proposal:
        """Matched sites."""
        n = len(self.y)
        target, weights = np.empty(2 * n), np.empty(2 * n)
        for rows in row_blocks(n, _ROWS):
            y, mu, s2, tau, b = self._block(x, mean, var, rows)
            out = cavity(mu, s2, tau=tau, b=b)
            at = tilted(y * out.mean, 1.0 + out.var)
            target[:n][rows], target[n:][rows] = matched_site(at, mean=out.mean, var=out.var, rest=1.0, sign=y)
        weights[:n] = var[:, 0]
        np.sqrt(weights[:n], out=weights[n:])
        return Proposal(target, weights)

    def evidence(self, x: Array, mean: Array, var: Array) -> float:
        """Sum over rows."""
        total = 0.0
        for rows in row_blocks(len(self.y), _ROWS):
            y, mu, s2, tau, b = self._block(x, mean, var, rows)
            out = cavity(mu, s2, tau=tau, b=b)
            terms = tilted(y * out.mean, 1.0 + out.var).log_z + cavity_evidence(mu, s2, tau=tau, b=b)
            total += float(terms.sum())
        return total

    def _block(self, x: Array, mean: Array, var: Array, rows: slice) -> tuple[Array, Array, Array, Array, Array]:
        n = len(self.y)
        return self.y[rows], mean[rows, 0], var[rows, 0], x[:n][rows], x[n:][rows]


class StepFactors(SiteFactors):
    """Θ(f_i^y - f_i^k), k ≠ y_i, for labels y (n,) in 0..classes-1; classes may be absent.

    x holds τ of f^y, τ of f^k, b of f^y, b of f^k, each (n, C), row by row.
    """

    def __init__(self, y: Labels, classes: int) -> None:
        self._y = np.asarray(y, dtype=np.intp)
        self._n, self._C = len(self._y), classes
        self._rows = np.arange(self._n)
        self._rival = np.ones((self._n, classes))
        self._rival[self._rows, self._y] = 0.0
        self._own = self._rival == 0.0

    def start(self) -> Array:
        """Sites of zero precision."""
        return np.zeros(4 * self._n * self._C)

    def totals(self, x: Array) -> tuple[Array, Array]:
        """Sites on f^k as they are, those on f^y summed over their rivals."""
        tau_y, tau_k, b_y, b_k = self._parts(x)
        totals = np.array(tau_k, order="F"), np.array(b_k, order="F")
        totals[0][self._own] = tau_y.sum(axis=1)
        totals[1][self._own] = b_y.sum(axis=1)
        return totals

    def propose(self, x: Array, mean: Array, var: Array) -> Proposal:
        """Matched sites, of f^y and f^k at once."""
        tau_y, tau_k, b_y, b_k = self._parts(x)
        mu_y, var_y = self._of_own(mean), self._of_own(var)
        out_y = cavity(mu_y, var_y, tau=tau_y, b=b_y)
        out_k = cavity(mean, var, tau=tau_k, b=b_k)
        at = tilted(out_y.mean - out_k.mean, out_y.var + out_k.var)
        new_y = matched_site(at, mean=out_y.mean, var=out_y.var, rest=out_k.var, sign=1.0)
        new_k = matched_site(at, mean=out_k.mean, var=out_k.var, rest=out_y.var, sign=-1.0)
        target, weights = np.empty((4, self._n, self._C)), np.empty((4, self._n, self._C))
        for index, new in enumerate((new_y[0], new_k[0], new_y[1], new_k[1])):
            np.multiply(new, self._rival, out=target[index])
        weights[0], weights[1] = var_y, var
        np.sqrt(weights[:2], out=weights[2:])
        return Proposal(target.reshape(-1), weights.reshape(-1))

    def evidence(self, x: Array, mean: Array, var: Array) -> float:
        """Sum over rows and rivals."""
        tau_y, tau_k, b_y, b_k = self._parts(x)
        mu_y, var_y = self._of_own(mean), self._of_own(var)
        out_y = cavity(mu_y, var_y, tau=tau_y, b=b_y)
        out_k = cavity(mean, var, tau=tau_k, b=b_k)
        terms = tilted(out_y.mean - out_k.mean, out_y.var + out_k.var).log_z
        terms = terms + cavity_evidence(mu_y, var_y, tau=tau_y, b=b_y)
        terms += cavity_evidence(mean, var, tau=tau_k, b=b_k)
        return float(np.sum(terms, where=~self._own))

    def _parts(self, x: Array) -> Array:
        return x.reshape(4, self._n, self._C)

    def _of_own(self, values: Array) -> Array:
        """Column (n, 1) of the rows' own classes."""
        return values[self._rows, self._y][:, None]
