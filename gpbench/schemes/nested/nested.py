"""Training of schemes whose bound is maximised over q in an inner loop, at each evaluation of an outer search.

The outer unknowns are θ, the logarithms of the kernel's hyper-parameters, and Z, where there are inducing inputs to
learn. At the inner optimum the gradient in them is that at q held (envelope theorem), exact there and nowhere else: so
the inner loop is run to a tight tolerance, from where it ended before. Jitter keeps its absolute value while a search
runs, since one that follows θ would need a gradient; where a search ends for want of a good step, mostly because that
jitter no longer suffices, it starts again with a new one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from gpbench.schemes.base import setting
from gpbench.schemes.batch_settings import LOG_BOUND, BatchSettings, Evaluations, OptimizerChoice

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.posterior import Predictor
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.search import Reason
    from gpbench.schemes.base import OnStep

__all__ = ["Inner", "NestedRun", "NestedScheme", "Solved"]


class Solved(Protocol):
    """The inner optimum at one kernel and Z."""

    @property
    def value(self) -> float:
        """The bound (nats)."""

    @property
    def kernel(self) -> Kernel:
        """With its hyper-parameters."""

    @property
    def jitter(self) -> float:
        """Absolute jitter of the kernel matrix."""

    @property
    def inner_steps(self) -> int:
        """Iterations of the inner loop."""

    @property
    def settled(self) -> bool:
        """Whether it converged."""


S = TypeVar("S", bound=Solved)
P_co = TypeVar("P_co", bound="Predictor", covariant=True)


class Inner(Protocol[S, P_co]):
    """The inner problem."""

    def solve(self, kernel: Kernel, Z: Array, *, jitter: float | None, warm: S | None) -> S:
        """Maximise over q.

        Parameters
        ----------
        kernel : Kernel
        Z : (M, d)
        jitter : float or None
            Absolute; None: as little as is needed.
        warm : Solved or None
            Where to start.

        Raises
        ------
        NumericalError
            There is no optimum to be had.
        """

    def gradient(self, at: S) -> tuple[Array, Array]:
        """Gradient of the bound in θ (P,) and Z (M, d), at the inner optimum."""

    def posterior(self, at: S, facts: dict[str, object]) -> P_co:
        """What predicts."""


@dataclass(frozen=True, kw_only=True)
class NestedScheme(OptimizerChoice, BatchSettings):
    """A sparse scheme of the probit with an inner loop; a subclass says in ``inner_problem`` what that is."""

    link: str = setting("probit", "link function; the bound is the probit's", choices=("probit",))
    learn_inducing: bool = setting(True, "whether the inducing inputs are optimised")

    @abstractmethod
    def inner_problem(
        self, X: Rows, y: Labels, *, likelihood: Likelihood, rng: np.random.Generator
    ) -> Inner[Any, Predictor]:
        """The inner problem."""

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        rng: np.random.Generator,
    ) -> NestedRun[Any, Predictor]:
        """A training run at its beginning."""
        return NestedRun(
            self,
            self.inner_problem(X, y, likelihood=likelihood, rng=rng),
            kernel=self.initial_kernel(X),
            Z=inducing.choose(X),
            learn_theta=self.hyperparameters == "learned",
            learn_Z=self.learn_inducing,
            limit=self.max_iterations,
        )


class NestedRun(Generic[S, P_co]):
    """One fit.

    Parameters
    ----------
    settings : OptimizerChoice
    inner : Inner
    kernel : Kernel
        With its first hyper-parameters.
    Z : (M, d)
        First inducing inputs.
    learn_theta, learn_Z : bool
        What the outer search moves.
    limit : int
        Evaluations at most.
    """

    def __init__(
        self,
        settings: OptimizerChoice,
        inner: Inner[S, P_co],
        *,
        kernel: Kernel,
        Z: Array,
        learn_theta: bool,
        learn_Z: bool,
        limit: int,
    ) -> None:
        self._settings, self._inner, self._kernel, self._shape = settings, inner, kernel, Z.shape
        self._x = np.concatenate([kernel.theta, Z.ravel()])
        theta = np.arange(kernel.theta.size if learn_theta else 0)
        inputs = np.arange(kernel.theta.size, self._x.size if learn_Z else kernel.theta.size)
        self._free = np.concatenate([theta, inputs])
        self.stopped_by = "on_step"
        self.inner_steps = self.unsettled = 0
        self.evaluations = Evaluations(limit, posterior=self.posterior)
        self._best = self._solve(self._x, jitter=None, warm=None)
        self._latest = self._best

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"evaluation {self.evaluations.count}"

    def train(self, on_step: OnStep) -> None:
        """Climb until nothing rises or the evaluations are used up."""
        self.evaluations.on_step = on_step
        if not len(self._free):
            self.evaluations.report(self._best.value)
            self.stopped_by = "converged"
            return
        reason: Reason = "evaluations"
        while self.evaluations.left > 0:
            before = self._best.value if self.evaluations.count else -math.inf
            reason = self._climb()
            if reason != "line search" or self._best.value - before <= self._settings.value_tolerance * abs(before):
                break
        ended = self.evaluations.left <= 0 or reason in {"evaluations", "iterations"}
        self.stopped_by = "iterations" if ended else "converged"

    def posterior(self) -> P_co:
        """The posterior of the best state so far."""
        facts: dict[str, object] = {
            "iterations": self.evaluations.count,
            "stopped_by": self.stopped_by,
            "jitter": self._best.jitter,
            "bound": self._best.value,
            "inner_steps": self.inner_steps,
            "unsettled": self.unsettled,
            "hyperparameters": self._best.kernel.values(),
        }
        return self._inner.posterior(self._best, facts)

    def _climb(self) -> Reason:
        """Search from the best state so far, with the jitter that it needs."""
        if self.evaluations.count:
            self._best = self._latest = self._solve(self._x, jitter=None, warm=self._best)
        jitter = self._best.jitter
        tried, trial = self._x.copy(), self._best
        start, fresh = self._x[self._free], True

        def objective(values: Array) -> tuple[float, Array]:
            nonlocal trial, fresh
            tried[self._free] = values
            if not (fresh and np.array_equal(values, start)):  # the first point has been solved already
                trial = self._solve(tried, jitter=jitter, warm=self._latest)
                self._latest = trial
            fresh = False
            gradient = np.concatenate([part.ravel() for part in self._inner.gradient(trial)])
            return trial.value, gradient[self._free]

        def evaluated(value: float, *, improved: bool) -> None:  # noqa: ARG001 - the best one's is reported
            if improved:
                self._x, self._best = tried.copy(), trial
            self.evaluations.report(self._best.value)

        limit = np.full(self._x.size, np.inf)
        limit[: self._kernel.theta.size] = LOG_BOUND
        outcome = self._settings.climber().maximise(
            objective,
            start,
            max_evaluations=self.evaluations.left,
            bounds=(-limit[self._free], limit[self._free]),
            on_evaluation=evaluated,
        )
        return outcome.reason

    def _solve(self, x: Array, *, jitter: float | None, warm: S | None) -> S:
        P = self._kernel.theta.size
        kernel = self._kernel.with_theta(x[:P])
        found = self._inner.solve(kernel, x[P:].reshape(self._shape).copy(), jitter=jitter, warm=warm)
        self.inner_steps += found.inner_steps
        self.unsettled += not found.settled
        return found
