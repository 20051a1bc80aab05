"""One training run of the vi-jj family. Symbols as in :mod:`gpbench.schemes.jaakkola.vijj`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpbench.model.basis_old import Basis
from gpbench.model.functions import log_sigmoid
from gpbench.model.posterior import Posterior
from gpbench.model.whitened import Block, Whitened, marginals
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.schemes.batch_settings import LOG_BOUND, Evaluations
from gpbench.schemes.jaakkola.collapsed import Collapsed, Pending, Quadratic, collapse, collapsed_gradient, finish
from gpbench.schemes.jaakkola.logistic_bounds import jaakkola_jordan, jaakkola_jordan_slope, taylor

if TYPE_CHECKING:
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.schemes.base import OnStep
    from gpbench.schemes.jaakkola.vijj import VIJJ

__all__ = ["Run"]

LEAST_XI = 1e-3
"""Lower limit of ξ where L-BFGS-B moves it: the bound is even in ξ, and flat at 0."""
SMALLEST_STEP = 2.0**-20
"""A Newton step is halved down to this; by then the mode is reached to rounding."""


@dataclass(frozen=True, eq=False)
class _State:
    """Kernel at the inducing inputs, ξ (n,), and the best q for them."""

    basis: Basis
    xi: Array
    at: Collapsed


class _Mode(NamedTuple):
    """A point on the way to the mode of Taylor's stage 1: f = T v (n,), and v (M,)."""

    f: Array
    v: Array

    def objective(self, y: Array) -> float:
        """Ψ."""
        return float(log_sigmoid(y * self.f).sum()) - 0.5 * float(self.v @ self.v)


def _towards(target: _Mode, start: _Mode, y: Array) -> _Mode:
    """The first point of start + (target - start) / 2^k, k = 0, 1 ..., that is no worse than the start."""
    before = start.objective(y)
    slack = 1e-12 * abs(before)  # rounding, at the mode
    step = 1.0
    while step >= SMALLEST_STEP:
        point = _Mode(*((1.0 - step) * a + step * b for a, b in zip(start, target, strict=True)))
        if point.objective(y) >= before - slack:
            return point
        step *= 0.5
    return start


class Run:
    """Training of one posterior.

    Parameters
    ----------
    settings : VIJJ
    X : (n, d)
    y : (n,)
        0 or 1.
    Z : (M, d)
    likelihood
        As in ``fit``.

    Attributes
    ----------
    evaluations : Evaluations
        Of Ĵ: closed-form updates and evaluations of stage 2 alike.
    stopped_by : str
        ``converged`` or ``iterations``; ``on_step`` while neither is the case.
    """

    def __init__(self, settings: VIJJ, X: Rows, y: Labels, *, Z: Array, likelihood: Likelihood) -> None:
        self._settings, self._X, self._likelihood = settings, X, likelihood
        self._y = np.where(np.asarray(y) == 1, 1.0, -1.0)
        self._size = settings.block_rows
        self._form = jaakkola_jordan if settings.bound == "jj" else taylor
        self.stopped_by = "on_step"
        self.evaluations = Evaluations(settings.max_iterations, posterior=self.posterior)
        basis = Basis(settings.initial_kernel(X), Z)
        n, M = len(y), len(Z)
        prior = Collapsed(-math.inf, Whitened.prior(M), np.eye(M), Pending(M).sums)
        self._state = _State(basis, np.ones(n) if settings.variant == "full" else np.zeros(n), prior)
        self._mode: _Mode | None = None

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"evaluation {self.evaluations.count}"

    def train(self, on_step: OnStep) -> None:
        """Learn until the bound stands still or the evaluations are used up."""
        self.evaluations.on_step = on_step
        settings = self._settings
        ended = "iterations"
        if settings.variant == "full":
            search = LBFGSB(
                memory=settings.memory,
                gradient_tolerance=settings.gradient_tolerance,
                value_tolerance=settings.value_tolerance,
            )
            if self._climb(search, evaluations=self.evaluations.left, move_xi=True) != "evaluations":
                ended = "converged"
        else:
            q = self._first_q()
            while self.evaluations.left > 0:
                before = self._state.at.value
                self._stage_1(q)
                if settings.hyperparameters == "learned" and self.evaluations.left > 0:
                    evaluations = min(settings.stage_evaluations, self.evaluations.left)
                    self._climb(
                        LBFGSB(memory=settings.memory), evaluations=evaluations, move_xi=settings.variant == "hybrid"
                    )
                q = self._state.at.q
                rise = abs(self._state.at.value - before)
                if math.isfinite(rise) and rise <= settings.tolerance * max(1.0, abs(before)):
                    ended = "converged"
                    break
        self.stopped_by = ended

    def posterior(self) -> Posterior:
        """The posterior of the best state so far."""
        state = self._state
        facts = {
            "iterations": self.evaluations.count,
            "stopped_by": self.stopped_by,
            "jitter": state.basis.jitter,
            "hyperparameters": state.basis.kernel.values(),
        }
        return Posterior((state.at.latent(state.basis),), self._likelihood, classes=2, facts=facts)

    def _first_q(self) -> Whitened:
        """q(u) = N(0, I), where Algorithm 1 begins."""
        L_inv = self._state.basis.L_inv
        return Whitened.of_root(np.zeros(len(L_inv)), L_inv)

    def _quadratics(self, xi: Array, rows: slice) -> Quadratic:
        return self._form(self._y[rows], xi[rows])

    def _stage_1(self, q: Whitened) -> None:
        """Closed-form updates: ξ from q, then the best q for ξ."""
        self._mode = None
        for _ in range(min(self._settings.updates, self.evaluations.left)):
            state = self._update(q) if self._settings.bound == "jj" else self._newton(q)
            self._state, q = state, state.at.q
            self.evaluations.report(state.at.value)

    def _update(self, q: Whitened) -> _State:
        """ξ² = μ² + s (15) and the q that is best for it, (12) and (13), in one walk over the rows."""
        basis, xi = self._state.basis, np.empty(len(self._y))
        pending = Pending(len(basis.Z))
        for block in marginals(basis, self._X, q, size=self._size):
            xi[block.rows] = np.sqrt(np.square(block.mu) + block.s)
            pending.add(block.T, basis.kernel.diag(block.X), self._quadratics(xi, block.rows))
        return _State(basis, xi, finish(pending))

    def _newton(self, q: Whitened) -> _State:
        """ξ = μ and the q that is best for it, (17) and (18); a shorter step where the mode's objective would fall.

        That objective is Ψ(v) = Σ log σ(y f) - ½|v|², f = T v: on the line between two v, f moves on a line too.
        """
        basis, f = self._state.basis, np.empty(len(self._y))
        for block in marginals(basis, self._X, q, size=self._size):
            f[block.rows] = block.mu
        here = _Mode(f, q.m_w)
        if self._mode is not None:
            here = _towards(here, self._mode, self._y)
        self._mode = here

        def quadratics(rows: slice) -> Quadratic:
            return self._quadratics(here.f, rows)

        return _State(basis, here.f, collapse(basis, self._X, quadratics, size=self._size))

    def _climb(self, search: LBFGSB, *, evaluations: int, move_xi: bool) -> str:
        """L-BFGS-B on θ at fixed ξ, or on θ and ξ together."""
        start = self._state
        kernel, Z = start.basis.kernel, start.basis.Z
        jitter = Basis(kernel, Z).jitter
        P = kernel.theta.size if self._settings.hyperparameters == "learned" else 0
        trial = start

        def objective(x: Array) -> tuple[float, Array]:
            nonlocal trial
            basis = Basis(kernel.with_theta(x[:P]), Z, jitter=jitter) if P else start.basis
            xi = x[P:].copy() if move_xi else start.xi
            slope = np.empty(len(xi)) if move_xi else None

            def see(block: Block) -> None:
                if slope is not None:
                    slope[block.rows] = jaakkola_jordan_slope(xi[block.rows], block.mu, block.s)

            def quadratics(rows: slice) -> Quadratic:
                return self._quadratics(xi, rows)

            at = collapse(basis, self._X, quadratics, size=self._size)
            trial = _State(basis, xi, at)
            gradient, _ = collapsed_gradient(basis, self._X, quadratics, at=at, size=self._size, see=see)
            pieces = [gradient[:P]] if slope is None else [gradient[:P], slope]
            return at.value, np.concatenate(pieces)

        def evaluated(value: float, *, improved: bool) -> None:  # noqa: ARG001 - the optimiser's signature
            if improved:
                self._state = trial
            self.evaluations.report(self._state.at.value)

        x0, low, high = kernel.theta[:P], np.full(P, -LOG_BOUND), np.full(P, LOG_BOUND)
        if move_xi:
            n = len(start.xi)
            x0 = np.concatenate([x0, np.maximum(start.xi, LEAST_XI)])
            low, high = np.concatenate([low, np.full(n, LEAST_XI)]), np.concatenate([high, np.full(n, np.inf)])
        outcome = search.maximise(
            objective, x0, max_evaluations=evaluations, bounds=(low, high), on_evaluation=evaluated
        )
        return outcome.reason
