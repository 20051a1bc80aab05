"""Training runs of the batch schemes for any likelihood: a solver finds q, a search around it the hyper-parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from gpbench.model.basis_old import Basis
from gpbench.model.posterior import Posterior
from gpbench.schemes.base import StopTraining
from gpbench.schemes.batch_settings import Evaluations
from gpbench.schemes.general.bound import At, GaussianV, bound_gradient
from gpbench.schemes.general.climb import climb_hyper
from gpbench.schemes.general.hyper import HyperSettings, State, Trial
from gpbench.schemes.general.laplace import Mode, laplace_gradient, laplace_mode
from gpbench.schemes.general.rows import FeatureRows, SparseRows, SubsetRows
from gpbench.schemes.general.starts import Starts

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.schemes.base import OnStep
    from gpbench.schemes.general.observation import Observation
    from gpbench.schemes.general.settings import ActiveSet

__all__ = ["Report", "Run", "Solution", "SolvedScheme", "Solver"]

Report = Callable[[GaussianV, float | None], None]
"""Told of each iteration: q, and the bound (nats) where it is known."""


class Solution(NamedTuple):
    """The best q that a solver found.

    Attributes
    ----------
    at : At
        With the derivatives g and h of the objective's data terms, and the objective's value.
    bound : float
        The variational bound itself; another number than ``at.value`` where the objective is a surrogate.
    gradient : float
        Largest entry of the gradient in q.
    converged : bool
    """

    at: At
    bound: float
    gradient: float
    converged: bool


class Solver(Protocol):
    """Finds q for one kernel and observation."""

    def solve(
        self, rows: FeatureRows, observation: Observation, start: GaussianV, *, warm: bool, report: Report
    ) -> Solution:
        """Find q.

        Parameters
        ----------
        rows : FeatureRows
        observation : Observation
        start : GaussianV
            Where to begin.
        warm : bool
            Whether ``start`` solves a neighbouring problem; else it is Laplace's approximation or the prior.
        report : callable
            Told of each iteration; may raise to end training.

        Raises
        ------
        NumericalError
            Past every remedy.
        """


@dataclass(frozen=True, kw_only=True)
class SolvedScheme(HyperSettings):
    """A scheme that is a solver, with the search for hyper-parameters around it."""

    def solver(self) -> Solver | None:
        """Finds q; None: Laplace's approximation on the subset is the result."""
        return None

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        active: ActiveSet,
        observation: Observation,
        classes: int,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> Run:
        """A training run at its beginning."""
        return Run(self, self.solver(), X, y, active=active, observation=observation, classes=classes)


class Run:
    """Training of one posterior.

    Parameters
    ----------
    settings : HyperSettings
    solver : Solver or None
        None: Laplace's approximation on the subset is the result.
    X, y : (n, d), (n,)
    active : ActiveSet
    observation : Observation
        To start from.
    classes : int
    """

    def __init__(
        self,
        settings: HyperSettings,
        solver: Solver | None,
        X: Rows,
        y: Labels,
        *,
        active: ActiveSet,
        observation: Observation,
        classes: int,
    ) -> None:
        self._settings, self._solver, self._X, self._y, self._active = settings, solver, X, np.asarray(y), active
        self._classes = classes
        kernel = settings.initial_kernel(X)
        basis = Basis(kernel, active.Z)
        self._state = State(basis, observation, GaussianV.prior(len(active.Z)))
        self._starts = Starts(self._rows)
        self._settled = False
        self._converged = True
        self._restarts = 0
        self._warm: GaussianV | None = None
        self._mode: Array | None = None
        self.stopped_by = "on_step"
        self.evaluations = Evaluations(settings.max_iterations, posterior=self.posterior)

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"iteration {self.evaluations.count}"

    def train(self, on_step: OnStep) -> None:
        """Hyper-parameters as the settings say, and q.

        Raises
        ------
        NumericalError
            Past every remedy.
        StopTraining
            From ``on_step``.
        """
        self.evaluations.on_step = on_step
        wanted = self._settings.hyperparameters
        if wanted == "active-laplace":
            self._estimate()
        if wanted == "learned" and self._solver is not None:
            finished = self._climb(self._solved)
        elif wanted == "learned":
            finished = self._climb(self._laplaced)
        else:
            state = self._state
            trial = self._laplaced if self._solver is None else self._solved
            self._state = trial(state.basis, state.observation).state
            finished = self._converged
        self.stopped_by = "converged" if finished else "iterations"

    def posterior(self) -> Posterior:
        """The posterior of the best state so far; ``returned`` is among its facts where that is one of the starts."""
        state, is_start = self._state, False
        if self.stopped_by != "converged":
            state, is_start = self._starts.best(state)
        basis, observation, q, *_ = state
        facts = {
            "iterations": self.evaluations.count,
            "stopped_by": self.stopped_by,
            "jitter": basis.jitter,
            "hyperparameters": {**basis.kernel.values(), **observation.values()},
        }
        more = {"bound": state.bound, "gradient": state.gradient, "surrogate": state.surrogate}
        facts.update({name: value for name, value in more.items() if value is not None})
        facts |= {"returned": "start"} if is_start else {}
        facts |= {"restarts": self._restarts} if self._restarts else {}
        latent = q.latent(basis, observation.mean)
        return Posterior((latent,), observation.likelihood, classes=self._classes, facts=facts)

    def _report(self) -> None:
        """Count an iteration, and end training after the last one allowed."""
        self.evaluations.report(self._state.bound)
        if self.evaluations.left <= 0:
            self.stopped_by = "iterations"
            raise StopTraining

    def _rows(self, basis: Basis) -> FeatureRows:
        if self._settings.rows == "all":
            return SparseRows(basis, self._y, X=self._X, size=self._settings.block_rows)
        return SubsetRows(basis, self._active.targets, size=self._settings.block_rows)

    def _solved(self, basis: Basis, observation: Observation) -> Trial:
        """Find q by the solver, from where the last one ended."""
        assert self._solver is not None
        rows, warm = self._rows(basis), self._warm is not None
        start = self._first(basis, observation) if self._warm is None else self._warm
        if not self._settled:
            self._starts.begin(State(basis, observation, start))

        def report(q: GaussianV, bound: float | None) -> None:
            if not self._settled:
                self._state = State(basis, observation, q, bound)
                self._starts.report(self._state)
            self._report()

        solution = self._solver.solve(rows, observation, start, warm=warm, report=report)
        self._converged, self._warm, self._settled = solution.converged, solution.at.q, True
        value, bound = solution.at.value, solution.bound
        surrogate = value if value != bound else None
        state = State(basis, observation, solution.at.q, bound, solution.gradient, surrogate)
        return Trial(state, solution.at.value, lambda: np.concatenate(bound_gradient(rows, observation, solution.at)))

    def _first(self, basis: Basis, observation: Observation) -> GaussianV:
        """Laplace's approximation on the active set, as the paper starts; the prior where Z holds no rows."""
        if self._active.y is None:
            return GaussianV.prior(len(basis.Z))
        return laplace_mode(basis, observation, self._active.y).q(basis)

    def _laplaced(self, basis: Basis, observation: Observation) -> Trial:
        """Laplace's approximation on the active set's rows."""
        targets = self._active.targets
        mode: Mode = laplace_mode(basis, observation, targets, start=self._mode)
        self._mode = mode.a
        state = State(basis, observation, mode.q(basis), mode.evidence)
        if not self._settled:
            self._state, self._settled = state, True
        self._report()
        return Trial(state, mode.evidence, lambda: np.concatenate(laplace_gradient(basis, observation, targets, mode)))

    def _estimate(self) -> None:
        """Hyper-parameters by Laplace's marginal likelihood on the active set."""
        first = self._state.basis
        if self._active.y is None:
            self._state = self._state._replace(basis=Basis(first.kernel, self._active.rows))
        self._climb(self._laplaced)
        found = self._state
        prior = GaussianV.prior(len(first.Z))
        self._state = State(Basis(found.basis.kernel, first.Z), found.observation, prior)
        self._settled, self._mode = False, None

    def _climb(self, evaluate: Callable[[Basis, Observation], Trial]) -> bool:
        """Climb in x from the present state; whether that has converged."""

        def better(state: State) -> None:
            self._state = state

        of_all = evaluate == self._solved and self._settings.rows == "all"
        targets = self._y if of_all else self._active.targets
        converged, self._restarts = climb_hyper(
            self._settings, self._state, evaluate, y=targets, left=lambda: self.evaluations.left, better=better
        )
        return converged
