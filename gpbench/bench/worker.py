"""A worker: a process that runs cells, one after another, for the process that started it.

It speaks in frames, a length and a pickle, over what were its standard input and output; whatever a scheme or a
library prints goes to standard error instead, from C as well. Ctrl-C is its parent's business. When its parent is gone
it ends at once: it would disturb the clocks of the sweep that takes over.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import sys
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpbench.bench.watchdog import Board

__all__ = ["main", "receive", "send"]

_LENGTH = struct.Struct("<Q")


def send(stream: IO[bytes], content: bytes) -> None:
    """Write a frame.

    Raises
    ------
    OSError
        The other process is gone.
    """
    stream.write(_LENGTH.pack(len(content)))
    stream.write(content)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read a frame; None where the other process is gone, or has said what is none."""
    try:
        head = stream.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack(head)
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
        _flush()
        try:
            send(answers, pickle.dumps(answer))
        except OSError:  # the parent is gone, or a scheme has closed what it should not
            return
        if isinstance(answer, Outcome) and answer.halted:
            return


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
