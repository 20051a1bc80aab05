"""When a cell hangs: what a worker tells of itself without a word, and the rule by which it is killed.

A hung cell answers no question, so its worker keeps a :class:`Board`, some bytes of a file that both processes have
mapped: whether it trains, since when, and how far it is. Writing there takes a microsecond and wakes nobody, so that
the clocks are not disturbed. The :class:`Watchdog` is asked every second, and counts what is spent in ``fit`` alone.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import NamedTuple

__all__ = ["Board", "Patience", "State", "Usage", "Watchdog"]

_LAYOUT = struct.Struct("=qqqdd")


class State(NamedTuple):
    """What stands on a board.

    Attributes
    ----------
    trains : bool
        Whether the cell is inside ``fit``; else it loads, evaluates, or is done.
    changes : int
        How often that has changed since the cell began.
    iteration : int
    cpu_seconds : float
        Processor seconds of training up to the last change.
    process_seconds : float
        Processor seconds of the whole process at the last change.
    """

    trains: bool
    changes: int
    iteration: int
    cpu_seconds: float
    process_seconds: float


class Board:
    """Some bytes that a worker writes and its parent reads.

    Parameters
    ----------
    path : Path, optional
        Of the file that another process made; by default a new one is made.
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            number, name = tempfile.mkstemp(prefix="gpbench-")
            path = Path(name)
            os.write(number, bytes(_LAYOUT.size))
        else:
            number = os.open(path, os.O_RDWR)
        try:
            self._map = mmap.mmap(number, _LAYOUT.size)
        finally:
            os.close(number)
        self.path = path
        self._changes = 0

    def clear(self) -> None:
        """A cell begins."""
        self._changes = 0
        self._map[:] = bytes(_LAYOUT.size)

    def trains(self, *, iteration: int, cpu_seconds: float) -> None:
        """Training goes on from here."""
        self._write(1, iteration, cpu_seconds)

    def rests(self, *, iteration: int, cpu_seconds: float) -> None:
        """Training pauses."""
        self._write(0, iteration, cpu_seconds)

    def read(self) -> State:
        """What stands there."""
        trains, changes, *rest = _LAYOUT.unpack(self._map[:])
        return State(bool(trains), changes, *rest)

    def remove(self) -> None:
        """Take the file's name away; who has it open keeps it."""
        with suppress(OSError):  # gone already, or (on Windows) still open elsewhere
            self.path.unlink()

    def _write(self, trains: int, iteration: int, cpu_seconds: float) -> None:
        self._changes += 1
        self._map[:] = _LAYOUT.pack(trains, self._changes, iteration, cpu_seconds, process_time())


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a cell may go on that does not end.

    Attributes
    ----------
    factor, slack : float
        Of the limit on training seconds, and seconds beside it: a fit may use so much processor time.
    idle, share : float
        Wall seconds in which a fit must have used at least this share of a core.
    tick : float
        Seconds between two looks at a worker.
    """

    factor: float = 2.0
    slack: float = 60.0
    idle: float = 60.0
    share: float = 0.01
    tick: float = 1.0


class Usage:
    """Processor seconds of a process and of the processes that it has started.

    Parameters
    ----------
    pid : int
    """

    def __init__(self, pid: int) -> None:
        import psutil  # noqa: PLC0415  # not before it is needed: a command's start waits for it

        self._psutil = psutil
        self._known: dict[int, float] = {}
        self._seen: dict[int, psutil.Process] = {}  # imported late
        self._process: psutil.Process | None = None
        with suppress(psutil.Error):
            self._process = psutil.Process(pid)

    def begin(self) -> None:
        """Count the others' seconds from here."""
        self._known.clear()

    def own(self) -> float:
        """Of the process itself, since it started; 0 where it is gone."""
        return 0.0 if self._process is None else self._of(self._process)

    def others(self) -> float:
        """Of its descendants, each since it was first seen."""
        total = 0.0
        for each in self.descendants():
            seconds = self._of(each)
            total += seconds - self._known.setdefault(each.pid, seconds)
        return total

    def stands(self) -> bool:
        """Whether somebody has stopped the process (SIGSTOP, Ctrl-Z)."""
        with suppress(self._psutil.Error):
            return self._process is not None and self._process.status() == self._psutil.STATUS_STOPPED
        return False

    def descendants(self) -> list[psutil.Process]:  # type: ignore[name-defined]  # noqa: F821  # imported late
        """Processes that it has started, and theirs."""
        with suppress(self._psutil.Error):
            found = [] if self._process is None else list(self._process.children(recursive=True))
            self._seen |= {each.pid: each for each in found}
            return found
        return []

    def seen(self) -> list[psutil.Process]:  # type: ignore[name-defined]  # noqa: F821  # imported late
        """The descendants of which it was told so far; those that still run have lost their parent where it is gone."""
        return list(self._seen.values())

    def _of(self, process: psutil.Process) -> float:  # type: ignore[name-defined]  # noqa: F821
        with suppress(self._psutil.Error):
            times = process.cpu_times()
            return float(times.user + times.system)
        return 0.0


class Watchdog:
    """Says when a cell is to be killed, and why.

    Parameters
    ----------
    limit : float or None
        On the cell's training seconds. Without one, ``hard`` alone kills.
    threads : int
        Of the cell: so many times as much processor time is granted.
    hard : float or None
        Wall seconds of ``fit``; one loading or evaluation may take so much and the slack.
    patience : Patience
    """

    def __init__(self, *, limit: float | None, threads: int, hard: float | None, patience: Patience) -> None:
        self._limit, self._threads, self._hard, self._patience = limit, threads, hard, patience
        self._wall = 0.0  # of fit
        self._mark = (0.0, 0.0)  # wall and processor seconds of fit when it was last seen at work
        self._other = 0.0  # wall seconds of the loading or evaluation that it is in
        self._changes = 0

    def ask(self, state: State, *, elapsed: float, cpu: float) -> str | None:
        """Why the cell is to be killed; None where it may go on.

        Parameters
        ----------
        state : State
        elapsed : float
            Wall seconds since it was last asked, less those in which the process was stopped.
        cpu : float
            Processor seconds of the fit so far.
        """
        moved, self._changes = state.changes != self._changes, state.changes
        hard, patience = self._hard, self._patience
        if not state.trains:
            self._other = elapsed if moved else self._other + elapsed
            if hard is not None and self._other >= hard + patience.slack:
                return (
                    f"loading or evaluating alone took {self._other:.3g} wall seconds, "
                    f"more than the hard limit of {hard:g} s and {patience.slack:g} s"
                )
            return None
        self._other = 0.0
        self._wall += elapsed
        if hard is not None and self._wall >= hard:
            return f"its fit took {self._wall:.3g} wall seconds; the hard limit is {hard:g} s"
        if self._limit is None:
            return None
        most = (patience.factor * self._limit + patience.slack) * self._threads
        if cpu >= most:
            return (
                f"its fit used {cpu:.3g} processor seconds without heeding the limit of {self._limit:g} s; "
                f"{most:g} s are granted"
            )
        seen_wall, seen_cpu = self._mark
        if cpu - seen_cpu >= patience.share * patience.idle:
            self._mark = self._wall, cpu
        elif self._wall - seen_wall >= patience.idle:
            return (
                f"its fit used {cpu - seen_cpu:.2g} processor seconds in {self._wall - seen_wall:.3g} wall seconds, "
                f"less than {patience.share:.0%} of a core"
            )
        return None
