"""Ctrl-C: the first one ends a command, others that follow at once must not cut short how it ends.

A hand that is impatient presses more than once. Each further SIGINT would raise KeyboardInterrupt anew, wherever the
program is: among the lines that store what was finished and end the workers, or in Python's own end, which would then
kill the process by the signal in place of exit code 130.
"""

from __future__ import annotations

import atexit
import signal
import threading
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["HEEDED_AFTER", "heed_the_first", "is_kept"]

HEEDED_AFTER = 3.0
"""Seconds after which another Ctrl-C counts again: for an end that hangs."""

_KEPT = "what is finished is kept, and the same command goes on from there (with --force it begins anew)"
_LEFT = {
    "run": _KEPT,
    "reproduce": _KEPT,
    "truth": "what is finished is kept",
    "fetch": "what has arrived is kept, and the same command goes on from there",
    "fit": "no model was written",
    "predict": "no file was written",
}
"""What an interrupted command leaves; others leave nothing that need be said."""


def is_kept(command: str | None) -> str:
    """What is true of an interrupted command, to follow "interrupted"; empty where that word says all."""
    words = _LEFT.get(command or "", "")
    return f"; {words}" if words else ""


def heed_the_first() -> None:
    """From now on, SIGINT raises KeyboardInterrupt once, and again only after :data:`HEEDED_AFTER` seconds.

    Nothing is changed where SIGINT does not raise it now: under ``nohup``, or where another program has a handler.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    signal.signal(signal.SIGINT, _Heeding())


class _Heeding:
    """The handler."""

    def __init__(self) -> None:
        self._last: float | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = monotonic()
        if self._last is not None and now - self._last < HEEDED_AFTER:
            return
        if self._last is None:  # Python takes its handlers away before it has ended
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)
        self._last = now
        signal.default_int_handler(number, frame)
