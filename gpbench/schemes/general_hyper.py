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
fails, mostly because that jitter no longer suffices, it starts again with a new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from gpbench.model.basis import Basis
from gpbench.model.general_bound import GaussianV
from gpbench.model.laplace import laplace_gradient, laplace_mode
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.schemes.base import setting
from gpbench.schemes.batch_settings import LOG_BOUND
from gpbench.schemes.general import ActiveSet, GeneralScheme

if TYPE_CHECKING:
    from gpbench.model.kernels import Kernel
    from gpbench.model.observation import Observation
    from gpbench.model.rows import Array, Labels

__all__ = ["HyperSettings", "State", "Trial", "climb_hyper", "estimated", "free_box"]

_MEAN_BOUND = 50.0
_GAP_BOUND = 14.0
"""Of log gaps: edges never meet."""
_RESTARTS = 10


@dataclass(frozen=True, kw_only=True)
class HyperSettings(GeneralScheme):
    """Stopping rules of the search for q, which are the paper's, and of that for hyper-parameters."""

    gradient_tolerance: float = setting(1e-5, "largest gradient in q at the end (nats)", minimum=0.0, maximum=1e6)
    value_tolerance: float = setting(
        1e-9,
        "rise of the bound that ends the search for q (nats); 0: gradients alone do",
        minimum=0.0,
        maximum=1.0,
    )
    hyper_gradient_tolerance: float = setting(
        1e-3, "largest gradient in the hyper-parameters at the end (nats)", minimum=0.0, maximum=1e6
    )
    hyper_value_tolerance: float = setting(
        1e-7, "relative rise of the bound at the end of the search for them", minimum=0.0, maximum=1.0
    )
    memory: int = setting(100, "L-BFGS-B: pairs that a Hessian is approximated from", minimum=1, maximum=100)

    def settled(self, gradient: float, rise: float) -> bool:
        """Whether the search for q has converged, by the paper's rules (its footnote 3)."""
        return gradient <= self.gradient_tolerance or rise <= (self.value_tolerance or -np.inf)


class State(NamedTuple):
    """What a posterior is made of, and what is known of it: ``surrogate`` where that and no bound was maximised."""

    basis: Basis
    observation: Observation
    q: GaussianV
    bound: float | None = None
    gradient: float | None = None
    surrogate: float | None = None


class Trial(NamedTuple):
    """An evaluation of F: the state, its value, and a function that gives its gradient in θ and φ, (P + k,)."""

    state: State
    value: float
    gradient: Callable[[], Array]


Evaluate = Callable[[Basis, "Observation"], Trial]


def free_box(observation: Observation, y: Labels, *, learn_slope: bool) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Least and largest values of φ, and which of them are learned from targets y (n,), each of shape (k,)."""
    names = observation.free_names
    far = np.full(len(names), LOG_BOUND)
    moves = observation.likelihood.told_by(y)
    if observation.has_mean:
        moves = np.concatenate([[True], moves])
    for place, name in enumerate(names):
        if name == "mean" or name.endswith(".edge"):
            far[place] = _MEAN_BOUND
        elif ".log_gaps" in name:
            far[place] = _GAP_BOUND
        elif name.endswith(".log_slope"):
            moves[place] &= learn_slope
    if observation.likelihood.name == "gaussian":  # the mean of numbers may be anything
        far[0] = np.inf
    return -far, far, moves


def climb_hyper(
    settings: HyperSettings,
    first: State,
    evaluate: Evaluate,
    *,
    y: Labels,
    left: Callable[[], int],
    better: Callable[[State], None],
) -> bool:
    """Climb in x.

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

    Returns
    -------
    bool
        Whether the search has converged.

    Raises
    ------
    NumericalError
        F has no value where the search begins.
    """
    state, value = first, -math.inf
    for _ in range(_RESTARTS):
        before = value
        basis = Basis(state.basis.kernel, state.basis.Z)  # a new jitter
        state, value, reason = _climb_once(
            settings, state._replace(basis=basis), evaluate, y=y, left=left(), better=better
        )
        settled = math.isfinite(before) and value - before <= settings.hyper_value_tolerance * abs(before)
        if reason != "line search" or settled or left() <= 0:
            return reason in {"converged", "line search"}
    return False


def _climb_once(
    settings: HyperSettings, first: State, evaluate: Evaluate, *, y: Labels, left: int, better: Callable[[State], None]
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

    def evaluated(value: float, *, improved: bool) -> None:  # noqa: ARG001 - the interface passes it
        nonlocal best
        if improved:
            best = trial.state
            better(best)

    search = LBFGSB(
        memory=settings.memory,
        gradient_tolerance=settings.hyper_gradient_tolerance,
        value_tolerance=settings.hyper_value_tolerance,
    )
    high[0] = np.inf  # where every unknown has two bounds scipy's first step is the whole gradient, thousands of nats
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
