"""One training run of x-gpc: batches, step sizes and stopping around :class:`gpbench.schemes.xgpc_state.State`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gpbench.model.posterior import Posterior
from gpbench.optimize.hyper import KernelSteps
from gpbench.optimize.minibatch import Minibatches, hold_out
from gpbench.optimize.rates import AdaptiveRate, GrowingWindow
from gpbench.optimize.stopping import Checks, HeldOut, ParameterChange
from gpbench.schemes.base import OnStep, Step
from gpbench.schemes.xgpc_state import State, Target

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.schemes.xgpc import XGPC

__all__ = ["Run"]

HELD_OUT_FROM = 10_000
"""Rows from which on the rule ``auto`` spares some for validation."""
FIRST_CHECK, CHECK_RATIO, PATIENCE = 1500, 1.2, 4
"""Iterations with a look at convergence: 1500, 1800, 2160 ...; a loss must fall within four looks, while t doubles.
Earlier the noise of mini-batches hides what is gained: on a9a nothing between 500 and 1000, then 1 % until 2000."""
FIRST_GRADIENTS = 50
"""Gradients averaged before the adaptive rate's first step, and its first memory, as in the paper's code."""


class Run:
    """Training of one posterior.

    Parameters
    ----------
    settings : XGPC
    X : (n, d)
    y : (n,)
        0 or 1.
    inducing, likelihood, rng
        As in ``fit``.

    Attributes
    ----------
    iteration : int
        Mini-batch steps so far.
    stopped_by : str
        ``converged`` or ``iterations``; ``on_step`` while neither is the case.
    """

    def __init__(
        self,
        settings: XGPC,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        rng: np.random.Generator,
    ) -> None:
        self.iteration, self.stopped_by = 0, "on_step"
        self._settings, self._X, self._y, self._rng, self._likelihood = settings, X, y, rng, likelihood
        self._signs = np.where(np.asarray(y) == 1, 1, -1).astype(np.int8)  # a byte a row: more of them fit the cache
        kernel = settings.initial_kernel(X)
        self._state = State(kernel, inducing.choose(X))
        self._steps = KernelSteps(
            kernel,
            rate=settings.hyper_rate,
            decay=settings.hyper_decay,
            noise_floor=settings.noise_floor,
            thinning=settings.hyper_thinning,
        )
        self._learns = settings.hyperparameters == "learned" and settings.hyper_rate > 0
        self._window = GrowingWindow(settings.window)
        self._adaptive = AdaptiveRate(FIRST_GRADIENTS)
        self._rho = 1.0
        self._checks = Checks(first=FIRST_CHECK, ratio=CHECK_RATIO)
        self._choose_rule(len(X))

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"iteration {self.iteration}"

    def train(self, on_step: OnStep) -> None:
        """Learn until the rule says so or the iterations are used up, then settle.

        Raises
        ------
        NumericalError
            A factorisation failed past every remedy.
        StopTraining
            From ``on_step``, between two iterations.
        """
        settings = self._settings
        batches = Minibatches(len(self._X), settings.batch_size, rng=self._rng, without=self._held_out_rows)
        if settings.rate_rule == "adaptive":
            self._first_gradients(batches)
        last = max(1, math.floor(settings.max_iterations / (1.0 + settings.settle)))
        ended = "iterations"
        while self.iteration < last:
            self._learn(batches)
            on_step(Step(self.iteration, bound=None, posterior=self.posterior))
            if self._checks.due(self.iteration) and self._converged():
                ended = "converged"
                break
        batches = Minibatches(len(self._X), settings.batch_size, rng=self._rng)  # the validation rows come back
        memory = 1.0 / self._rho if self._rho > 0.0 else math.inf
        left = settings.max_iterations - self.iteration
        for k in range(min(left, round(settings.settle * self.iteration))):
            X, y = self._rows(batches)
            self._rho = 1.0 / (memory + k + 1)
            self._state.step(X, y, scale=batches.scale, rate=self._rho)
            self.iteration += 1
            on_step(Step(self.iteration, bound=None, posterior=self.posterior))
        self.stopped_by = ended

    def posterior(self) -> Posterior:
        """The posterior of this moment."""
        latent = self._state.latent()
        facts = {
            "iterations": self.iteration,
            "stopped_by": self.stopped_by,
            "jitter": latent.jitter,
            "hyperparameters": latent.kernel.values(),
        }
        return Posterior((latent,), self._likelihood, classes=2, facts=facts)

    def _rows(self, batches: Minibatches) -> tuple[Array, Array]:
        rows = batches.draw()
        return self._X[rows], self._signs[rows].astype(np.float64)

    def _learn(self, batches: Minibatches) -> None:
        """One iteration: q moves, and with it or every few iterations the kernel."""
        X, y = self._rows(batches)
        state = self._state
        if self._learns and self._steps.due(self.iteration):
            target, gradient = state.target_and_gradient(X, y, scale=batches.scale)
            state.update(target, rate=self._rate(target))
            kernel = self._steps.step(state.basis.kernel, gradient, t=self.iteration, Z=state.basis.Z)
            state.move(kernel, keep="q" if self._settings.keep == "q" else "sites")
        elif self._settings.rate_rule == "adaptive":
            target = state.target(X, y, scale=batches.scale)
            state.update(target, rate=self._rate(target))
        else:
            state.step(X, y, scale=batches.scale, rate=self._rate(None))
        self.iteration += 1

    def _rate(self, target: Target | None) -> float:
        settings = self._settings
        if settings.rate_rule == "annealed":
            self._rho = self._window.rate(self.iteration)
        elif settings.rate_rule == "constant":
            self._rho = 0.05 if settings.rate is None else settings.rate
        elif target is not None and self.iteration % settings.adapt_every == 0:
            floor = (0.02 if self._learns else 0.0) if settings.rate is None else settings.rate
            self._rho = max(self._adaptive.rate(self._state.natural_gradient(target)), floor)
        return self._rho

    def _first_gradients(self, batches: Minibatches) -> None:
        while not self._adaptive.ready:
            X, y = self._rows(batches)
            target = self._state.target(X, y, scale=batches.scale)
            self._adaptive.observe(self._state.natural_gradient(target))

    def _choose_rule(self, n: int) -> None:
        settings = self._settings
        rule = settings.stop
        if rule == "auto":
            rule = "held-out" if n >= HELD_OUT_FROM else "parameters"
        default = 1e-3 if rule == "held-out" else 1e-4
        tolerance = default if settings.tolerance is None else settings.tolerance
        self._held_out_rows = None
        self._change = ParameterChange(tolerance) if rule == "parameters" else None
        self._held_out = None
        if rule == "held-out" and n >= 10:
            self._held_out_rows = hold_out(n, min(settings.validation, n // 10), rng=self._rng)
            self._held_out = HeldOut(tolerance, patience=PATIENCE)

    def _converged(self) -> bool:
        if self._change is not None:
            return self._change.converged(self.iteration, self._state.parameters())
        if self._held_out is None or self._held_out_rows is None:
            return False
        score = self.posterior().score(self._X[self._held_out_rows], self._y[self._held_out_rows])
        return self._held_out.converged(-float(score.log_density.mean()))
