"""What is measured while a scheme trains: the trace, and the watcher that writes it.

The watcher is the ``on_step`` of a scheme. When nothing is due it costs a comparison of two integers and one look at
the clock, some 0.2 us; everything else happens with the training clock stopped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gpbench.bench.clock import Clock, LogGrid
from gpbench.schemes.base import Step, StopTraining

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.bench.cell import Limits
    from gpbench.model.posterior import Predictor

__all__ = ["Trace", "Watcher"]


@dataclass
class Trace:
    """Measurements in the order of time; columns of one length.

    Attributes
    ----------
    seconds : list of float
        Training seconds.
    iteration : list of int
    nll, error : list of float
        Mean over the test rows.
    bound : list of float or None
        The scheme's objective, where it was known.
    """

    seconds: list[float] = field(default_factory=list)
    iteration: list[int] = field(default_factory=list)
    nll: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)
    bound: list[float | None] = field(default_factory=list)

    def add(self, *, seconds: float, iteration: int, nll: float, error: float, bound: float | None) -> None:
        """Append a measurement; one of the same iteration as the last takes its place."""
        if self.iteration and self.iteration[-1] == iteration:
            for column in vars(self).values():
                column.pop()
        # Plain numbers: a scheme may count in numpy's, which JSON does not take.
        self.seconds.append(float(seconds))
        self.iteration.append(int(iteration))
        self.nll.append(float(nll))
        self.error.append(float(error))
        self.bound.append(None if bound is None else float(bound))

    def columns(self) -> dict[str, list[Any]]:
        """For JSON, which knows no NaN and no infinity: null stands for both."""
        return {
            "seconds": list(self.seconds),
            "iteration": list(self.iteration),
            "nll": [_finite(value) for value in self.nll],
            "error": [_finite(value) for value in self.error],
            "bound": [_finite(value) for value in self.bound],
        }


class Watcher:
    """The ``on_step`` of one cell: evaluates when the grid says so, ends the training at a limit.

    Parameters
    ----------
    clock : Clock
        Running while the scheme trains.
    evaluate : callable
        Posterior -> (NLL, error) on the test rows; called with the clock stopped.
    limits : Limits
    grid : LogGrid
        Evaluations after the first step.

    Attributes
    ----------
    trace : Trace
    stopped_by : str or None
        ``"iterations"`` or ``"seconds"`` once the watcher has ended the training.
    """

    __slots__ = ("_clock", "_due", "_evaluate", "_grid", "_last", "_last_iteration", "_seconds", "stopped_by", "trace")

    def __init__(
        self,
        clock: Clock,
        evaluate: Callable[[Predictor], tuple[float, float]],
        *,
        limits: Limits,
        grid: LogGrid | None = None,
    ) -> None:
        self._clock = clock
        self._evaluate = evaluate
        self._grid = grid or LogGrid()
        self._seconds = math.inf if limits.seconds is None else limits.seconds
        self._last_iteration: float = math.inf if limits.iterations is None else limits.iterations
        self._due = -math.inf  # the first step is always looked at
        self._last: Step | None = None
        self.trace = Trace()
        self.stopped_by: str | None = None

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return 0 if self._last is None else int(self._last.iteration)

    @property
    def bound(self) -> float | None:
        """The objective at the last step, where it is known."""
        return None if self._last is None or self._last.bound is None else float(self._last.bound)

    def __call__(self, step: Step) -> None:
        """Look at a step.

        Raises
        ------
        StopTraining
            A limit is reached.
        """
        self._last = step
        if step.elapsed is not None:  # its clock is elsewhere, and stands while we look
            self._clock.follow(*step.elapsed)
            self._look(step)
            return
        if step.iteration < self._last_iteration and perf_counter() < self._due:
            return
        self._clock.stop()
        try:
            self._look(step)
        finally:
            self._clock.start()
        self._due = self._clock.moment(self.next_look()[0])

    def next_look(self) -> tuple[float, float]:
        """Training seconds and iteration of the next look, whichever comes first; infinite where there is no limit."""
        if self._last is None:  # the first step is always looked at
            return 0.0, 1.0
        return min(self._seconds, self._grid.after(self._clock.seconds)), self._last_iteration

    def _look(self, step: Step) -> None:
        seconds = self._clock.seconds
        # No evaluation at a limit: the posterior that `fit` returns is evaluated in any case.
        if step.iteration >= self._last_iteration:
            self.stopped_by = "iterations"
            raise StopTraining
        if seconds >= self._seconds:
            self.stopped_by = "seconds"
            raise StopTraining
        nll, error = self._evaluate(step.posterior())
        self.trace.add(seconds=seconds, iteration=step.iteration, nll=nll, error=error, bound=step.bound)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
