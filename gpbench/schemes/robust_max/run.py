"""Training of vi-mgpc: L-BFGS-B on all rows, and Adam on mini-batches.

========  ===============================================================  =======
symbol    meaning                                                          shape
========  ===============================================================  =======
x         the unknowns of the bound, as RobustMaxBound orders them         (size,)
free      which of them move                                               (k,)
========  ===============================================================  =======

Jitter keeps its absolute value while L-BFGS-B runs, since one that follows θ would need a gradient; where a line search
fails, mostly because that jitter no longer suffices, the search starts again with a new one and a new approximation of
the Hessian. A mini-batch step that fails is taken again from the state before, at half the rate.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.posterior import Posterior
from gpbench.optimize.adam import Adam
from gpbench.schemes.batch_settings import LOG_BOUND, Evaluations
from gpbench.schemes.minibatch_training import persist, train_by_minibatches
from gpbench.schemes.robust_max.bound import log_odds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from gpbench.model.batch import BatchBasis
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.lbfgsb import Reason
    from gpbench.schemes.base import OnStep
    from gpbench.schemes.robust_max.bound import RobustMaxBound
    from gpbench.schemes.robust_max.vi_mgpc import VIMGPC

    Index = npt.NDArray[np.intp]

__all__ = ["BatchRun", "StochasticRun"]

EVALUATIONS, STEPS = 1000, 10_000
"""Where ``max_iterations`` is none."""
EPSILON_RANGE = 1e-9, 0.999
"""Where ε stays while it is learned."""
RETRIES = 20
"""Halvings of the rate at one mini-batch, at most."""
DIVERGED = 1e8
"""An unknown of this size has no meaning."""


class _Run:
    """What both ways of training share."""

    def __init__(self, settings: VIMGPC, bound: RobustMaxBound, X: Rows, y: Labels, *, classes: int) -> None:
        self._settings, self._bound, self._X, self._y, self._classes = settings, bound, X, np.asarray(y), classes
        self.x = bound.start()
        self.bases = bound.bases(self.x)
        self.stopped_by = "on_step"
        places = bound.places
        parts = [places.q]
        parts += [places.theta] if settings.hyperparameters == "learned" else []
        parts += [places.Z] if settings.learn_inducing else []
        self._joint = len(parts) > 1
        self._free: Index = np.concatenate([*parts, places.rho] if settings.learn_epsilon else parts)
        self._low, self._high = np.full(bound.size, -np.inf), np.full(bound.size, np.inf)
        self._low[places.theta], self._high[places.theta] = -LOG_BOUND, LOG_BOUND
        self._low[places.rho], self._high[places.rho] = (log_odds(end) for end in EPSILON_RANGE)

    def _posterior(self, x: Array, bases: Sequence[BatchBasis], iterations: int) -> Posterior:
        likelihood = self._bound.likelihood(x)
        facts = {
            "iterations": iterations,
            "stopped_by": self.stopped_by,
            "jitter": max(basis.jitter for basis in bases),
            "epsilon": likelihood.epsilon,
            "hyperparameters": [basis.kernel.values() for basis in bases],
        }
        return Posterior(self._bound.latents(x, bases), likelihood, classes=self._classes, facts=facts)


class BatchRun(_Run):
    """L-BFGS-B on all rows; keeps the best unknowns so far."""

    def __init__(self, settings: VIMGPC, bound: RobustMaxBound, X: Rows, y: Labels, *, classes: int) -> None:
        super().__init__(settings, bound, X, y, classes=classes)
        self.value = -math.inf
        limit = EVALUATIONS if settings.max_iterations is None else settings.max_iterations
        self._evaluations = Evaluations(limit, posterior=self.posterior)

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"evaluation {self._evaluations.count}"

    def train(self, on_step: OnStep) -> None:
        """Search until no search gains anything, or the evaluations are used up."""
        settings, evaluations = self._settings, self._evaluations
        evaluations.on_step = on_step
        if settings.learn_epsilon and settings.hold_epsilon > 0:
            self._climb(self._free[:-1], line_searches=settings.hold_epsilon)
        reason: Reason = "evaluations"
        while evaluations.left > 0:
            before = self.value
            reason = self._climb(self._free)
            gained = self.value - before > settings.value_tolerance * abs(before)  # NaN and infinity: yes
            if reason != "line search" or (math.isfinite(before) and not gained):
                break
        used_up = evaluations.left <= 0 or reason in {"evaluations", "iterations"}
        self.stopped_by = "iterations" if used_up else "converged"

    def posterior(self) -> Posterior:
        """The posterior of the best state so far."""
        return self._posterior(self.x, self.bases, self._evaluations.count)

    def _climb(self, free: Index, *, line_searches: int | None = None) -> Reason:
        """One search over the unknowns at the places ``free``, from the best state so far."""
        bound, search = self._bound, self._settings.search()
        if line_searches is not None:
            search = replace(search, max_iterations=line_searches)
        self.bases = bound.bases(self.x)  # a new jitter
        jitters = [basis.jitter for basis in self.bases]
        self.value = -math.inf  # another jitter, another bound
        tried, trial = self.x.copy(), self.bases

        def objective(values: Array) -> tuple[float, Array]:
            nonlocal trial
            tried[free] = values
            if self._joint:
                trial = bound.bases(tried, jitters=jitters)
            at = bound.at(tried, self._X, self._y, bases=trial, kernel_gradient=self._joint)
            return at.value, at.gradient[free]

        def evaluated(value: float, *, improved: bool) -> None:
            if improved:
                self.x, self.bases, self.value = tried.copy(), trial, value
            self._evaluations.report(self.value)

        outcome = search.maximise(
            objective,
            self.x[free],
            max_evaluations=self._evaluations.left,
            bounds=(self._low[free], self._high[free]),
            on_evaluation=evaluated,
        )
        return outcome.reason


class StochasticRun(_Run):
    """Adam on mini-batches."""

    def __init__(
        self,
        settings: VIMGPC,
        bound: RobustMaxBound,
        X: Rows,
        y: Labels,
        *,
        classes: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(settings, bound, X, y, classes=classes)
        self.iteration, self.rate = 0, settings.rate
        self._rng, self._good = rng, self.x
        self._adam = Adam(len(self._free))

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"iteration {self.iteration}"

    def train(self, on_step: OnStep) -> None:
        """Step until the rule says so or the iterations are used up.

        Raises
        ------
        NumericalError
            A step failed past every remedy.
        """
        settings = self._settings
        limit = STEPS if settings.max_iterations is None else settings.max_iterations
        self.stopped_by = train_by_minibatches(
            self, settings, self._X, self._y, limit=limit, rng=self._rng, on_step=on_step
        )

    def posterior(self) -> Posterior:
        """The posterior of this moment."""
        return self._posterior(self.x, self._bound.bases(self.x), self.iteration)

    def step(self, X: Array, y: Labels, *, scale: float) -> None:
        """One step on a batch X (b, d), y (b,), with ζ = ``scale``.

        Raises
        ------
        NumericalError
            It failed past every remedy.
        """

        def step_back() -> None:
            self.rate *= 0.5
            self.x = self._good
            self._adam = Adam(len(self._free))
            self.bases = self._bound.bases(self.x)

        persist(lambda: self._try_step(X, y, scale=scale), step_back=step_back, tries=RETRIES)
        self.iteration += 1

    def _try_step(self, X: Array, y: Labels, *, scale: float) -> None:
        """A step that leaves the unknowns as they were if it fails."""
        if self._joint:
            self.bases = self._bound.bases(self.x)
        at = self._bound.at(self.x, X, y, bases=self.bases, scale=scale, kernel_gradient=self._joint)
        if self.iteration < self._settings.hold_epsilon:
            at.gradient[self._bound.places.rho] = 0.0
        good, x = self.x, self.x.copy()
        moved = x[self._free] + self._adam.step(at.gradient[self._free], rate=self.rate)
        largest = np.abs(moved).max()
        if not largest < DIVERGED:  # also catches NaN
            raise NumericalError(f"a step led to unknowns of size {largest:.3g}")
        x[self._free] = np.clip(moved, self._low[self._free], self._high[self._free])
        self._good, self.x = good, x
