"""The search for hyper-parameters around schemes for any likelihood.

=========  ===================================================================================  ========
symbol     meaning                                                                              shape
=========  ===================================================================================  ========
θ          logarithms of the kernel's hyper-parameters                                          (P,)
φ          constant mean and parameters of the likelihood                                       (k,)
x          θ and those of φ that are learned                                                    (P + k,)
F(x)       the scheme's objective, maximised over q                                             scalar
=========  ===================================================================================  ========

sheth2015 (figure 4) maximises F(x) by L-BFGS; its gradient is the partial one at the best q (envelope theorem), so
that each evaluation solves for q, from where the last one ended, to a tolerance well below the search's own. Laplace's
method has its own marginal likelihood as F. The jitter of K_mm stays as it is during a search; where a line search
fails, mostly because that jitter no longer suffices, it starts again with a new one. Where the signal has vanished it
starts again from shorter length scales (:mod:`gpbench.schemes.general.vanished`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.basis_old import Basis
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.schemes.batch_settings import LOG_BOUND
from gpbench.schemes.general.bound import GaussianV
from gpbench.schemes.general.hyper import HyperSettings, State, Trial, free_box
from gpbench.schemes.general.laplace import laplace_gradient, laplace_mode
from gpbench.schemes.general.vanished import LEAST_SIGNAL, SHORTER, shorter, without_signal

if TYPE_CHECKING:
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Labels
    from gpbench.schemes.general.observation import Observation
    from gpbench.schemes.general.settings import ActiveSet

__all__ = ["Climbed", "climb_hyper", "estimated"]

_RESTARTS = 10


Evaluate = Callable[[Basis, "Observation"], Trial]


class Climbed(NamedTuple):
    """How a search ended: whether it has converged, and how often it began anew since the signal had vanished."""

    converged: bool
    restarts: int


class _Highest:
    """The best state of several climbs."""

    def __init__(self, first: State, better: Callable[[State], None]) -> None:
        self.state, self.value, self._tell = first, -math.inf, better

    def see(self, state: State, value: float) -> None:
        """Keep it if it is better, and tell."""
        if value > self.value:
            self.state, self.value = state, value
            self._tell(state)


def climb_hyper(
    settings: HyperSettings,
    first: State,
    evaluate: Evaluate,
    *,
    y: Labels,
    left: Callable[[], int],
    better: Callable[[State], None],
) -> Climbed:
    """Climb in x, and again from shorter length scales while the signal vanishes.

    Parameters
    ----------
    settings : HyperSettings
    first : State
        Where to begin.
    evaluate : callable
        F at a kernel and an observation.
    y : (n,)
        The targets that F is of.
    left : callable
        Evaluations that may still be made.
    better : callable
        Told of each state that is the best so far.

    Raises
    ------
    NumericalError
        F has no value where the search begins.
    """
    highest, restarts = _Highest(first, better), 0
    converged = _climb(settings, first, evaluate, y=y, left=left, highest=highest)
    for factor in SHORTER:
        kernel = shorter(first.basis.kernel, factor)
        if kernel is None or left() <= 0 or not _vanished(highest, evaluate) or left() <= 0:
            break
        restarts += 1
        try:
            again = first._replace(basis=Basis(kernel, first.basis.Z))
            converged &= _climb(settings, again, evaluate, y=y, left=left, highest=highest)
        except NumericalError:  # F has no value there; what was found is still the best
            continue
    return Climbed(converged, restarts)


def _vanished(highest: _Highest, evaluate: Evaluate) -> bool:
    """Whether the best F is no higher than without any signal."""
    basis, observation = highest.state.basis, highest.state.observation
    try:
        without = evaluate(Basis(without_signal(basis.kernel, basis.Z), basis.Z), observation).value
    except NumericalError:  # there is no such value to compare with
        return False
    return highest.value - without < LEAST_SIGNAL


def _climb(
    settings: HyperSettings,
    first: State,
    evaluate: Evaluate,
    *,
    y: Labels,
    left: Callable[[], int],
    highest: _Highest,
) -> bool:
    """From one start, with a new jitter where a line search fails; whether that has converged."""
    state, value = first, -math.inf
    for _ in range(_RESTARTS):
        before = value
        basis = Basis(state.basis.kernel, state.basis.Z)  # a new jitter
        state, value, reason = _climb_once(
            settings, state._replace(basis=basis), evaluate, y=y, left=left(), highest=highest
        )
        settled = math.isfinite(before) and value - before <= settings.hyper_value_tolerance * abs(before)
        if reason != "line search" or settled or left() <= 0:
            return reason in {"converged", "line search"}
    return False


def _climb_once(
    settings: HyperSettings, first: State, evaluate: Evaluate, *, y: Labels, left: int, highest: _Highest
) -> tuple[State, float, str]:
    kernel, observation, jitter = first.basis.kernel, first.observation, first.basis.jitter
    P = kernel.theta.size
    whole = np.concatenate([kernel.theta, observation.free])
    low, high, moves = free_box(observation, y, learn_slope=settings.learn_slope)
    far = np.full(P, LOG_BOUND)
    low, high = np.concatenate([-far, low]), np.concatenate([far, high])
    place = np.flatnonzero(np.concatenate([np.ones(P, dtype=bool), moves]))
    trial, best = Trial(first, -math.inf, lambda: whole), first

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal trial
        values = whole.copy()
        values[place] = x
        basis = Basis(kernel.with_theta(values[:P]), first.basis.Z, jitter=jitter)
        trial = evaluate(basis, observation.with_free(values[P:]))
        return trial.value, trial.gradient()[place]

    def evaluated(value: float, *, improved: bool) -> None:
        nonlocal best
        if improved:
            best = trial.state
            highest.see(best, value)

    search = LBFGSB(
        memory=settings.memory,
        gradient_tolerance=settings.hyper_gradient_tolerance,
        value_tolerance=settings.hyper_value_tolerance,
    )
    bounds = (low[place], high[place])
    outcome = search.maximise(objective, whole[place], max_evaluations=left, bounds=bounds, on_evaluation=evaluated)
    return best, outcome.value, outcome.reason


def estimated(
    settings: HyperSettings, kernel: Kernel, observation: Observation, active: ActiveSet
) -> tuple[Kernel, Observation]:
    """Kernel and observation that maximise Laplace's marginal likelihood on the active set."""
    count = 0
    last: Array | None = None
    found = State(Basis(kernel, active.rows), observation, GaussianV.prior(len(active.rows)))

    def evaluate(basis: Basis, tried: Observation) -> Trial:
        nonlocal count, last
        count += 1
        mode = laplace_mode(basis, tried, active.targets, start=last)
        last = mode.a
        state = State(basis, tried, mode.q(basis), mode.evidence)
        return Trial(state, mode.evidence, lambda: np.concatenate(laplace_gradient(basis, tried, active.targets, mode)))

    def better(state: State) -> None:
        nonlocal found
        found = state

    climb_hyper(
        settings, found, evaluate, y=active.targets, left=lambda: settings.max_iterations - count, better=better
    )
    return found.basis.kernel, found.observation
