"""The loop that mini-batch schemes share: draw, step, tell, look at the stopping rule; and steps that are retried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from gpbench.errors import NumericalError
from gpbench.optimize.training import Minibatches
from gpbench.schemes.base import Step
from gpbench.schemes.stochastic_settings import Watch

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.model.posterior import Posterior
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.schemes.base import OnStep
    from gpbench.schemes.stochastic_settings import MinibatchSettings

__all__ = ["MinibatchRun", "persist", "take_step", "train_by_minibatches"]


class MinibatchRun(Protocol):
    """Training that takes one mini-batch at a time."""

    iteration: int

    def step(self, X: Array, y: Labels, *, scale: float) -> None:
        """One iteration on a batch X (b, d), y (b,), with ζ = ``scale``."""

    def posterior(self) -> Posterior:
        """The posterior of this moment."""


def take_step(run: MinibatchRun, batches: Minibatches, X: Rows, y: Labels, *, on_step: OnStep) -> None:
    """One iteration on the next batch of X (n, d), y (n,), and word of it."""
    rows = batches.draw()
    run.step(X[rows], y[rows], scale=batches.scale)
    on_step(Step(run.iteration, bound=None, posterior=run.posterior))


def train_by_minibatches(
    run: MinibatchRun,
    settings: MinibatchSettings,
    X: Rows,
    y: Labels,
    *,
    limit: int,
    rng: np.random.Generator,
    on_step: OnStep,
) -> str:
    """Step until the stopping rule says so or the iterations are used up.

    Parameters
    ----------
    run : MinibatchRun
    settings : MinibatchSettings
    X, y : (n, d), (n,)
    limit : int
        Iterations at most.
    rng : numpy.random.Generator
        Draws the rows held out, and the batches.
    on_step : callable

    Returns
    -------
    str
        ``converged`` or ``iterations``.

    Raises
    ------
    NumericalError
        A step failed past every remedy.
    StopTraining
        From ``on_step``, between two iterations.
    """
    watch = Watch(settings, X, y, rng=rng)
    batches = Minibatches(len(X), settings.batch_size, rng=rng, without=watch.rows)
    while run.iteration < limit:
        take_step(run, batches, X, y, on_step=on_step)
        if watch.due(run.iteration) and watch.converged(run.posterior()):
            return "converged"
    return "iterations"


def persist(attempt: Callable[[], None], *, step_back: Callable[[], None], tries: int) -> None:
    """Try a step; after each failure go back, to try a shorter one.

    Parameters
    ----------
    attempt : callable
        The step; overflow in it is no warning, since it is looked at afterwards.
    step_back : callable
        Undoes a failed step and makes the next one shorter.
    tries : int
        At most.

    Raises
    ------
    NumericalError
        Of the last try.
    """
    for _ in range(tries):
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # looked at by the step
                attempt()
        except NumericalError as error:
            failure = error
            step_back()
        else:
            return
    raise failure
