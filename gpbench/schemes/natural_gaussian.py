"""Natural-gradient steps for q(v) = N(m, Λ⁻¹) with prior N(0, I) (Salimbeni, Eleftheriadis and Hensman 2018).

In natural parameters, for a bound whose data terms have gradient p in m and P in Λ⁻¹ (P negative semi-definite):

    Λ ← (1 - γ) Λ + γ (I - 2P),    m ← m + γ Λ_new⁻¹ (p - m).

The step is the same for q(u), u = L v: natural gradients do not depend on whitening.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from gpbench.errors import UsageError
from gpbench.model.linalg import add_to_diagonal, inverse_lower, potrf, trsv

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["NaturalGaussian", "WarmUp"]


class NaturalGaussian(NamedTuple):
    """q(v); a step makes another one.

    Attributes
    ----------
    m : (M,)
        Mean.
    precision : (M, M)
        Λ; its upper triangle is undefined.
    C : (M, M)
        Its lower Cholesky factor.
    """

    m: Array
    precision: Array
    C: Array

    @classmethod
    def prior(cls, M: int) -> Self:
        """N(0, I)."""
        identity = np.asfortranarray(np.eye(M))
        return cls(np.zeros(M), identity, identity)

    def kl(self) -> float:
        """KL(q(v) || N(0, I)), in nats."""
        C_inv = inverse_lower(self.C)
        log_det = 2.0 * float(np.log(np.diag(self.C)).sum())
        return 0.5 * (float(np.vdot(C_inv, C_inv) + self.m @ self.m) - len(self.m) + log_det)

    def step(self, G: Array, p: Array, *, rate: float) -> Self:
        """One step.

        Parameters
        ----------
        G : (M, M)
            -P, positive semi-definite; only its lower triangle is read.
        p : (M,)
        rate : float
            γ in (0, 1].

        Raises
        ------
        NumericalError
            G or p are not finite.
        """
        precision = self.precision * (1.0 - rate)
        precision += (2.0 * rate) * G
        add_to_diagonal(precision, rate)
        C = potrf(precision, what="the posterior precision")
        change = trsv(C, trsv(C, p - self.m), trans=True)
        return type(self)(self.m + rate * change, precision, C)


class WarmUp:
    """Rates that grow from ``first`` to ``last`` in equal ratios over ``steps`` steps, then stay.

    Parameters
    ----------
    first, last : float
        In (0, 1].
    steps : int
        0: ``last`` from the beginning.
    """

    def __init__(self, first: float, last: float, *, steps: int) -> None:
        if not (0 < first <= 1 and 0 < last <= 1):
            raise UsageError(f"rates of natural gradients must lie in (0, 1]; got {first} and {last}")
        self._last, self._steps = last, steps
        self._ladder = np.geomspace(first, last, steps).tolist() if steps > 0 else []

    def rate(self, t: int) -> float:
        """Rate of step t = 0, 1 ..."""
        return float(self._ladder[t]) if t < self._steps else self._last
