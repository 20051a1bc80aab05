"""How far a sweep is, with an estimate of the time left, on one line of a terminal."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from gpbench.terminal import StatusLine, duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.bench.runner import Task
    from gpbench.bench.sweep import Event

__all__ = ["Progress"]


class Progress:
    """Watcher of a sweep. Writes its line only to a terminal; bad news is always written, a line each.

    Parameters
    ----------
    stream : file
        Standard error by default.
    clock : callable
        Seconds; replaceable for tests.
    """

    def __init__(self, stream: TextIO | None = None, *, clock: Callable[[], float] = monotonic) -> None:
        self._line = StatusLine(stream)
        self._clock = clock
        self._started: dict[str, float] = {}
        self._took: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._waiting: dict[tuple[str, str], int] = defaultdict(int)
        self._limit: float | None = None
        self._ended = 0

    def __call__(self, event: Event) -> None:
        """Take notice of an event."""
        if event.kind in {"damaged", "otherwise"}:
            self._line.say(event.label)
        elif event.kind == "begin":
            self._ended = event.stored
            for task in event.to_do:
                self._waiting[_kind(task)] += 1
                self._limit = task.spec.limits.seconds
            if event.stored and self._line.live:
                self._line.say(f"{event.stored} of {event.total} cells are stored already")
        elif event.kind == "waiting":
            self._line.show(f"[{self._ended}/{event.total}] {event.label}")
        elif event.task is not None and event.kind == "elsewhere":
            self._ended += 1
            self._waiting[_kind(event.task)] -= 1
            self._show(event)
        elif event.task is not None and event.kind == "start":
            self._started[event.task.spec.key] = self._clock()
            self._show(event)
        elif event.task is not None and event.result is not None:
            key = event.task.spec.key
            self._took[_kind(event.task)].append(self._clock() - self._started.pop(key, self._clock()))
            self._ended += 1
            if (problem := event.result.problem) is not None:
                self._line.say(f"{event.label}: {event.result.status}: {problem}")
            self._show(event)

    def close(self) -> None:
        """Clear the line."""
        self._line.clear()

    def left(self, jobs: int) -> float | None:
        """Estimated seconds left: each cell to come takes what its like took, or the mean of all, or the limit."""
        every = [seconds for each in self._took.values() for seconds in each]
        usual = fmean(every) if every else self._limit
        if usual is None:
            return None
        total = 0.0
        for kind, number in self._waiting.items():
            took = self._took[kind]
            total += max(number - len(took), 0) * (fmean(took) if took else usual)
        return total / jobs

    def _show(self, event: Event) -> None:
        if not self._line.live:
            return
        assert event.task is not None
        left = self.left(event.task.jobs)
        words = f"[{self._ended}/{event.total}] {event.label}"
        if event.kind in {"end", "elsewhere"} and event.result is not None and event.result.finished:
            words += f": NLL {event.result.metrics['nll']:.4f}"
        if left is not None and self._ended < event.total:
            words += f"; about {duration(left)} left"
        self._line.show(words)


def _kind(task: Task) -> tuple[str, str]:
    return task.spec.method, task.spec.dataset
