"""What training tells of itself: a step at a time, counted, held to a limit and to a stopping rule.

The engine of every scheme's loop, whatever it does in a step: :class:`Trainer` counts, tells ``on_step``, asks the
stopping rule, and knows why training ended. Who called ``fit`` may end it at any step by :class:`StopTraining`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from gpbench.model.posterior import Predictor

__all__ = ["OnStep", "Step", "StopTraining", "StoppedBy", "StoppingRule", "Trainer"]

StoppedBy = Literal["converged", "iterations", "on_step", "failed-to-improve", "unknown"]
"""Why training ended: the scheme's stated criterion holds; its iterations are used up; ``on_step`` said so; no step led
to anything better though the criterion does not hold; or the scheme does not say."""


class StopTraining(Exception):
    """Raised by ``on_step`` to end training; not an error. ``fit`` then returns the state that it has."""


class Step:
    """One iteration, as it is reported to ``on_step``.

    Attributes
    ----------
    iteration : int
        Counts from 1: mini-batch steps, or evaluations of the objective under scipy's optimisers.
    bound : float or None
        The objective on the whole training set (nats), where the scheme knows it at this step.
    posterior : callable
        Makes the posterior that training has come to; costs something, so it is called only when wanted.
    elapsed : tuple of float or None
        Wall and processor seconds of training up to this step, where the scheme runs in another process and only a
        clock there can tell them; None: the caller's own clock is right.
    """

    __slots__ = ("bound", "elapsed", "iteration", "posterior")

    def __init__(
        self,
        iteration: int,
        *,
        bound: float | None,
        posterior: Callable[[], Predictor],
        elapsed: tuple[float, float] | None = None,
    ) -> None:
        self.iteration = iteration
        self.bound = bound
        self.posterior = posterior
        self.elapsed = elapsed


OnStep = Callable[[Step], None]
"""Told of each step. It may have a method ``check()`` beside, for schemes whose steps are long: it raises StopTraining
past a limit, and never evaluates."""


class StoppingRule(Protocol):
    """Says after a step whether training has converged."""

    def converged(self, iteration: int) -> bool:
        """To be asked after each iteration, counted from 1; the rule itself knows when to look."""


class Trainer:
    """Counts iterations, tells of each, and knows when to end and why.

    ::

        while trainer.running:
            ...                          # one step
            trainer.report(bound)
        return trainer.stopped_by

    Parameters
    ----------
    limit : int
        Iterations at most.
    posterior : callable
        Makes the posterior that training has come to.

    Attributes
    ----------
    on_step : callable or None
        Told of each iteration, once training has begun.
    rule : StoppingRule or None
        Asked after each iteration.
    count : int
        Iterations so far.
    stopped_by : str
        Why training ended; ``on_step`` while it has not.
    """

    def __init__(self, *, limit: int, posterior: Callable[[], Predictor]) -> None:
        self.on_step: OnStep | None = None
        self.rule: StoppingRule | None = None
        self.count = 0
        self.stopped_by: StoppedBy = "on_step"
        self._limit, self._posterior = limit, posterior

    @property
    def running(self) -> bool:
        """Whether there is to be another iteration."""
        return self.stopped_by == "on_step"

    @property
    def left(self) -> int:
        """Iterations that may still be taken."""
        return self._limit - self.count

    def report(self, bound: float | None = None) -> None:
        """Count an iteration and tell of it.

        Parameters
        ----------
        bound : float, optional
            The objective on all rows (nats), where it is known.

        Raises
        ------
        StopTraining
            From ``on_step``.
        """
        self.count += 1
        if self.on_step is not None:
            self.on_step(Step(self.count, bound=bound, posterior=self._posterior))
        if self.rule is not None and self.rule.converged(self.count):
            self.stopped_by = "converged"
        elif self.left <= 0:
            self.stopped_by = "iterations"

    def check(self) -> None:
        """Ask within a long step whether to end now.

        Raises
        ------
        StopTraining
            A limit has passed.
        """
        check = getattr(self.on_step, "check", None)
        if check is not None:
            check()
