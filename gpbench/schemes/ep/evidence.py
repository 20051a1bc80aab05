"""L-BFGS-B on the log evidence of EP that is run to its fixed point at each evaluation.

The gradient of log Z is that at fixed sites, exact at the fixed point and there alone. So EP is settled to a tight
tolerance, from the sites of the evaluation before; where it does not settle, from zero sites with plain damped updates,
and where that fails too the evaluation has no value and the line search steps back. Jitter keeps its absolute value
while L-BFGS-B runs; where a line search fails, mostly because that jitter no longer suffices, the search starts again
with a new one and a new approximation of the Hessian.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.posterior import Posterior
from gpbench.optimize.fixed_point import FixedPointSearch
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.maximise import Point, maximise
from gpbench.schemes import settings
from gpbench.schemes.base import StopTraining, Training, run_training, setting
from gpbench.schemes.settings import FROM, LEARNING, KernelSettings, check_ep_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.posterior import Latent
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.fixed_point import FixedPointOutcome
    from gpbench.optimize.training import OnStep, StoppedBy
    from gpbench.optimize.unknowns import Unknowns
    from gpbench.schemes.base import Fit

__all__ = ["EPScheme", "Evidence", "EvidenceTraining", "Settled"]

_TOLERANCE_CLASSES = 1e-3
"""From 1e-6 to 1e-3, half the updates are saved and log Z after 40 evaluations stays within 0.2 nats (vehicle)."""


LEAST_SETTLED = 1e-2
"""An evaluation whose sites still change by more than this, after the last remedy, has no value."""
_PATIENT_DAMPING = 0.2


@dataclass(frozen=True, kw_only=True)
class EPScheme(KernelSettings):
    """A scheme that runs EP to its fixed point at each evaluation of the log evidence."""

    hyperparameters: str = setting("learned", LEARNING, choices=("learned", "fixed"), rules=(FROM,))
    max_iterations: int = settings.max_iterations(
        250, "evaluations of the log evidence at most, each with EP run to its end"
    )
    memory: int = settings.memory()
    gradient_tolerance: float = settings.gradient_tolerance(1e-3)
    value_tolerance: float = settings.value_tolerance(1e-5)
    damping: float = setting(0.8, "share of each parallel site update that is taken", minimum=0.01, maximum=1.0)
    ep_tolerance: float | None = setting(
        None,
        "EP has settled when no site would change the posterior by more, in its units; none: 1e-6 for two classes "
        "(ep: 1e-5), 1e-3 for more, whose evidence is flat along the slow directions",
        kind=float,
        minimum=1e-13,
        maximum=0.1,
    )
    ep_iterations: int = setting(200, "site updates of all rows at most, at each evaluation", minimum=1)
    mixing: int = setting(
        10,
        "site updates that the next one is extrapolated from (Anderson); 0: damped updates alone",
        minimum=0,
        maximum=20,
    )

    name: ClassVar[str]
    tolerance_binary: ClassVar[float] = 1e-6
    """``ep_tolerance`` for two classes; full EP's log Z is good to 1e-9 nats at 1e-5, its gradient to 1e-3."""

    @abstractmethod
    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
    ) -> EvidenceTraining:
        """Training at its beginning; arguments as in ``fit``."""

    @abstractmethod
    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The likelihood of a task.

        Raises
        ------
        UsageError
            The scheme cannot do the task.
        """

    def fixed_point(self, classes: int) -> FixedPointSearch:
        """How EP is run to its end."""
        tolerance = self.ep_tolerance
        if tolerance is None:
            tolerance = self.tolerance_binary if classes == 2 else _TOLERANCE_CLASSES
        return FixedPointSearch(damping=self.damping, tolerance=tolerance, limit=self.ep_iterations, memory=self.mixing)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
        on_step: OnStep,
    ) -> Fit:
        """Train; see :class:`gpbench.schemes.base.Scheme`.

        Raises
        ------
        UsageError
            The likelihood is not EP's.
        DataError
            A label is none of the classes.
        """
        needed = self.likelihood_for("binary" if classes == 2 else "multiclass", classes)
        check_ep_targets(self.name, y, needed=needed.name, given=likelihood, classes=classes)
        return run_training(
            self.name,
            lambda: self.start(X, y, inducing=inducing, likelihood=likelihood, classes=classes, rng=rng),
            on_step,
        )


class Settled(Protocol):
    """EP at its fixed point for some unknowns."""

    @property
    def log_z(self) -> float:
        """Log evidence (nats)."""

    @property
    def objective(self) -> float:
        """What is climbed (nats): the log evidence, and the log prior of the unknowns where there is one."""

    @property
    def outcome(self) -> FixedPointOutcome:
        """The sites and how they settled."""

    @property
    def jitters(self) -> tuple[float, ...]:
        """Absolute jitter of each latent function."""

    def gradient(self) -> dict[str, Array]:
        """Gradient of the objective in the unknowns, by name."""

    def latents(self) -> tuple[Latent, ...]:
        """The latent functions."""


class Evidence(Protocol):
    """The evidence of a data set as a function of its unknowns: log hyper-parameters, inducing inputs."""

    @property
    def unknowns(self) -> Unknowns:
        """Where training starts."""

    @property
    def sites(self) -> Array:
        """Sites of zero precision."""

    def at(
        self,
        values: Mapping[str, Array],
        *,
        sites: Array,
        search: FixedPointSearch,
        jitters: Sequence[float] | None,
        check: Callable[[], None],
    ) -> Settled:
        """EP run from given sites; ``check`` is called before each update of them, and may raise to end training.

        Raises
        ------
        NumericalError
            There is no value.
        """


class EvidenceTraining(Training):
    """L-BFGS-B on the log evidence.

    Parameters
    ----------
    scheme : EPScheme
    evidence : Evidence
    likelihood : Likelihood
    classes : int

    Attributes
    ----------
    best : Settled
        The best state so far.
    updates, unsettled : int
        Parallel site updates in all, and evaluations at which EP did not reach its tolerance.
    """

    unit = "evaluation"

    def __init__(self, scheme: EPScheme, evidence: Evidence, likelihood: Likelihood, classes: int) -> None:
        super().__init__(limit=scheme.max_iterations)
        self._scheme, self._evidence = scheme, evidence
        self._likelihood, self._classes = likelihood, classes
        self._fixed_point = scheme.fixed_point(classes)
        self.updates = self.unsettled = 0
        self._sites = evidence.sites
        self.best: Settled

    def begin(self) -> None:
        """EP at the first hyper-parameters; where that is stopped, the posterior of the sites that it has come to."""
        start = self._evidence.unknowns.x
        try:
            self.best = self._settle(start, None)
        except StopTraining:
            brief = replace(self._fixed_point, limit=0)  # no update: the posterior that these sites make
            values = self._evidence.unknowns.values(start)
            self.best = self._evidence.at(values, sites=self._sites, search=brief, jitters=None, check=lambda: None)
            raise

    def train(self) -> StoppedBy:
        """Search until nothing is gained or the evaluations are used up."""
        scheme, unknowns = self._scheme, self._evidence.unknowns
        if not unknowns.size:
            self.trainer.report(self.best.log_z)
            return "converged" if self.best.outcome.settled else "iterations"
        jitters: tuple[float, ...] | None = None

        def begin(x: Array) -> None:  # noqa: ARG001 - the first evaluation chooses new jitters
            nonlocal jitters
            jitters = None

        def objective(x: Array) -> Point[Settled]:
            nonlocal jitters
            state = self._settle(x, jitters)
            jitters = state.jitters
            return Point(state.objective, unknowns.gradient(state.gradient()), state)

        def evaluated(best: Settled, value: float) -> None:  # noqa: ARG001 - the log evidence is what is told
            self.best = best
            self.trainer.report(best.log_z)

        search = LBFGSB(
            memory=scheme.memory,
            gradient_tolerance=scheme.gradient_tolerance,
            value_tolerance=scheme.value_tolerance,
        )
        return maximise(
            objective,
            unknowns.x,
            search=search,
            evaluations=lambda: self.trainer.left,
            bounds=unknowns.bounds,
            begin=begin,
            on_evaluation=evaluated,
        ).stopped_by

    def posterior(self) -> Posterior:
        """The posterior of the best state so far."""
        return Posterior(self.best.latents(), self._likelihood, classes=self._classes)

    def bound(self) -> float:
        """EP's log evidence there."""
        return self.best.log_z

    def facts(self) -> dict[str, int]:
        """What EP took."""
        return {"site_updates": self.updates, "unsettled": self.unsettled}

    def _settle(self, x: Array, jitters: Sequence[float] | None) -> Settled:
        """EP at x: from the sites before, and where that fails from none.

        Raises
        ------
        NumericalError
            It does not settle either way.
        """
        state: Settled | None = None
        search = self._fixed_point
        try:
            state = self._run(x, self._sites, search, jitters)
        except NumericalError:
            if not np.any(self._sites):
                raise
        if state is None or not state.outcome.settled:
            search.forget()
            patient = replace(search, memory=0, damping=min(_PATIENT_DAMPING, search.damping), limit=5 * search.limit)
            patient_state = self._run(x, self._evidence.sites, patient, jitters)
            if state is None or patient_state.outcome.change < state.outcome.change:
                state = patient_state
        if not state.outcome.settled:
            self.unsettled += 1
            if not state.outcome.change <= LEAST_SETTLED:
                raise NumericalError(
                    f"EP did not settle: sites still change by {state.outcome.change:.3g} after "
                    f"{state.outcome.iterations} damped updates"
                )
        self._sites = state.outcome.x
        return state

    def _run(self, x: Array, sites: Array, search: FixedPointSearch, jitters: Sequence[float] | None) -> Settled:
        values = self._evidence.unknowns.values(np.array(x))
        try:
            state = self._evidence.at(values, sites=sites, search=search, jitters=jitters, check=self.trainer.check)
        except StopTraining:
            self._sites = sites if search.reached is None else search.reached
            raise
        self.updates += state.outcome.iterations
        return state
