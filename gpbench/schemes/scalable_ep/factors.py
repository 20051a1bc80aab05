"""Scalable EP's factors of two classes and of several: cavities, new sites, evidence, and what its gradient is made of.

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
n, F      rows, latent functions (1, or the number of classes C)
u, ν      inducing values, and ν = K_mm⁻¹ k(Z, x): given u, f(x) has mean νᵀu and variance s      (M,)
s, h, g   κ - |t|²; variance νᵀVν and mean νᵀm of νᵀu under q(u) = N(m, V)                        (n, F)
c₁, c₂    sites exp(-½ c₁ (νᵀu)² + c₂ νᵀu), c₁ ≥ 0                                                see x
w         the vector that a site stands on, if it is another than ν                              (M,)
x         all sites of the rows: c₁ of each role, then c₂ of each role                         (2R, n, F)
d₁, b₂    derivatives of log Φ(β) in the gap: first, and minus the second
λ         derivative of log Φ(β) in the cavity's mean of νᵀu                                     (n, F)
ζ         derivative of log Φ(β) in z, and so in the cavity's variance and in s                  (n, F)
========  ===================================================================================  ===========

Two classes (one role): Φ(y νᵀu / √(1 + s)). Several: φ_ik = Φ((ν^yᵀu^y - ν^kᵀu^k) / √(s^y + s^k)) for each k ≠ y_i,
villacampa2017's factors (6), each with a site on ν^yᵀu^y (the role "own") and one on ν^kᵀu^k (the role "rival"); what
stands at k = y_i is zero.

The gradient, eq. (10) of villacampa2017, takes log Φ(β) with the cavity held: ν enters through νᵀm⁻, with weight λ, and
νᵀV⁻ν, with ζ. With γ = 1 / (1 - c₁h), V⁻ν = γ V ν and m⁻ = m + γ (c₁g - c₂) V ν, so that a row adds λ m + ξ V ν,
ξ = γ [λ (c₁g - c₂) + 2ζ]. Where a site stands on another vector w than the current ν (mini-batches), it adds
λ m + 2ζ V ν + χ V w, χ = γ [λ (c₁ wᵀm - c₂) + 2ζ c₁ νᵀVw] with γ = 1 / (1 - c₁ wᵀVw).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpbench.model.sites import cavity, cavity_evidence, matched_site, share_left, tilted

if TYPE_CHECKING:
    import numpy.typing as npt

    from gpbench.model.rows import Array, Labels
    from gpbench.model.sites import Tilted

__all__ = ["BinaryFactors", "Factors", "Moved", "PairFactors", "Slopes", "TiltedFactors"]


class Moved(NamedTuple):
    """wᵀVw, νᵀVw and wᵀm, each (n, F), for sites that stand on other vectors w than ν."""

    var: Array
    cross: Array
    mean: Array


class Slopes(NamedTuple):
    """What a row adds to the gradient of log Z, for each latent function: (n, F) each.

    Attributes
    ----------
    lam, xi, zeta
        Weights of m and V ν, and the derivative in s.
    chi : or None
        Weight of V w, where sites stand on other vectors.
    e1, e2 : or None
        Mismatch of moments: mean and second moment, for the exact gradient away from EP's fixed point.
    """

    lam: Array
    xi: Array
    zeta: Array
    chi: Array | None = None
    e1: Array | None = None
    e2: Array | None = None


class Role:
    """Sites of one role with their cavities.

    Parameters
    ----------
    c1, c2, h, g
        Of any shapes that broadcast.
    moved : Moved or None
        Where sites stand on other vectors.

    Attributes
    ----------
    mean, var
        Of νᵀu under the cavity.

    Raises
    ------
    NumericalError
        A cavity is improper by more than rounding.
    """

    def __init__(self, c1: Array, c2: Array, h: Array, g: Array, moved: Moved | None) -> None:
        self.c1, self.c2, self.h, self.g, self.moved = c1, c2, h, g, moved
        if moved is None:
            self.mean, self.var = cavity(g, h, tau=c1, b=c2)
            return
        pull = moved.cross / share_left(moved.var, tau=c1)
        self.var = h + c1 * moved.cross * pull
        self.mean = g + pull * (c1 * moved.mean - c2)

    def matched(self, at: Tilted, *, rest: Array | float, sign: Array | float) -> tuple[Array, Array]:
        """c₁ and c₂ that match the tilted moments; arguments as in :func:`gpbench.model.sites.matched_site`."""
        return matched_site(at, mean=self.mean, var=self.var, rest=rest, sign=sign)

    def evidence(self) -> Array:
        """Log normaliser of the cavity minus that of q(u)."""
        if self.moved is None:
            return cavity_evidence(self.g, self.h, tau=self.c1, b=self.c2)
        return cavity_evidence(self.moved.mean, self.moved.var, tau=self.c1, b=self.c2)

    def slopes(self, lam: Array, zeta: Array, curvature: Array, *, exact: bool) -> Slopes:
        """What the factors add to the gradient through this role; ``curvature`` is b₂."""
        c1, twice = self.c1, 2.0 * zeta
        if self.moved is not None:
            var, cross, mean = self.moved
            gamma = 1.0 / share_left(var, tau=c1)
            return Slopes(lam, twice, zeta, chi=gamma * (lam * (c1 * mean - self.c2) + twice * c1 * cross))
        gamma = 1.0 / share_left(self.h, tau=c1)
        shift = c1 * self.g - self.c2
        xi = gamma * (lam * shift + twice)
        if not exact:
            return Slopes(lam, xi, zeta)
        e1 = gamma * (shift + lam)
        return Slopes(lam, xi, zeta, e1=e1, e2=gamma * (c1 - gamma * curvature) + e1 * e1)


class TiltedFactors(ABC):
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
    def tilt(self, x: Array, *, s: Array, h: Array, g: Array, moved: Moved | None = None) -> TiltedFactors:
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

    def tilt(self, x: Array, *, s: Array, h: Array, g: Array, moved: Moved | None = None) -> TiltedFactors:
        """The factors under their cavities."""
        return _TiltedProbits(self.sign, Role(x[0], x[1], h, g, moved), s)


class _TiltedProbits(TiltedFactors):
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

    def tilt(self, x: Array, *, s: Array, h: Array, g: Array, moved: Moved | None = None) -> TiltedFactors:
        """The factors under their cavities."""
        of_own = None if moved is None else Moved(*(self.of_own(values) for values in moved))
        own = Role(x[0], x[2], self.of_own(h), self.of_own(g), of_own)
        rival = Role(x[1], x[3], h, g, moved)
        return _TiltedPairs(self, own, rival, s + self.of_own(s))

    def of_own(self, values: Array) -> Array:
        """Column (n, 1) of the rows' own classes."""
        return np.take_along_axis(values, self._y[:, None], axis=1)

    def rivals(self, values: Array) -> Array:
        """Values (n, C), with zeros at k = y."""
        return values * self._rival


class _TiltedPairs(TiltedFactors):
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
