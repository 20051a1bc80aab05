"""A worker: a process that runs cells, one after another, for the process that started it.

It speaks in frames, a length and a pickle, over what were its standard input and output; whatever a scheme or a
library prints goes to standard error instead, from C as well. Ctrl-C is its parent's business. When its parent is gone
it ends at once: it would disturb the clocks of the sweep that takes over.
"""

from __future__ import annotations

import gc
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpbench.bench.watchdog import Board

__all__ = ["LOST", "main", "receive", "send"]

_HEAD = struct.Struct("<8sQ")
_MARK = b"gpbench\0"
LOST = 76
"""Exit code of a worker whose pipe to its parent a scheme has closed, or taken for a file of its own."""


def send(stream: IO[bytes], content: bytes) -> None:
    """Write a frame.

    Raises
    ------
    OSError
        The other process is gone.
    """
    stream.write(_HEAD.pack(_MARK, len(content)))
    stream.write(content)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read a frame; None where the other process is gone, or has said what is none."""
    try:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        mark, length = _HEAD.unpack(head)
        if mark != _MARK:  # words of somebody else's, after which nothing can be told apart
            return None
        content = stream.read(length)
    except (OSError, OverflowError, MemoryError, ValueError):
        return None
    return content if len(content) == length else None


def main(board: str) -> None:
    """Serve until the parent is gone.

    Parameters
    ----------
    board : str
        The file of its :class:`~gpbench.bench.watchdog.Board`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tasks, answers = _own_streams()
    inbox: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks, inbox), daemon=True).start()
    from gpbench.bench.watchdog import Board  # noqa: PLC0415  # after the streams are safe from what imports print

    own = Board(Path(board))
    own.remove()
    try:
        _serve(inbox, answers, own)
    finally:
        _flush()
        os._exit(0)  # whatever threads a scheme has left running


def _serve(inbox: queue.SimpleQueue[bytes], answers: IO[bytes], board: Board) -> None:
    import psutil  # noqa: PLC0415

    from gpbench.bench.calibration import GAUGE  # noqa: PLC0415
    from gpbench.bench.runner import Outcome, run_cell  # noqa: PLC0415
    from gpbench.terminal import warn_on_one_line  # noqa: PLC0415

    warn_on_one_line()
    GAUGE.take_if_due()
    send(answers, pickle.dumps(("ready", psutil.Process().memory_info().vms / 2**20)))
    number, pipe, untouched = os.getpid(), _file(answers), _state()
    while True:
        content = inbox.get()
        board.clear()
        answer: Any
        try:
            task = pickle.loads(content)  # noqa: S301  # the parent wrote it
        except BaseException as error:  # noqa: BLE001  # a plug-in may raise anything when it is imported
            answer = ("unloadable", type(error).__name__, str(error))
        else:
            answer = run_cell(task, board=board)
        if os.getpid() != number:  # a scheme has forked, and its child has come back from the cell as well
            os._exit(0)
        if isinstance(answer, Outcome) and _state() != untouched:  # the next cell is to find a process as it should be
            answer = replace(answer, halted=True)
        _flush()
        try:
            if _file(answers) != pipe:
                os._exit(LOST)
            send(answers, pickle.dumps(answer))
        except OSError:
            os._exit(LOST)
        if isinstance(answer, Outcome) and answer.halted:
            return


def _file(stream: IO[bytes]) -> tuple[int, int]:
    """Which file a stream writes to."""
    about = os.fstat(stream.fileno())
    return about.st_dev, about.st_ino


def _state() -> tuple[Any, ...]:
    """What a scheme may leave changed behind it, and what would disturb the cells after it: their clock or their ways.

    What it may add by importing a library is none of it: variables of the environment, filters of warnings.
    """
    import numpy as np  # noqa: PLC0415  # heavy: see main

    try:
        folder = str(Path.cwd())
    except OSError:  # removed
        folder = ""
    filters = [each for each in warnings.filters if each[0] == "error"]
    common = (
        folder, dict(np.geterr()), filters, list(sys.path), sys.getrecursionlimit(), sys.gettrace(), sys.getprofile(),
        gc.isenabled(), threading.active_count(), {name: os.environ.get(name) for name in _variables()},
    )  # fmt: skip
    if os.name != "posix":
        return common
    import resource  # noqa: PLC0415  # absent on Windows

    mask = os.umask(0o077)
    os.umask(mask)
    handlers = [signal.getsignal(number) for number in sorted(signal.valid_signals())]
    limits = [resource.getrlimit(getattr(resource, name)) for name in dir(resource) if name.startswith("RLIMIT_")]
    return (*common, mask, handlers, signal.getitimer(signal.ITIMER_REAL)[1:], limits, os.nice(0), _has_children())


@cache
def _variables() -> tuple[str, ...]:
    """The environment as it was at the first call."""
    return tuple(os.environ)


def _has_children() -> bool:
    """Whether processes that this one started are still there."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _own_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the parent, out of everybody's reach: nothing to read is left, and prints go to standard error."""
    try:
        os.fstat(2)
    except OSError:  # closed
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    tasks, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if sys.stderr is not None:
        sys.stdout = sys.stderr
    return tasks, answers


def _listen(tasks: IO[bytes], inbox: queue.SimpleQueue[bytes]) -> None:
    while (content := receive(tasks)) is not None:
        inbox.put(content)
    os._exit(0)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # closed, by a scheme or from the start
            continue
