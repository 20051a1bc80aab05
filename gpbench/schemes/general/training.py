"""Training of the schemes for any likelihood: a solver finds q, a search around it the hyper-parameters.

=========  ===================================================================================  ========
symbol     meaning                                                                              shape
=========  ===================================================================================  ========
θ          logarithms of the kernel's hyper-parameters                                          (P,)
φ          constant mean and parameters of the likelihood                                       (k,)
x          θ and those of φ that are learned                                                    (P + k,)
F(x)       what the solver maximises, maximised over q                                          scalar
σ², ℓ      signal variance and length scales
F₀         F without any signal                                                                 scalar
d, W       first and minus the second derivatives of log p(y | f) at f = c                      (n,)
k          the kernel for σ² = 1
=========  ===================================================================================  ========

sheth2015 (figure 4) maximises F(x) by L-BFGS; its gradient is the partial one at the best q (envelope theorem), so
that each evaluation solves for q, from where the last one ended, to a tolerance well below the search's own. Laplace's
method has its own marginal likelihood as F. An iteration is one of the solver's.

Where the signal vanishes. For a small signal F = F₀ + ½ σ² Σ_ij k_ij (d_i d_j - [i = j] W_i) + O(σ⁴). With few rows
that sum is often negative at the length scales that a search begins with, the more so where constant columns make them
longer (the first one is the root of the number of inputs). Ascent then leads to σ² -> 0, where F is flat in every
direction: no maximum, since F rises again at other length scales, but log σ² and log ℓ have no slope there to follow.
So a search that ends no higher than F₀ begins anew with half of its first length scales, then a quarter, then an
eighth, and the best end counts. Of 270 problems of 15 rows under Laplace's method 14 ended on the plateau, and with
this 2. Where there is no signal to be found a search takes four times its evaluations.

What is handed back. Training that is stopped before its search has ended hands back the best by the bound of four
states: the prior, what the solver was given to start from, what it reported first, and the best that it has by its own
objective. For Newton's methods that is the last of them, as a rule; the dual's objective is another than the bound.
Bounds that are not known are worked out when a posterior is asked for, and those of the starts once: an iteration costs
nothing more, and what is handed back does not depend on when it was asked for before.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpbench.errors import NumericalError, UsageError
from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.model.posterior import Latent, Posterior
from gpbench.optimize.maximise import LOG_BOUND, Point, maximise
from gpbench.optimize.unknowns import Part, Unknowns
from gpbench.schemes import settings
from gpbench.schemes.base import StopTraining, Training, setting
from gpbench.schemes.general.bound import FeatureRows, SparseRows, SubsetRows, bound_at
from gpbench.schemes.general.laplace import Laplace, laplace_mode
from gpbench.schemes.general.settings import ActiveSet, GeneralScheme
from gpbench.schemes.settings import GPSettings, check_row_limit

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import StoppedBy
    from gpbench.schemes.general.bound import Solution, Solver
    from gpbench.schemes.general.settings import Observation

__all__ = [
    "Evaluation",
    "HyperMaximum",
    "SolvedTraining",
    "SparseScheme",
    "Starts",
    "State",
    "SubsetScheme",
    "maximise_evidence",
    "maximise_hyper",
    "shorter",
    "without_signal",
]

LEAST_SIGNAL = 0.01
"""Nats by which F must be above F₀: plateaus were within 0.001, and the weakest signal that was found had 0.04."""
SHORTER = (0.5, 0.25, 0.125)
"""Of the first length scales, where a search begins anew."""


class State(NamedTuple):
    """What a posterior is made of, and what is known of it: ``surrogate`` where that and no bound was maximised."""

    basis: Basis
    observation: Observation
    q: GaussianQ
    bound: float | None = None
    gradient: float | None = None
    surrogate: float | None = None
    stopped_by: StoppedBy = "on_step"


class Evaluation(NamedTuple):
    """F at a kernel and an observation: its value, the state, and what gives the gradients in θ (P,) and φ (k,)."""

    value: float
    state: State
    gradient: Callable[[], tuple[Array, Array]]

    @classmethod
    def of(cls, found: Solution, basis: Basis, observation: Observation) -> Evaluation:
        """From what a solver found there."""
        surrogate = found.value if found.value != found.bound else None
        state = State(basis, observation, found.q, found.bound, found.gradient, surrogate, found.stopped_by)
        return cls(found.value, state, found.by_hyper)


Objective = Callable[[Basis, "Observation"], Evaluation]


@dataclass(frozen=True, kw_only=True)
class SparseScheme(GeneralScheme, GPSettings):
    """A solver on all rows, with an active set as inducing inputs."""

    max_iterations: int = settings.max_iterations(5000, "iterations at most, over all settings of the hyper-parameters")
    block_rows: int = settings.block_rows()

    @abstractmethod
    def solver(self) -> Solver:
        """What finds q."""

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> SolvedTraining:
        """Training at its beginning."""
        active, y = ActiveSet.choose(inducing, X, y), np.asarray(y)
        seen = active.targets if self.hyperparameters == "active-laplace" else y
        return SolvedTraining(
            self,
            self.solver(),
            kernel=self.initial_kernel(X),
            observation=self.observation(likelihood, seen, classes),
            active=active,
            y=y,
            rows=lambda basis, check: SparseRows(basis, y, X=X, size=self.block_rows, check=check),
            classes=classes,
        )


@dataclass(frozen=True, kw_only=True)
class SubsetScheme(GeneralScheme):
    """A solver on the active set's own rows alone, the paper's subset of data."""

    inducing: str = setting("100", "rows of the subset: 100, 3% of the rows, or all")
    inducing_rule: str = setting("random", "how the subset is chosen", choices=("random",))
    max_rows: int = settings.max_rows()
    max_iterations: int = settings.max_iterations(5000, "iterations at most, over all settings of the hyper-parameters")

    @abstractmethod
    def solver(self) -> Solver:
        """What finds q."""

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> SolvedTraining:
        """Training at its beginning."""
        active = ActiveSet.choose(inducing, X, y)
        if active.y is None:
            raise UsageError(f"{self.name} trains on the active set, whose targets are not known")
        check_row_limit(self.name, len(active.Z), max_rows=self.max_rows)
        y = active.targets
        return SolvedTraining(
            self,
            self.solver(),
            kernel=self.initial_kernel(X),
            observation=self.observation(likelihood, y, classes),
            active=active,
            y=y,
            rows=lambda basis, check: SubsetRows(basis, y, check=check),
            classes=classes,
        )


class SolvedTraining(Training):
    """Training by a solver.

    Parameters
    ----------
    scheme : SparseScheme or SubsetScheme
    solver : Solver
    kernel : Kernel
    observation : Observation
        Where training begins.
    active : ActiveSet
    y : (n,)
        Targets that the solver sees.
    rows : callable
        The rows that it sees, at a kernel; with what they call at each block.
    classes : int

    Attributes
    ----------
    restarts : int
        How often a search for hyper-parameters began anew since the signal had vanished.
    """

    def __init__(
        self,
        scheme: SparseScheme | SubsetScheme,
        solver: Solver,
        *,
        kernel: Kernel,
        observation: Observation,
        active: ActiveSet,
        y: Labels,
        rows: Callable[[Basis, Callable[[], None]], FeatureRows],
        classes: int,
    ) -> None:
        super().__init__(limit=scheme.max_iterations)
        self._scheme, self._solver, self._active, self._y, self._classes = scheme, solver, active, y, classes
        self._rows = rows
        self._state = State(Basis(kernel, active.Z), observation, GaussianQ.prior(len(active.Z)))
        self._starts = Starts(lambda basis: rows(basis, lambda: None))  # asked for when training stands
        self._has_start = not isinstance(solver, Laplace)  # Laplace's mode is the same wherever Newton's method begins
        self._q: GaussianQ | None = None  # of the last evaluation
        self._evaluated = False  # the state is the best of whole evaluations, not what a solver is just at
        self._ended = False
        self.restarts = 0

    def train(self) -> StoppedBy:
        """Hyper-parameters as the settings say, and q."""
        wanted = self._scheme.hyperparameters
        if wanted == "active-laplace":
            self._estimate()
        stopped_by: StoppedBy = "converged"
        if wanted == "learned":
            found = maximise_hyper(
                self._scheme,
                self._state,
                self._evaluate,
                y=self._y,
                evaluations=lambda: self.trainer.left,
                on_better=self._keep,
            )
            stopped_by, self.restarts = found.stopped_by, found.restarts
        else:
            self._keep(self._evaluate(self._state.basis, self._state.observation).state)
        if self._state.stopped_by != "converged":  # F is not yet the maximum over q
            stopped_by = self._state.stopped_by
        self._ended = stopped_by != "iterations"
        return stopped_by

    def posterior(self) -> Posterior:
        """The posterior of the best state so far."""
        state, _ = self._best()
        latent = Latent.of(state.basis, state.q, mean=state.observation.mean)
        return Posterior((latent,), state.observation.likelihood, classes=self._classes)

    def bound(self) -> float | None:
        """The variational bound of that posterior; Laplace's evidence."""
        return self._best()[0].bound

    def facts(self) -> dict[str, Any]:
        """Hyper-parameters, and how the search for q and for them ended; ``returned`` where a start was the best."""
        state, is_start = self._best()
        found: dict[str, Any] = {"hyperparameters": {**state.basis.kernel.values(), **state.observation.values()}}
        known = {"gradient": state.gradient, "surrogate": state.surrogate}
        found |= {name: value for name, value in known.items() if value is not None}
        found |= {"returned": "start"} if is_start else {}
        return found | ({"restarts": self.restarts} if self.restarts else {})

    def _best(self) -> tuple[State, bool]:
        """What is to be handed back, and whether that is one of the starts."""
        return (self._state, False) if self._ended else self._starts.best(self._state)

    def _estimate(self) -> None:
        """Hyper-parameters by Laplace's marginal likelihood on the active set."""
        active, first = self._active, self._state
        if active.y is None:
            first = first._replace(basis=Basis(first.basis.kernel, active.rows))
        found = maximise_evidence(
            self._scheme,
            first,
            active.targets,
            evaluations=lambda: self.trainer.left,
            check=self.trainer.check,
            on_iteration=self._iterated,
            on_better=self._keep,
        )
        self.restarts = found.restarts
        basis = Basis(found.state.basis.kernel, active.Z)
        self._state = State(basis, found.state.observation, GaussianQ.prior(len(active.Z)))
        self._evaluated = False

    def _evaluate(self, basis: Basis, observation: Observation) -> Evaluation:
        """F by the solver, from where the last search for q ended."""
        warm, start = self._q is not None, self._q
        if start is None:
            start = GaussianQ.prior(len(basis.Z))
            if self._has_start and self._active.y is not None:  # as the paper starts
                start = laplace_mode(basis, observation, self._active.y, check=self.trainer.check).q(basis)
        if self._has_start and not self._evaluated:
            self._starts.begin(State(basis, observation, start))
        found = self._solver.solve(
            self._rows(basis, self.trainer.check),
            observation,
            start,
            warm=warm,
            report=lambda q, bound: self._iterated(State(basis, observation, q, bound)),
        )
        self._q = found.q
        return Evaluation.of(found, basis, observation)

    def _iterated(self, state: State) -> None:
        """Count an iteration of the solver, and end training after the last one."""
        if not self._evaluated:
            self._state = state
            self._starts.report(state)
        self.trainer.report(self._state.bound)
        if not self.trainer.running:
            raise StopTraining

    def _keep(self, state: State) -> None:
        self._state, self._evaluated = state, True


class Starts:
    """The states that training started from, so that what it hands back is never worse.

    Parameters
    ----------
    rows : callable
        The rows that the bound is of, at a kernel.
    """

    def __init__(self, rows: Callable[[Basis], FeatureRows]) -> None:
        self._rows = rows
        self._states: list[State] = []
        self._reported = False
        self._last: tuple[State, tuple[State, bool]] | None = None

    def begin(self, start: State) -> None:
        """The first search for q begins, from this state."""
        prior = start._replace(q=GaussianQ.prior(len(start.q.mean)))
        self._states, self._reported = [prior, start], False

    def report(self, state: State) -> None:
        """The search has come to a state; the first one counts among the starts."""
        if self._states and not self._reported:
            self._states.append(state)
            self._reported = True

    def best(self, state: State) -> tuple[State, bool]:
        """The best of this state and the starts, with its bound, and whether it is one of the starts.

        Before a search has begun it is the state as it is, since its bound, if any, is another objective.
        """
        if not self._states:
            return state, False
        if self._last is None or self._last[0] is not state:
            self._states = [max((self._known(each) for each in self._states), key=_bound_of)]
            start, present = self._states[0], self._known(state)
            best = (start, True) if _bound_of(start) > _bound_of(present) else (present, False)
            self._last = state, best
        return self._last[1]

    def _known(self, state: State) -> State:
        if state.bound is not None:
            return state
        with np.errstate(over="ignore", invalid="ignore"):  # counts under a wide q: minus infinity
            return state._replace(bound=bound_at(self._rows(state.basis), state.observation, state.q).value)


class HyperMaximum(NamedTuple):
    """Where a search for hyper-parameters ended: the best state, why, and how often it began anew."""

    state: State
    stopped_by: StoppedBy
    restarts: int


def maximise_hyper(
    scheme: GeneralScheme,
    first: State,
    evaluate: Objective,
    *,
    y: Labels,
    evaluations: Callable[[], int],
    on_better: Callable[[State], None] = lambda _: None,
) -> HyperMaximum:
    """Maximise F in x, and again from shorter length scales while the signal vanishes.

    Parameters
    ----------
    scheme : GeneralScheme
    first : State
        Where to begin.
    evaluate : callable
        F at a kernel and an observation.
    y : (n,)
        The targets that F is of.
    evaluations : callable
        How many may still be made.
    on_better : callable, optional
        Told of each state that is the best so far.

    Raises
    ------
    NumericalError
        F has no value where the search begins.
    """
    best, best_value = first, -math.inf

    def keep(state: State, value: float) -> None:
        nonlocal best, best_value
        if value > best_value:
            best, best_value = state, value
            on_better(state)

    def search(kernel: Kernel) -> StoppedBy:
        unknowns = Unknowns(
            theta=Part(value=kernel.theta, low=-LOG_BOUND, high=LOG_BOUND), **scheme.parts(first.observation, y)
        )
        jitter = first.basis.jitter

        def begin(x: Array) -> None:
            nonlocal jitter
            jitter = Basis(kernel.with_theta(unknowns.values(x)["theta"]), first.basis.Z).jitter

        def point(x: Array) -> Point[State]:
            values = unknowns.values(x)
            basis = Basis(kernel.with_theta(values["theta"]), first.basis.Z, jitter=jitter)
            found = evaluate(basis, first.observation.moved(values))
            by_theta, by_free = found.gradient()
            gradient = unknowns.gradient({"theta": by_theta, **first.observation.named(by_free)})
            return Point(found.value, gradient, found.state)

        return maximise(
            point,
            unknowns.x,
            search=scheme.hyper_search(),
            evaluations=evaluations,
            bounds=unknowns.bounds,
            begin=begin,
            on_evaluation=keep,
        ).stopped_by

    stopped_by, restarts = search(first.basis.kernel), 0
    for factor in SHORTER:
        kernel = shorter(first.basis.kernel, factor)
        if kernel is None or evaluations() <= 0 or not _vanished(best, best_value, evaluate) or evaluations() <= 0:
            break
        restarts += 1
        before = best_value
        try:
            ended = search(kernel)
        except NumericalError:  # F has no value there; what was found is still the best
            continue
        stopped_by = ended if best_value > before else stopped_by
    return HyperMaximum(best, stopped_by, restarts)


def maximise_evidence(
    scheme: GeneralScheme,
    first: State,
    y: Labels,
    *,
    evaluations: Callable[[], int],
    check: Callable[[], None],
    on_iteration: Callable[[State], None] = lambda _: None,
    on_better: Callable[[State], None] = lambda _: None,
) -> HyperMaximum:
    """Maximise Laplace's marginal likelihood of some rows.

    Parameters
    ----------
    scheme : GeneralScheme
    first : State
        Where to begin; its inducing inputs are the rows.
    y : (M,)
        Their targets.
    evaluations : callable
        How many modes may still be looked for.
    check : callable
        Called before each Newton step; may raise StopTraining.
    on_iteration : callable, optional
        Told of the state at each mode.
    on_better : callable, optional
        Told of each state that is the best so far.

    Raises
    ------
    NumericalError
        There is no mode where the search begins.
    """
    solver = Laplace()

    def evaluate(basis: Basis, observation: Observation) -> Evaluation:
        found = solver.solve(
            SubsetRows(basis, y, check=check),
            observation,
            first.q,
            warm=True,
            report=lambda q, evidence: on_iteration(State(basis, observation, q, evidence)),
        )
        return Evaluation.of(found, basis, observation)

    return maximise_hyper(scheme, first, evaluate, y=y, evaluations=evaluations, on_better=on_better)


def shorter(kernel: Kernel, factor: float) -> Kernel | None:
    """The kernel with its length scales times a factor; None where it has none."""
    scales = np.array(["log_lengthscale" in name for name in kernel.names])
    if not scales.any():
        return None
    return kernel.with_theta(np.where(scales, kernel.theta + math.log(factor), kernel.theta))


def without_signal(kernel: Kernel, Z: Array) -> Kernel:
    """The kernel with its whole prior variance, the mean over Z (M, d), as white noise; without noise it has none."""
    theta = np.array(kernel.theta)
    for i, name in enumerate(kernel.names):
        if name.endswith("log_white"):
            theta[i] = min(math.log(float(np.mean(kernel.diag(Z)))), LOG_BOUND)
        elif "log_variance" in name:
            theta[i] = -LOG_BOUND
    return kernel.with_theta(theta)


def _vanished(best: State, value: float, evaluate: Objective) -> bool:
    """Whether the best F is no higher than without any signal."""
    kernel, Z = best.basis.kernel, best.basis.Z
    try:
        without = evaluate(Basis(without_signal(kernel, Z), Z), best.observation).value
    except NumericalError:  # there is no such value to compare with
        return False
    return value - without < LEAST_SIGNAL


def _bound_of(state: State) -> float:
    """The bound; one that is no number counts for nothing."""
    assert state.bound is not None
    return -math.inf if math.isnan(state.bound) else state.bound
