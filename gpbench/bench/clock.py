"""The clock that training is measured with, and the grid of times at which the harness looks.

Training seconds are wall time inside ``fit`` less the pauses in which the harness evaluates; processor seconds of the
whole process (all threads) are counted beside it. A logarithmic grid draws curves of a millisecond and of an hour
equally well.
"""

from __future__ import annotations

import math
from time import perf_counter, process_time

__all__ = ["Clock", "LogGrid"]


class Clock:
    """A stopwatch that can be paused. It is made stopped, at zero."""

    __slots__ = ("_cpu", "_cpu_since", "_seconds", "_since")

    def __init__(self) -> None:
        self._seconds = 0.0
        self._cpu = 0.0
        self._since: float | None = None
        self._cpu_since = 0.0

    def start(self) -> None:
        """Go on counting."""
        assert self._since is None, "the clock runs already"
        self._cpu_since = process_time()
        self._since = perf_counter()

    def stop(self) -> None:
        """Stop counting; a clock that stands stays as it is."""
        if self._since is not None:
            self._seconds += perf_counter() - self._since
            self._cpu += process_time() - self._cpu_since
            self._since = None

    def follow(self, seconds: float, cpu_seconds: float) -> None:
        """Show what another clock shows, that of a rival's process; this one then stands and is not started again."""
        self._since = None
        self._seconds = seconds
        self._cpu = cpu_seconds

    @property
    def seconds(self) -> float:
        """Wall seconds counted up to the last stop."""
        return self._seconds

    @property
    def cpu_seconds(self) -> float:
        """Processor seconds counted up to the last stop."""
        return self._cpu

    def moment(self, seconds: float) -> float:
        """The ``perf_counter`` value at which a running clock will show so many seconds."""
        assert self._since is not None, "the clock stands"
        return self._since + seconds - self._seconds


class LogGrid:
    """Times first * 10^(k / per_decade), k = 0, 1, ...: the same for every cell, so that curves can be averaged.

    Parameters
    ----------
    first : float
        Seconds.
    per_decade : int
        Times in each factor of ten.
    """

    def __init__(self, *, first: float = 1e-3, per_decade: int = 10) -> None:
        self.first = first
        self.per_decade = per_decade

    def after(self, seconds: float) -> float:
        """The first time of the grid that is later than ``seconds``."""
        if seconds < self.first:
            return self.first
        k = math.floor(math.log10(seconds / self.first) * self.per_decade)
        while (time := self.first * math.pow(10.0, k / self.per_decade)) <= seconds:  # k may be one short by rounding
            k += 1
        return time
