"""gvi-dual and sod-dual: the dual of the bound (Khan et al. 2013, adapted by Sheth, Wang and Khardon 2015, section 4).

==========  ============================================================================  ============
symbol      meaning                                                                       shape
==========  ============================================================================  ============
λ, α        multipliers of the variances (times ½) and means                              (n,)
ỹ           counts, or classes 0 and 1                                                    (n,)
T, κ̃        whitened features, and what they leave of the prior variance                  (n, M), (n,)
C           Cholesky factor of I + Tᵀ diag(λ) T                                           (M, M)
μ, s        c - T Tᵀ α and κ̃ + |C⁻¹ t|²                                                   (n,)
D           Σ log C_jj - ½ |Tᵀα|² + c Σ α + ½ λᵀκ̃ - Σ f*(α, λ)                             scalar
==========  ============================================================================  ============

The bound is maximised by minimising KL + Σ f(h, v), f the negative expected log likelihood at mean h and variance v;
f* is its Fenchel conjugate. In the optimum α = λ - ỹ, and L-BFGS-B has λ alone to search, with
∂D/∂λ = ½ s + μ - l(λ), l below.

- Counts: f = -y h + e^(h + v/2) + log y!, f* = λ log λ - λ - log y!, l = log λ, λ > 0. f is convex and D's maximum is
  minus that of the bound: strong duality.
- Two classes: log(1 + e^f) has no closed expectation. What is used is a **surrogate**, E log(1 + e^f) <= log(1 +
  e^(h + v/2)), with f* = λ log λ + (1 - λ) log(1 - λ), l = logit λ, 0 < λ < 1. It, too, has no duality gap; but it is
  a lower bound of the bound, is not symmetric in the classes, and so has its maximum at another q. This is what the
  paper calls the loss of strong duality. ``surrogate`` among a fit's facts is its value, ``bound`` the bound itself at
  the q that it leads to.
- Ordinal categories have no closed conjugate: refused, as in the paper.

D rises from one evaluation to the next. The bound at the q of the present λ need not: where counts are large it begins
far below that of the prior (80 counts of mean 4.4, a prior variance of 1: -1e75 nats), until λ has found its size. So
the q that is kept is the best by the primal, which is the bound for counts, the surrogate for two classes; with 100
inducing inputs it takes a fiftieth of an evaluation. Quadrature of two classes' bound would take two fifths: it waits
until a posterior is asked for; :mod:`gpbench.schemes.general.training` says what is handed back then.

λ itself is searched for, as in the paper. On abalone (2,700 rows, 100 inducing inputs) that takes 77 evaluations with
100 pairs in memory and 216 with 20; log λ takes 219 and 641, since D's curvature along it grows with λ².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from gpbench.model.gaussian import GaussianQ
from gpbench.model.linalg import trsv
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.maximise import Point, maximise
from gpbench.schemes.base import setting
from gpbench.schemes.general import settings
from gpbench.schemes.general.bound import At, Solution, bound_at, bound_gradient, precision_factor, precision_of
from gpbench.schemes.general.settings import GeneralScheme
from gpbench.schemes.general.training import SparseScheme, SubsetScheme

if TYPE_CHECKING:
    from gpbench.model.rows import Array
    from gpbench.schemes.general.bound import FeatureRows, Report
    from gpbench.schemes.general.settings import Observation

__all__ = ["Dual", "DualAscent", "DualSettings", "GVIDual", "SoDDual"]

_END = 1e-10
"""How near λ may come to the ends of its domain."""


@dataclass(frozen=True, kw_only=True)
class DualSettings(GeneralScheme):
    """What the solver reads, on all rows or on a subset."""

    likelihood: str = settings.likelihood("logit", "poisson")
    gradient_tolerance: float = settings.gradient_tolerance()
    value_tolerance: float = settings.value_tolerance()
    dual_evaluations: int = setting(500, "evaluations of the dual for one kernel at most", minimum=1)


@dataclass(frozen=True, kw_only=True)
class GVIDual(DualSettings, SparseScheme):
    """L-BFGS-B on the dual."""

    name: ClassVar[str] = "gvi-dual"

    def solver(self) -> DualAscent:
        """The dual's ascent."""
        return DualAscent(self)


@dataclass(frozen=True, kw_only=True)
class SoDDual(DualSettings, SubsetScheme):
    """The same on the active set's own rows."""

    name: ClassVar[str] = "sod-dual"

    def solver(self) -> DualAscent:
        """The dual's ascent."""
        return DualAscent(self, from_laplace=True)


class Dual:
    """D as a function of λ.

    Parameters
    ----------
    rows : FeatureRows
    observation : Observation
        Poisson or logit.
    """

    def __init__(self, rows: FeatureRows, observation: Observation) -> None:
        self._rows, self._observation = rows, observation
        self._counts = observation.likelihood.name == "poisson"
        y = np.asarray(rows.y, dtype=np.float64)
        self._y = y
        self._constant = float(special.gammaln(y + 1.0).sum()) if self._counts else 0.0

    @property
    def domain(self) -> tuple[float, float]:
        """Least and largest λ."""
        return _END, np.inf if self._counts else 1.0 - _END

    def at(self, lam: Array) -> tuple[At, Array]:
        """The q of λ (n,) and its marginals, with -D as value, and the ascent gradient of D in λ."""
        rows, c = self._rows, self._observation.mean
        alpha = lam - self._y
        sums = rows.moments(weights=lam, targets=alpha)
        q = GaussianQ(-sums.r, precision_factor(precision_of(sums)), "precision")
        mu, s = rows.means(q.mean), rows.variances(q)
        if self._counts:
            link = np.log(lam)
            conjugate = lam * link - lam
        else:
            link = np.log(lam) - np.log1p(-lam)
            conjugate = lam * np.log(lam) + (1.0 - lam) * np.log1p(-lam)
        value = float(np.log(np.diag(q.root)).sum()) - 0.5 * float(q.mean @ q.mean) + c * float(alpha.sum())
        value += 0.5 * float(lam @ rows.remainder) - float(conjugate.sum()) + self._constant
        return At(q, mu, s, -alpha, -0.5 * lam, -value), 0.5 * s + mu + c - link

    def bound(self, at: At) -> float:
        """The variational bound at the q of ``at``."""
        fit, _, _ = self._rows.expectations(self._observation, at.mu, at.s)
        return fit - at.q.kl

    def primal(self, at: At) -> float:
        """What D is the dual of at the q of ``at``: the bound, or its surrogate; -D is never below its maximum.

        An unfinished search for λ leaves -D too large, which a search for hyper-parameters would be drawn to.
        """
        if self._counts:
            return self.bound(at)
        h = at.mu + self._observation.mean
        fit = float(self._y @ h) - float(np.logaddexp(0.0, h + 0.5 * at.s).sum())
        return fit - at.q.kl


class DualAscent:
    """The solver for one kernel after another.

    Parameters
    ----------
    scheme : DualSettings
        Its settings.
    from_laplace : bool
        Whether λ begins where ``start``, Laplace's approximation on the same rows, has it; else at 1 or ½.

    Attributes
    ----------
    multipliers : (n,) or None
        The best λ by D of the last kernel.
    """

    def __init__(self, scheme: DualSettings, *, from_laplace: bool = False) -> None:
        self._scheme, self._from_laplace = scheme, from_laplace
        self.multipliers: Array | None = None

    def solve(
        self, rows: FeatureRows, observation: Observation, start: GaussianQ, *, warm: bool, report: Report
    ) -> Solution:
        """Find q; see :class:`gpbench.schemes.general.bound.Solver`.

        As in the paper λ begins at 1 or ½ on all rows. On a subset it begins where Laplace's approximation has it:
        K α = -(m - c), λ = α + ỹ.
        """
        scheme, dual = self._scheme, Dual(rows, observation)
        first = np.clip(self._first(rows, observation, start, warm=warm), *dual.domain)
        counts = observation.likelihood.name == "poisson"
        at, slope = dual.at(first)
        trial, used = (at, slope), 0
        best, kept, gradient = -np.inf, at, slope
        least = _best_start(rows, observation, start) if counts and not warm else -np.inf

        def point(lam: Array) -> Point[At]:
            nonlocal trial, used, best, kept, gradient
            if used > 0:  # the first is known already
                trial = dual.at(lam)
            used += 1
            at, slope = trial
            primal = dual.primal(at) if np.isfinite(at.value) else -np.inf
            if primal > best:
                best, kept, gradient = primal, at, slope
            return Point(-at.value, slope, at)

        def report_best(_at: At, _value: float) -> None:
            # below what training started from the bound is not that of what it would hand back
            report(kept.q, best if counts and best >= least else None)

        search = LBFGSB(
            memory=scheme.memory,
            gradient_tolerance=scheme.gradient_tolerance,
            value_tolerance=scheme.value_tolerance / max(1.0, abs(at.value)),  # scipy's is relative
        )
        low, high = (np.full(len(first), end) for end in dual.domain)
        found = maximise(
            point,
            first,
            search=search,
            evaluations=lambda: scheme.dual_evaluations - used,
            bounds=(low, high),
            on_evaluation=report_best,
        )
        self.multipliers = found.x
        lam = -2.0 * kept.h
        free = (lam > low) & (lam < high)  # at an end of the domain the gradient may point outside
        objective = kept._replace(value=best)
        return Solution(
            kept.q,
            best,
            best if counts else dual.bound(kept),
            found.stopped_by,
            lambda: bound_gradient(rows, observation, objective),
            gradient=float(np.abs(gradient[free]).max(initial=0.0)),
        )

    def _first(self, rows: FeatureRows, observation: Observation, start: GaussianQ, *, warm: bool) -> Array:
        """Where λ begins, shape (n,)."""
        if warm and self.multipliers is not None:
            return self.multipliers
        if self._from_laplace:
            return np.asarray(rows.y, dtype=np.float64) - trsv(rows.basis.L, start.mean, trans=True)
        return np.full(len(rows.y), 1.0 if observation.likelihood.name == "poisson" else 0.5)


def _best_start(rows: FeatureRows, observation: Observation, start: GaussianQ) -> float:
    """The bound of the better of the start and the prior."""
    with np.errstate(over="ignore"):
        return max(bound_at(rows, observation, q).value for q in (GaussianQ.prior(rows.M), start))
