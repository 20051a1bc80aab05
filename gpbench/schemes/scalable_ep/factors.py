"""Scalable EP's factors of two classes and of several: cavities, new sites, evidence, and what its gradient is made of.

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
n, F      rows, latent functions (1, or the number of classes C)
u, ν      inducing values, and ν = K_mm⁻¹ k(Z, x): given u, f(x) has mean νᵀu and variance s      (M,)
s, h, g   κ - |t|²; variance νᵀVν and mean νᵀm of νᵀu under q(u) = N(m, V)                        (n, F)
c₁, c₂    sites exp(-½ c₁ (νᵀu)² + c₂ νᵀu), c₁ ≥ 0                                                see x
x         all sites of the rows: c₁ of each role, then c₂ of each role                         (2R, n, F)
d₁, b₂    derivatives of log Φ(β) in the gap: first, and minus the second
ζ         derivative of log Φ(β) in z, and so in s                                             (n, F)
λ         derivative of log Φ(β) in the mean νᵀu of the cavity                                   (n, F)
========  ===================================================================================  ===========

Two classes (one role): Φ(y νᵀu / √(1 + s)). Several: φ_ik = Φ((ν^yᵀu^y - ν^kᵀu^k) / √(s^y + s^k)) for each k ≠ y_i,
villacampa2017's factors (6), each with a site on ν^yᵀu^y (the role "own") and one on ν^kᵀu^k (the role "rival"); what
stands at k = y_i is zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gpbench.model.sites import tilted
from gpbench.schemes.scalable_ep.roles import Moved, Role, Slopes

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpbench.model.rows import Array, Labels

__all__ = ["BinaryFactors", "Factors", "PairFactors", "Tilting"]


class Tilting(ABC):
    """The factors of some rows, each under its cavity."""

    @property
    @abstractmethod
    def target(self) -> Array:
        """Sites that match moments, (2R, n, F)."""

    @property
    @abstractmethod
    def log_z(self) -> float:
        """Σ log of the factors' integrals and of cavities over posteriors (nats)."""

    @property
    @abstractmethod
    def log_phi(self) -> float:
        """Σ log of the factors' integrals alone: the tied form has another share of the cavities."""

    @property
    @abstractmethod
    def weights(self) -> Array:
        """What makes a change of the sites dimensionless, (2R, n, F): h for c₁, its root for c₂."""

    @abstractmethod
    def slopes(self, *, exact: bool = False) -> Slopes:
        """What the rows add to the gradient; ``exact`` also gives the mismatch of moments."""


class Factors(ABC):
    """The factors of rows with labels y (n,)."""

    roles: int
    F: int

    @abstractmethod
    def __len__(self) -> int:
        """Number of rows."""

    @abstractmethod
    def part(self, rows: slice) -> Factors:
        """The factors of some rows."""

    @abstractmethod
    def totals(self, x: Array) -> tuple[Array, Array]:
        """Sums π and b over the sites of each row and latent function, each (n, F)."""

    @abstractmethod
    def tilt(self, x: Array, *, s: Array, h: Array, g: Array, moved: Moved | None = None) -> Tilting:
        """The factors under their cavities.

        Parameters
        ----------
        x : (2R, n, F)
            Sites; zero where h and g are a cavity's already, as in the tied form.
        s, h, g : (n, F)
        moved : Moved, optional

        Raises
        ------
        NumericalError
            A cavity is improper by more than rounding.
        """

    @abstractmethod
    def touching(self) -> Array:
        """Number of factors that each latent function is in, (F,)."""

    def start(self) -> Array:
        """Sites of zero precision, x (2R, n, F)."""
        return np.zeros((2 * self.roles, len(self), self.F))


class BinaryFactors(Factors):
    """Two classes, 0 and 1."""

    roles, F = 1, 1

    def __init__(self, y: Labels) -> None:
        self.sign = np.where(np.asarray(y) == 1, 1.0, -1.0).reshape(-1, 1)

    def __len__(self) -> int:
        return len(self.sign)

    def part(self, rows: slice) -> BinaryFactors:
        """The factors of some rows."""
        some = object.__new__(BinaryFactors)
        some.sign = self.sign[rows]
        return some

    def touching(self) -> Array:
        """One for each row."""
        return np.array([float(len(self))])

    def totals(self, x: Array) -> tuple[Array, Array]:
        """The sites themselves."""
        return x[0], x[1]

    def tilt(self, x: Array, *, s: Array, h: Array, g: Array, moved: Moved | None = None) -> Tilting:
        """The factors under their cavities."""
        return _BinaryTilting(self.sign, Role(x[0], x[1], h, g, moved), s)


class _BinaryTilting(Tilting):
    def __init__(self, sign: Array, role: Role, s: Array) -> None:
        self._sign, self._role, self._rest = sign, role, 1.0 + s
        self._at = tilted(sign * role.mean, self._rest + role.var)

    @property
    def target(self) -> Array:
        return np.stack(self._role.matched(self._at, rest=self._rest, sign=self._sign))

    @property
    def log_z(self) -> float:
        return self.log_phi + float(self._role.evidence().sum())

    @property
    def log_phi(self) -> float:
        return float(self._at.log_z.sum())

    @property
    def weights(self) -> Array:
        return np.stack([self._role.h, np.sqrt(self._role.h)])

    def slopes(self, *, exact: bool = False) -> Slopes:
        at = self._at
        return self._role.slopes(self._sign * at.slope, at.z_slope, at.curvature, exact=exact)


class PairFactors(Factors):
    """Several classes, 0..C-1; some may be absent."""

    roles = 2

    def __init__(self, y: Labels, classes: int) -> None:
        self.F = classes
        self._y = np.asarray(y, dtype=np.intp)

    def __len__(self) -> int:
        return len(self._y)

    @cached_property  # made for the rows of a block, not for all rows where they make many
    def _own(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self._y[:, None] == np.arange(self.F))

    @cached_property
    def _rival(self) -> Array:
        return np.where(self._own, 0.0, 1.0)

    def part(self, rows: slice) -> PairFactors:
        """The factors of some rows."""
        if rows.start == 0 and rows.stop >= len(self):
            return self
        return PairFactors(self._y[rows], self.F)

    def touching(self) -> Array:
        """One for each row of another class, C - 1 for each of its own."""
        return np.asarray(len(self) + np.bincount(self._y, minlength=self.F) * (self.F - 2.0))

    def totals(self, x: Array) -> tuple[Array, Array]:
        """Sites on f^k as they are, those on f^y summed over their rivals."""
        return self.gathered(x[0], x[1]), self.gathered(x[2], x[3])

    def gathered(self, own: Array, rival: Array) -> Array:
        """One number for each row and latent function from those of both roles, each (n, C)."""
        return np.where(self._own, own.sum(axis=1)[:, None], rival)

    def tilt(self, x: Array, *, s: Array, h: Array, g: Array, moved: Moved | None = None) -> Tilting:
        """The factors under their cavities."""
        of_own = None if moved is None else Moved(*(self.of_own(values) for values in moved))
        own = Role(x[0], x[2], self.of_own(h), self.of_own(g), of_own)
        rival = Role(x[1], x[3], h, g, moved)
        return _PairTilting(self, own, rival, s + self.of_own(s))

    def of_own(self, values: Array) -> Array:
        """Column (n, 1) of the rows' own classes."""
        return np.take_along_axis(values, self._y[:, None], axis=1)

    def rivals(self, values: Array) -> Array:
        """Values (n, C), with zeros at k = y."""
        return values * self._rival


class _PairTilting(Tilting):
    def __init__(self, factors: PairFactors, own: Role, rival: Role, s: Array) -> None:
        self._factors, self._own, self._rival, self._s = factors, own, rival, s
        self._at = tilted(own.mean - rival.mean, s + own.var + rival.var)

    @property
    def target(self) -> Array:
        at, own, rival = self._at, self._own, self._rival
        tau_y, b_y = own.matched(at, rest=self._s + rival.var, sign=1.0)
        tau_k, b_k = rival.matched(at, rest=self._s + own.var, sign=-1.0)
        return np.stack([self._factors.rivals(each) for each in (tau_y, tau_k, b_y, b_k)])

    @property
    def log_z(self) -> float:
        return self.log_phi + float(self._factors.rivals(self._own.evidence() + self._rival.evidence()).sum())

    @property
    def log_phi(self) -> float:
        return float(self._factors.rivals(self._at.log_z).sum())

    @property
    def weights(self) -> Array:
        own = np.broadcast_to(self._own.h, self._rival.h.shape)
        var = np.stack([own, self._rival.h])
        return np.concatenate([var, np.sqrt(var)])

    def slopes(self, *, exact: bool = False) -> Slopes:
        at, factors = self._at, self._factors
        lam, zeta, curvature = (factors.rivals(each) for each in (at.slope, at.z_slope, at.curvature))
        own = self._own.slopes(lam, zeta, curvature, exact=exact)
        rival = self._rival.slopes(-lam, zeta, curvature, exact=exact)
        pairs = zip(own, rival, strict=True)
        return Slopes(*(None if a is None or b is None else factors.gathered(a, b) for a, b in pairs))  # type: ignore[arg-type]  # lam, xi and zeta are never None
