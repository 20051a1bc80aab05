"""Progress of downloads and preparation on one line of a terminal."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, TextIO

from gpbench.terminal import StatusLine, duration

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Meter"]

_EVERY = 0.1  # seconds between two writings
_MEGA = 1e6


class Meter:
    """Shows label, share done, megabytes and the time left; silent unless the stream is a terminal.

    Serves as the ``progress`` of :func:`gpbench.data.load.load`.

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
        self._label = ""
        self._start = (0.0, 0)
        self._shown = float("-inf")

    def __call__(self, label: str, done: int, total: int | None) -> None:
        """Take notice of what is done, in bytes, of what there is to do."""
        if not self._line.live:
            return
        now = self._clock()
        if label != self._label:
            self._label, self._start = label, (now, done)
        elif now - self._shown < _EVERY and done != total:
            return
        self._shown = now
        self._line.show(self._words(now, done, total))

    def close(self) -> None:
        """Clear the line."""
        self._line.clear()

    def _words(self, now: float, done: int, total: int | None) -> str:
        if not total and not done:
            return self._label
        if not total:
            return f"{self._label}: {done / _MEGA:.1f} MB"
        words = f"{self._label}: {100 * done / total:3.0f} %, {done / _MEGA:.1f} of {total / _MEGA:.1f} MB"
        began, before = self._start
        if done > before and now > began and done < total:
            left = (total - done) * (now - began) / (done - before)
            words += f", {duration(left)} left"
        return words
