"""What is measured while a scheme trains: the trace, and the watcher that writes it.

The watcher is the ``on_step`` of a scheme. When nothing is due it costs a comparison of two integers and one look at
the clock, some 0.2 us; everything else happens with the training clock stopped. A scheme whose steps are long asks
:meth:`Watcher.check` within them whether a limit on seconds has passed.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gpbench.bench.clock import Clock, LogGrid
from gpbench.schemes.base import Step, StopTraining

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpbench.bench.calibration import Gauge
    from gpbench.bench.cell import Limits
    from gpbench.bench.clock import Counts
    from gpbench.bench.watchdog import Board
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
        Running while the scheme trains; see :meth:`begin` and :meth:`end`.
    evaluate : callable or None
        Posterior -> (NLL, error) on the test rows; called with the clock stopped. None where there are no test rows:
        the watcher then holds training to its limits and nothing else, and the trace stays empty.
    limits : Limits
    grid : LogGrid
        Evaluations after the first step.
    gauge : Gauge, optional
        Takes the time of the fixed step when it is due, with the clock stopped.
    board : Board, optional
        Where it stands in training is told to the process that watches this one.

    Attributes
    ----------
    trace : Trace
    stopped_by : str or None
        ``"iterations"`` or ``"seconds"`` once the watcher has ended the training.
    """

    __slots__ = (
        "_board", "_check_due", "_clock", "_due", "_evaluate", "_gauge", "_grid", "_last", "_last_iteration", "_next",
        "_seconds", "stopped_by", "trace",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        evaluate: Callable[[Predictor], tuple[float, float]] | None,
        *,
        limits: Limits,
        grid: LogGrid | None = None,
        gauge: Gauge | None = None,
        board: Board | None = None,
    ) -> None:
        self._clock = clock
        self._evaluate = evaluate
        self._grid = grid or LogGrid()
        self._gauge, self._board = gauge, board
        self._seconds = math.inf if limits.seconds is None else limits.seconds
        self._last_iteration: float = math.inf if limits.iterations is None else limits.iterations
        self._next = -math.inf  # training seconds of the next look; the first step is always looked at
        self._due = -math.inf  # moments up to which nothing is due: at a step, and within one
        self._check_due = -math.inf
        self._last: Step | None = None
        self.trace = Trace()
        self.stopped_by: str | None = None

    @property
    def clock(self) -> Counts:
        """Which seconds count: ``"processor"`` or ``"wall"``."""
        return self._clock.counts

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return 0 if self._last is None else int(self._last.iteration)

    @property
    def bound(self) -> float | None:
        """The objective at the last step, where it is known."""
        return None if self._last is None or self._last.bound is None else float(self._last.bound)

    def begin(self) -> None:
        """Training begins, or goes on: start the clock."""
        if self._board is not None:
            self._board.trains(iteration=self.iteration, cpu_seconds=self._clock.cpu_seconds)
        self._clock.start()

    def end(self) -> None:
        """Training pauses, or is over: stop the clock."""
        self._clock.stop()
        if self._board is not None:
            self._board.rests(iteration=self.iteration, cpu_seconds=self._clock.cpu_seconds)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock for what is no training: a rival's start-up and compilation."""
        self.end()
        try:
            yield
        finally:
            self.begin()

    def __call__(self, step: Step) -> None:
        """Look at a step.

        Raises
        ------
        StopTraining
            A limit is reached.
        """
        self._last = step
        if step.elapsed is not None:  # its clock is elsewhere, and stands while we look
            self._follow(step, step.elapsed)
            return
        if step.iteration < self._last_iteration and perf_counter() < self._due:
            return
        self.end()
        try:
            if step.iteration >= self._last_iteration or self._clock.seconds >= self._next:
                self._look(step)
                self._next = self.next_look()[0]
            self._calibrate()
        finally:
            self.begin()
        self._due = self._moment(self._next)

    def check(self) -> None:
        """Ask within a long step whether a limit on seconds has passed; nothing is evaluated.

        Raises
        ------
        StopTraining
            It has.
        """
        if perf_counter() < self._check_due or not self._clock.running:
            return
        self.end()
        try:
            if self._clock.seconds >= self._seconds:
                self.stopped_by = "seconds"
                raise StopTraining
            self._calibrate()
        finally:
            self.begin()
        self._check_due = self._moment(self._seconds)

    def next_look(self) -> tuple[float, float]:
        """Training seconds and iteration of the next look, whichever comes first; infinite where there is no limit."""
        if self._last is None:  # the first step is always looked at
            return 0.0, 1.0
        return min(self._seconds, self._grid.after(self._clock.seconds)), self._last_iteration

    def _follow(self, step: Step, elapsed: tuple[float, float]) -> None:
        self._clock.follow(*elapsed)
        self.end()
        self._look(step)
        self._calibrate()
        if self._board is not None:  # the rival trains on, and our own clock stands
            self._board.trains(iteration=self.iteration, cpu_seconds=self._clock.cpu_seconds)

    def _look(self, step: Step) -> None:
        seconds = self._clock.seconds
        # No evaluation at a limit: the posterior that `fit` returns is evaluated in any case.
        if step.iteration >= self._last_iteration:
            self.stopped_by = "iterations"
            raise StopTraining
        if seconds >= self._seconds:
            self.stopped_by = "seconds"
            raise StopTraining
        if self._evaluate is None:
            return
        nll, error = self._evaluate(step.posterior())
        self.trace.add(seconds=seconds, iteration=step.iteration, nll=nll, error=error, bound=step.bound)

    def _calibrate(self) -> None:
        if self._gauge is not None:
            self._gauge.take_if_due()

    def _moment(self, seconds: float) -> float:
        moment = self._clock.moment(seconds)
        return moment if self._gauge is None else min(moment, self._gauge.due)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
