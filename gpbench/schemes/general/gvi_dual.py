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
until a posterior is asked for; :mod:`gpbench.schemes.general.starts` says what is handed back then.

λ itself is searched for, as in the paper. On abalone (2,700 rows, 100 inducing inputs) that takes 77 evaluations with
100 pairs in memory and 216 with 20; log λ takes 219 and 641, since D's curvature along it grows with λ².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from gpbench.model.linalg import trsv
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.schemes.base import setting
from gpbench.schemes.general.bound import At, GaussianV, bound_at, factor, precision_of
from gpbench.schemes.general.run import Report, Solution, SolvedScheme

if TYPE_CHECKING:
    from gpbench.model.rows import Array
    from gpbench.schemes.general.observation import Observation
    from gpbench.schemes.general.rows import FeatureRows

__all__ = ["Dual", "DualAscent", "GVIDual"]

_EDGE = 1e-10
"""How near λ may come to the ends of its domain."""


@dataclass(frozen=True, kw_only=True)
class GVIDual(SolvedScheme):
    """L-BFGS-B on the dual."""

    dual_evaluations: int = setting(500, "evaluations of the dual for one kernel at most", minimum=1)

    name: ClassVar[str] = "gvi-dual"
    likelihoods: ClassVar[frozenset[str]] = frozenset({"logit", "poisson"})

    def solver(self) -> DualAscent:
        """The solver."""
        return DualAscent(self)


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
        return _EDGE, np.inf if self._counts else 1.0 - _EDGE

    def at(self, lam: Array) -> tuple[At, Array]:
        """The q of λ (n,) and its marginals, with -D as value, and the ascent gradient of D in λ."""
        rows, c = self._rows, self._observation.mean
        alpha = lam - self._y
        sums = rows.moments(weights=lam, targets=alpha)
        q = GaussianV(-sums.r, factor(precision_of(sums)), "precision")
        mu, s = rows.means(q.m_w), q.variances(rows)
        if self._counts:
            link = np.log(lam)
            conjugate = lam * link - lam
        else:
            link = np.log(lam) - np.log1p(-lam)
            conjugate = lam * np.log(lam) + (1.0 - lam) * np.log1p(-lam)
        value = float(np.log(np.diag(q.root)).sum()) - 0.5 * float(q.m_w @ q.m_w) + c * float(alpha.sum())
        value += 0.5 * float(lam @ rows.remainder) - float(conjugate.sum()) + self._constant
        return At(q, mu, s, -alpha, -0.5 * lam, -value, q.spread), 0.5 * s + mu + c - link

    def bound(self, at: At) -> float:
        """The variational bound at the q of ``at``."""
        fit, _, _ = self._observation.expectations(self._rows.y, at.mu, at.s)
        return fit - 0.5 * float(at.q.m_w @ at.q.m_w) - at.spread

    def primal(self, at: At) -> float:
        """What D is the dual of at the q of ``at``: the bound, or its surrogate; -D is never below its maximum.

        An unfinished search for λ leaves -D too large, which a search for hyper-parameters would be drawn to.
        """
        if self._counts:
            return self.bound(at)
        h = at.mu + self._observation.mean
        fit = float(self._y @ h) - float(np.logaddexp(0.0, h + 0.5 * at.s).sum())
        return fit - 0.5 * float(at.q.m_w @ at.q.m_w) - at.spread


class DualAscent:
    """The solver for one kernel."""

    def __init__(self, settings: GVIDual) -> None:
        self._settings = settings
        self.multipliers: Array | None = None

    def solve(
        self, rows: FeatureRows, observation: Observation, start: GaussianV, *, warm: bool, report: Report
    ) -> Solution:
        """Find q; see :class:`gpbench.schemes.general.run.Solver`.

        As in the paper λ begins at 1 or ½ on all rows. On a subset it begins where Laplace's approximation has it:
        K α = -(m - c), λ = α + ỹ.
        """
        settings, dual = self._settings, Dual(rows, observation)
        counts = observation.likelihood.name == "poisson"
        if warm and self.multipliers is not None:
            first = self.multipliers
        elif settings.rows == "subset":
            first = np.asarray(rows.y, dtype=np.float64) - trsv(rows.basis.L, start.m_w, trans=True)
        else:
            first = np.full(len(rows.y), 1.0 if counts else 0.5)
        low, high = dual.domain
        first = np.asarray(np.clip(first, low, high), dtype=np.float64)
        trial, slope = dual.at(first)
        best, kept, gradient = -np.inf, trial, slope
        least = _worth(rows, observation, start) if counts and not warm else -np.inf

        def objective(lam: Array) -> tuple[float, Array]:
            nonlocal trial, slope
            trial, slope = dual.at(lam)
            return -trial.value, slope

        def evaluated(value: float, *, improved: bool) -> None:  # noqa: ARG001 - the dual's best is not the primal's
            nonlocal best, kept, gradient
            with np.errstate(over="ignore"):  # minus infinity, far from the optimum
                primal = dual.primal(trial) if np.isfinite(value) else -np.inf
            if primal > best:
                best, kept, gradient = primal, trial, slope
            # below what the run started from the bound is not that of what it would hand back
            report(kept.q, best if counts and best >= least else None)

        search = LBFGSB(
            memory=settings.memory,
            gradient_tolerance=settings.gradient_tolerance,
            value_tolerance=settings.value_tolerance / max(1.0, abs(trial.value)),  # scipy's is relative
        )
        box = np.full(len(first), low), np.full(len(first), high)
        outcome = search.maximise(
            objective, first, max_evaluations=settings.dual_evaluations, bounds=box, on_evaluation=evaluated
        )
        self.multipliers = outcome.x
        lam = -2.0 * kept.h
        free = (lam > low) & (lam < high)  # at an end of the domain the gradient may point outside
        largest = float(np.abs(gradient[free]).max(initial=0.0))
        bound = best if counts else dual.bound(kept)
        converged = outcome.reason in {"converged", "line search"}
        return Solution(kept._replace(value=best), bound, largest, converged=converged)


def _worth(rows: FeatureRows, observation: Observation, start: GaussianV) -> float:
    """The bound of the better of the start and the prior."""
    with np.errstate(over="ignore"):
        return max(bound_at(rows, observation, q).value for q in (GaussianV.prior(rows.M), start))
