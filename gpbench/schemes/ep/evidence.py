"""L-BFGS-B on the log evidence of EP that is run to its fixed point at each evaluation.

The gradient of log Z is that at fixed sites, exact at the fixed point and there alone. So EP is settled to a tight
tolerance, from the sites of the evaluation before; where it does not settle, from zero sites with plain damped updates,
and where that fails too the evaluation has no value and the line search steps back. Jitter keeps its absolute value
while L-BFGS-B runs; where a line search fails, mostly because that jitter no longer suffices, the search starts again
with a new one and a new approximation of the Hessian.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.posterior import Posterior
from gpbench.optimize.lbfgsb import LBFGSB, Reason
from gpbench.schemes.batch_settings import Evaluations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.model.latent import Latent
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array
    from gpbench.optimize.fixed_point import FixedPointOutcome, FixedPointSearch
    from gpbench.schemes.base import OnStep
    from gpbench.schemes.ep.settings import EPSettings

__all__ = ["Climb", "Evidence", "Settled"]

LEAST_SETTLED = 1e-2
"""An evaluation whose sites still change by more than this, after the last remedy, has no value."""
_PATIENT_DAMPING = 0.2


class Settled(Protocol):
    """EP at its fixed point for some unknowns."""

    @property
    def log_z(self) -> float:
        """Log evidence (nats)."""

    @property
    def outcome(self) -> FixedPointOutcome:
        """The sites and how they settled."""

    @property
    def jitters(self) -> tuple[float, ...]:
        """Absolute jitter of each latent function."""

    def slope(self) -> Array:
        """Gradient of log Z in the unknowns, (k,)."""

    def latents(self) -> tuple[Latent, ...]:
        """The latent functions."""


class Evidence(Protocol):
    """The evidence of a data set as a function of its unknowns: log hyper-parameters, inducing inputs."""

    @property
    def x0(self) -> Array:
        """Where training starts, (k,)."""

    @property
    def box(self) -> tuple[Array, Array]:
        """Least and largest unknowns."""

    @property
    def sites(self) -> Array:
        """Sites of zero precision."""

    def at(self, x: Array, *, sites: Array, search: FixedPointSearch, jitters: Sequence[float] | None) -> Settled:
        """EP run at the unknowns x from given sites.

        Raises
        ------
        NumericalError
            There is no value.
        """


class Climb:
    """One fit.

    Parameters
    ----------
    settings : EPSettings
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

    def __init__(self, settings: EPSettings, evidence: Evidence, likelihood: Likelihood, classes: int) -> None:
        self._settings, self._evidence = settings, evidence
        self._likelihood, self._classes = likelihood, classes
        self._search = settings.fixed_point(classes)
        self._x = evidence.x0
        self.updates = self.unsettled = 0
        self.stopped_by = "on_step"
        self.evaluations = Evaluations(settings.max_iterations, posterior=self.posterior)
        self._sites = evidence.sites
        self.best = self._settle(self._x, None)

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"evaluation {self.evaluations.count}"

    def train(self, on_step: OnStep) -> None:
        """Climb until nothing rises or the evaluations are used up."""
        self.evaluations.on_step = on_step
        settings = self._settings
        if not len(self._x):
            self.evaluations.report(self.best.log_z)
            self.stopped_by = "converged"
            return
        reason: Reason = "evaluations"
        while self.evaluations.left > 0:
            before = self.best.log_z
            reason = self._climb()
            if reason != "line search" or self.best.log_z - before <= settings.value_tolerance * abs(before):
                break
        ended = self.evaluations.left <= 0 or reason in {"evaluations", "iterations"}
        self.stopped_by = "iterations" if ended else "converged"

    def posterior(self) -> Posterior:
        """The posterior of the best state so far."""
        latents = self.best.latents()
        kernels = [latent.kernel.values() for latent in latents]
        facts = {
            "iterations": self.evaluations.count,
            "stopped_by": self.stopped_by,
            "jitter": max(latent.jitter for latent in latents),
            "bound": self.best.log_z,
            "site_updates": self.updates,
            "unsettled": self.unsettled,
            "hyperparameters": kernels[0] if len(kernels) == 1 else kernels,
        }
        return Posterior(latents, self._likelihood, classes=self._classes, facts=facts)

    def _climb(self) -> Reason:
        settings = self._settings
        jitters: tuple[float, ...] | None = None
        trial = self.best

        def objective(x: Array) -> tuple[float, Array]:
            nonlocal jitters, trial
            trial = self._settle(x, jitters)
            jitters = trial.jitters
            return trial.log_z, trial.slope()

        def evaluated(value: float, *, improved: bool) -> None:  # noqa: ARG001  # the evidence itself is kept
            if improved:
                self.best, self._x = trial, self._tried
            self.evaluations.report(self.best.log_z)

        search = LBFGSB(
            memory=settings.memory,
            gradient_tolerance=settings.gradient_tolerance,
            value_tolerance=settings.value_tolerance,
        )
        return search.maximise(
            objective,
            self._x,
            max_evaluations=self.evaluations.left,
            bounds=self._evidence.box,
            on_evaluation=evaluated,
        ).reason

    def _settle(self, x: Array, jitters: Sequence[float] | None) -> Settled:
        """EP at x: from the sites before, and where that fails from none.

        Raises
        ------
        NumericalError
            It does not settle either way.
        """
        self._tried = np.array(x)
        state: Settled | None = None
        try:
            state = self._run(x, self._sites, self._search, jitters)
        except NumericalError:
            if not np.any(self._sites):
                raise
        if state is None or not state.outcome.settled:
            self._search.forget()
            patient = replace(
                self._search,
                memory=0,
                damping=min(_PATIENT_DAMPING, self._search.damping),
                limit=5 * self._search.limit,
            )
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
        state = self._evidence.at(x, sites=sites, search=search, jitters=jitters)
        self.updates += state.outcome.iterations
        return state
