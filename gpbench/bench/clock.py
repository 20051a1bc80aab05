"""The clock that training is measured with, and the grid of times at which the harness looks.

Training seconds are those inside ``fit`` less the pauses in which the harness evaluates. For a cell of one thread they
are processor seconds, which a busy machine, a stopped process and a slow disk leave as they are; with more threads
processor seconds add up over the threads, and wall seconds count. Both are kept, and which of them counts. A
logarithmic grid draws curves of a millisecond and of an hour equally well.
"""

from __future__ import annotations

import math
from time import perf_counter, process_time
from typing import Literal

__all__ = ["CLOCKS", "Clock", "Counts", "LogGrid", "clock_for"]

Counts = Literal["processor", "wall"]
"""Which seconds are training seconds."""
CLOCKS: tuple[Counts, ...] = ("processor", "wall")


def clock_for(threads: int | None) -> Counts:
    """Which seconds count with so many threads; None: as many as there are."""
    return "processor" if threads == 1 else "wall"


class Clock:
    """A stopwatch that can be paused. It is made stopped, at zero.

    Parameters
    ----------
    counts : str
        ``"processor"`` (of the whole process, all threads) or ``"wall"``: what :attr:`seconds` shows.

    Attributes
    ----------
    counts : str
    """

    __slots__ = ("_cpu", "_cpu_since", "_since", "_wall", "counts")

    def __init__(self, counts: Counts = "processor") -> None:
        self.counts = counts
        self._wall = 0.0
        self._cpu = 0.0
        self._since: float | None = None
        self._cpu_since = 0.0

    @property
    def running(self) -> bool:
        """Whether it counts at this moment."""
        return self._since is not None

    def start(self) -> None:
        """Go on counting."""
        assert self._since is None, "the clock runs already"
        self._cpu_since = process_time()
        self._since = perf_counter()

    def stop(self) -> None:
        """Stop counting; a clock that stands stays as it is."""
        if self._since is not None:
            self._wall += perf_counter() - self._since
            self._cpu += process_time() - self._cpu_since
            self._since = None

    def follow(self, seconds: float, cpu_seconds: float) -> None:
        """Show what another clock shows, that of a rival's process; this one then stands and is not started again."""
        self._since = None
        self._wall = seconds
        self._cpu = cpu_seconds

    @property
    def seconds(self) -> float:
        """Training seconds, processor or wall, counted up to the last stop."""
        return self._cpu if self.counts == "processor" else self._wall

    @property
    def wall_seconds(self) -> float:
        """Wall seconds counted up to the last stop."""
        return self._wall

    @property
    def cpu_seconds(self) -> float:
        """Processor seconds counted up to the last stop."""
        return self._cpu

    def moment(self, seconds: float) -> float:
        """The ``perf_counter`` value up to which a running clock cannot show so many seconds.

        Wall time is asked for at every step, since it costs a tenth of what processor time does. One thread's processor
        time never runs ahead of it; a process that ran on several threads is expected to go on as it did.
        """
        assert self._since is not None, "the clock stands"
        left = seconds - self.seconds
        if self.counts == "processor" and self._cpu > self._wall > 0.0:
            left *= self._wall / self._cpu
        return self._since + left


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
