"""The one place where gpbench prints: text that acts on no terminal, streams that are closed, a line written over.

Names of data sets and columns, members of archives, reasons of servers and messages of libraries come from elsewhere.
On a terminal a few of their characters could clear the screen, change its title or hide what follows. So everything
that is printed passes :func:`echo` or a :class:`StatusLine`, which put U+FFFD in place of control characters. Content
that other programs read (csv, JSON, pages) keeps its bytes where it goes to a file or a pipe.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
import warnings
from time import monotonic
from typing import TYPE_CHECKING, ClassVar, NoReturn, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Meter",
    "StatusLine",
    "duration",
    "echo",
    "open_streams",
    "printable",
    "printable_lines",
    "warn_on_one_line",
]


_EVERY = 0.1  # seconds between two writings of a meter
_MEGA = 1e6
_ON_ONE_LINE = {ord("\n"): " ", ord("\t"): " "}


def echo(text: str = "", *, err: bool = False, nl: bool = True, content: bool = False) -> None:
    """Print a text.

    Parameters
    ----------
    text : str
        One or more lines.
    err : bool
        To standard error: messages and warnings. What cannot be written there is lost, since nobody is left to tell.
    nl : bool
        End with a line break.
    content : bool
        The text is content, which keeps its bytes unless it goes to a terminal.

    Raises
    ------
    OSError
        Standard output cannot be written.
    """
    stream = sys.stderr if err else sys.stdout
    if not content or stream.isatty():
        text = printable_lines(text)
    if StatusLine.on_screen is not None:
        StatusLine.on_screen.clear()
    with contextlib.suppress(OSError) if err else contextlib.nullcontext():
        _write(stream, text + "\n" if nl else text)


def printable(text: str) -> str:
    """The text on one line; control characters, which could act on a terminal, become U+FFFD."""
    text = " ".join(text.split())
    if text.isprintable():  # nearly always
        return text
    return "".join(mark if mark.isprintable() else "\ufffd" for mark in text)


def printable_lines(text: str) -> str:
    """The text with its line breaks and tabs; all other control characters become U+FFFD."""
    text = text.replace("\r\n", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():  # nearly always, and eight times as fast
        return text
    return "".join(mark if mark.isprintable() or mark in "\n\t" else "\ufffd" for mark in text)


def open_streams() -> None:
    """Put something in the place of standard streams that were closed before the program began (``2>&-``).

    Without it the next file that is opened would get the number of the closed stream, and whatever a library writes to
    standard error would end up in that file. What goes to standard error is lost; a write to standard output is an
    ``OSError`` that says that it is closed.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest free number
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if sys.stdout is None:
        sys.stdout = _Closed()


class _Closed(io.TextIOBase):
    """Standard output that was closed before the program began."""

    def write(self, _: str) -> NoReturn:
        raise OSError(errno.EBADF, "it is closed", "standard output")


def warn_on_one_line() -> None:
    """Show what Python and the libraries warn of, or log as a warning, on one line of gpbench's own for each."""
    import logging  # noqa: PLC0415  # the program alone needs it

    class OneLine(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            echo(f"gpbench: {record.name}: {printable(record.getMessage())}", err=True)

    warnings.showwarning = _show_warning
    logging.lastResort = OneLine(logging.WARNING)  # for libraries that nobody has given a handler


def _show_warning(  # noqa: PLR0917  # Python's signature
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001  # nor the next
    line: str | None = None,  # noqa: ARG001
) -> None:
    from gpbench.errors import GpbenchWarning  # noqa: PLC0415  # `gpbench --help` needs none

    if issubclass(category, GpbenchWarning):
        echo(f"gpbench: {printable(str(message))}", err=True)
        return
    place = f"{os.path.basename(filename)}:{lineno}"  # noqa: PTH119  # a path would cost an import
    echo(f"gpbench: {category.__name__} ({place}): {printable(str(message))}", err=True)


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
    on_screen : StatusLine or None
        Of the class: the line that is to be seen now.
    """

    on_screen: ClassVar[StatusLine | None] = None

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.live = self._stream.isatty()
        self._width = 0

    def show(self, words: str) -> None:
        """Write the line in place of what it said before."""
        if self.live:
            import shutil  # noqa: PLC0415  # `gpbench --help` needs no line

            # A line that wraps could not be cleared.
            words = printable_lines(words).translate(_ON_ONE_LINE)[: shutil.get_terminal_size().columns - 1]
            self._put("\r" + words.ljust(self._width))
            self._width = len(words)
            StatusLine.on_screen = self

    def clear(self) -> None:
        """Leave nothing on the line."""
        if self._width:
            self._put("\r" + " " * self._width + "\r")
            self._width = 0
            StatusLine.on_screen = None

    def say(self, words: str) -> None:
        """Write a message that stays, terminal or not, on a line of its own."""
        self.clear()
        self._put(f"gpbench: {printable(words)}\n")

    def _put(self, text: str) -> None:
        with contextlib.suppress(OSError):  # as in `echo`
            _write(self._stream, text)


def _write(stream: TextIO, text: str) -> None:
    """Write at once; characters that the stream's encoding lacks become question marks."""
    try:
        stream.write(text)
    except UnicodeEncodeError as error:
        stream.write(text.encode(error.encoding, "replace").decode(error.encoding))
    stream.flush()


def width() -> int | None:
    """Columns of the terminal that standard output goes to, or of ``COLUMNS``; None where there are no bounds."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        import shutil  # noqa: PLC0415  # not needed for --help

        return shutil.get_terminal_size().columns
    return None


def duration(seconds: float) -> str:
    """Seconds for people: ``"45 s"``, ``"3:20"``, ``"2:05:00"``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Meter:
    """Progress of a download or a preparation: label, share done, megabytes and the time left, on a status line.

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
