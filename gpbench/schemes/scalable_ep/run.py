"""Training of scalable EP one batch at a time: the sites of a batch, then a step of all hyper-parameters.

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
n, b      rows in all and in a batch
p         hyper-parameters and inducing inputs of all latent functions                         (size,)
ε         damping of the site updates
========  ===================================================================================  ===========

One look at a batch updates its sites and gives the gradient as it was before, villacampa2017's eq. (12); then p takes
a step, and the sites, which stay what they are as functions of u, are seen from the new kernel. On mini-batches the
steps are Adam's, with ε = 1; where all rows are one batch (stochastic EP) they have the adaptive rates of
:mod:`gpbench.schemes.scalable_ep.batch`, with its damping. A step that leads to something that cannot be factorised is
halved, and so is the rate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.posterior import Posterior
from gpbench.optimize.steps import Adam
from gpbench.optimize.training import Minibatches
from gpbench.schemes.base import OnStep, Step
from gpbench.schemes.scalable_ep.damping import Damping, Rising
from gpbench.schemes.scalable_ep.sign_rates import SignRates
from gpbench.schemes.stochastic_settings import Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from gpbench.model.rows import Array
    from gpbench.schemes.scalable_ep.moving import MovingSites
    from gpbench.schemes.scalable_ep.settings import MGPCSettings, Problem
    from gpbench.schemes.scalable_ep.unknowns import Unknowns

__all__ = ["BatchLook", "StepRun"]

RETRIES = 20
"""Times that a step is halved before a failure is final."""


class BatchLook(Protocol):
    """What a run needs to know of a batch."""

    @property
    def gradient(self) -> Sequence[tuple[Array, Array]]:
        """Of log Z, for each latent function."""

    @property
    def log_z(self) -> float | None:
        """Evidence (nats), where all rows were looked at."""

    @property
    def residual(self) -> Array | None:
        """Change of the undamped update, where it is to be watched."""


class _Ascent(Protocol):
    def step(self, gradient: Array) -> Array: ...

    def shorter(self) -> Array: ...


class _AdamSteps:
    """Adam for each latent function, whose vectors stay in the cache; a step can be taken again at half the rate."""

    def __init__(self, unknowns: Unknowns, *, rate: float) -> None:
        self._parts, self._rate = unknowns.parts, rate
        self._adams = [Adam(part.stop - part.start) for part in unknowns.parts]
        self._last = np.zeros(unknowns.size)

    def step(self, gradient: Array) -> Array:
        for part, adam in zip(self._parts, self._adams, strict=True):
            self._last[part] = adam.step(gradient[part], rate=self._rate)
        return self._last

    def shorter(self) -> Array:
        self._rate *= 0.5
        self._last *= 0.5
        return self._last


class StepRun(ABC):
    """Training of one posterior; a subclass says what the sites are.

    Attributes
    ----------
    iteration : int
    stopped_by : str
        ``converged`` or ``iterations``; ``on_step`` while neither is the case.
    retries : int
        Steps that were halved.
    """

    def __init__(self, settings: MGPCSettings, problem: Problem, *, batch: bool) -> None:
        self.iteration, self.stopped_by, self.retries = 0, "on_step", 0
        self._settings, self._problem, self._batch = settings, problem, batch
        self._watch = None if batch else Watch(settings, problem.X, problem.y, rng=problem.rng)
        self._p = problem.unknowns.start()
        self._damping = Damping.of(settings.damping, batch=batch, decay=settings.damping_decay)
        rate, unknowns = settings.rate, problem.unknowns
        self._rising = Rising(settings.rise if batch else 0.0)
        self._ascent: _Ascent
        if batch:
            self._ascent = SignRates(unknowns.size, first=rate, growth=settings.growth, longest=settings.longest_step)
        else:
            self._ascent = _AdamSteps(unknowns, rate=rate)

    @property
    @abstractmethod
    def sites(self) -> MovingSites:
        """The sites of all latent functions."""

    @abstractmethod
    def look(self, rows: slice | npt.NDArray[np.int64], *, scale: float, damping: float, gradient: bool) -> BatchLook:
        """Update the sites of some rows."""

    def end_epoch(self) -> bool:
        """Do what is to be done after all rows were seen once more, and say whether that was anything."""
        return False

    def more_facts(self) -> dict[str, Any]:
        """What else is to be recorded."""
        return {}

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"iteration {self.iteration}"

    @property
    def without(self) -> npt.NDArray[np.int64] | None:
        """Rows held out for the stopping rule, ascending."""
        return None if self._watch is None else self._watch.rows

    def train(self, on_step: OnStep) -> None:
        """Iterate until the rule says so or the iterations are used up.

        Raises
        ------
        NumericalError
            A step failed past every remedy.
        StopTraining
            From ``on_step``, between two iterations.
        """
        n, learns, watch = len(self._problem.X), len(self._p) > 0, self._watch
        batches = None
        if not self._batch:
            batches = Minibatches(n, self._settings.batch_size, rng=self._problem.rng, without=self.without)
        limit, seen = self._settings.iterations(batch=self._batch), 0.0
        while self.iteration < limit:
            rows: slice | npt.NDArray[np.int64] = slice(0, n) if batches is None else batches.draw()
            scale = 1.0 if batches is None else batches.scale
            look = self.look(rows, scale=scale, damping=self._damping.value, gradient=learns)
            self._damping.next(look.residual)
            if learns:
                self.advance(look)
            self.iteration += 1
            seen += 1.0 / scale
            if batches is not None and seen >= 1.0 - 1e-9:
                seen = 0.0
                self.end_epoch()
            on_step(Step(self.iteration, bound=look.log_z, posterior=self.posterior))
            done = look.log_z is not None and learns and not self._rising.go_on(look.log_z)
            if done or (watch is not None and watch.due(self.iteration) and watch.converged(self.posterior())):
                self.stopped_by = "converged"
                return
        self.stopped_by = "iterations"

    def posterior(self) -> Posterior:
        """The posterior of this moment."""
        latents = self.sites.latents()
        kernels = [latent.kernel.values() for latent in latents]
        facts = {
            "iterations": self.iteration,
            "stopped_by": self.stopped_by,
            "jitter": self.sites.jitter,
            "oscillations": self._damping.turned,
            "retries": self.retries,
            "hyperparameters": kernels[0] if len(kernels) == 1 else kernels,
        }
        facts |= self.more_facts()
        return Posterior(latents, self._problem.likelihood, classes=self._problem.classes, facts=facts)

    def advance(self, look: BatchLook) -> None:
        """Take a step of the hyper-parameters and inducing inputs from a look.

        Raises
        ------
        NumericalError
            It failed past every remedy.
        """
        unknowns, p = self._problem.unknowns, self._p
        step = self._ascent.step(unknowns.gradient(look.gradient))
        for _ in range(RETRIES):
            moved = unknowns.bounded(p + step)
            try:
                self.sites.move(*unknowns.at(moved))
            except NumericalError as error:
                failure = error
                self.retries += 1
                step = self._ascent.shorter()
            else:
                self._p = moved
                return
        raise failure
