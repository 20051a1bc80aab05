"""One line of a terminal that is written over and over, and texts and times for people."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

__all__ = ["StatusLine", "duration", "printable"]


class StatusLine:
    """A line that says how far something is; nothing is written unless the stream is a terminal.

    Parameters
    ----------
    stream : file
        Standard error by default.

    Attributes
    ----------
    live : bool
        Whether the stream is a terminal.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.live = self._stream.isatty()
        self._width = 0

    def show(self, words: str) -> None:
        """Write the line in place of what it said before."""
        if self.live:
            words = words[: shutil.get_terminal_size().columns - 1]  # a line that wraps could not be cleared
            self._write("\r" + words.ljust(self._width))
            self._width = len(words)

    def clear(self) -> None:
        """Leave nothing on the line."""
        if self._width:
            self._write("\r" + " " * self._width + "\r")
            self._width = 0

    def say(self, words: str) -> None:
        """Write a message that stays, terminal or not, on a line of its own."""
        self.clear()
        # Messages may hold names from files and plug-ins; none may act on the terminal.
        self._write(f"gpbench: {printable(words)}\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def printable(text: str) -> str:
    """The text on one line; control characters, which could act on a terminal, become U+FFFD."""
    return "".join(mark if mark.isprintable() else "\ufffd" for mark in " ".join(text.split()))


def duration(seconds: float) -> str:
    """Seconds for people: ``"45 s"``, ``"3:20"``, ``"2:05:00"``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
