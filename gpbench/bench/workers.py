"""Cells in processes of their own: one warm worker, or several, each handed a cell at a time.

A worker that dies (a crash of a library, an exit, a signal, out of memory) takes its cell alone with it, and one that
hangs is killed by the rule of :mod:`gpbench.bench.watchdog`; another takes its place. Started by ``subprocess`` rather
than by multiprocessing, whose daemons (the workers of Dask are some) may have no children.

This module imports nothing heavy, so that a command can start its worker first and load its own part meanwhile.
"""

from __future__ import annotations

import json
import pickle
import queue
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from gpbench.bench.signals import Terminated
from gpbench.bench.watchdog import Board, Patience, Usage, Watchdog
from gpbench.bench.worker import LOST, receive, send
from gpbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from gpbench.bench.runner import Outcome, Task

__all__ = ["Workers", "check_jobs", "pickled"]

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from gpbench.bench.worker import main; main(sys.argv.pop())"
)
_GRACE = 10.0
"""Seconds from the end of a worker's pipe to its own end at most."""
_HEADROOM = 64.0
"""MB that a worker needs beyond what it takes before its first cell."""

Inbox = queue.SimpleQueue[tuple["_Worker", bytes | None]]


def check_jobs(jobs: int) -> int:
    """See that a number of jobs is one.

    Raises
    ------
    UsageError
        Fewer than one job.
    """
    if jobs < 1:
        raise UsageError(f"the number of jobs must be at least 1; got {jobs}")
    return jobs


class Workers:
    """Runs cells in worker processes; the first is started at once, and all are kept until :meth:`close`.

    Parameters
    ----------
    jobs : int
        Cells at a time. More than one disturb one another's clocks.
    patience : Patience
        For cells that do not end.

    Raises
    ------
    UsageError
        Fewer than one job.
    """

    def __init__(self, jobs: int, *, patience: Patience | None = None) -> None:
        self.jobs = check_jobs(jobs)
        self._patience = patience or Patience()
        self._inbox: Inbox = queue.SimpleQueue()
        self._tick = 0.0  # when the workers are to be looked at again
        self._idle = [_Worker(self._inbox)]

    def run(self, tasks: Iterable[Task], *, wanted: Callable[[], bool] = lambda: True) -> Generator[Outcome]:
        """Outcomes in the order in which cells end.

        Parameters
        ----------
        tasks : iterable of Task
        wanted : callable
            Asked every tick; where it says no, the running cells are killed and have no outcome.

        Raises
        ------
        UsageError
            A method cannot be sent to another process, or the limit on memory is less than a worker takes itself.
        """
        from gpbench.bench.runner import Outcome, lost  # noqa: PLC0415  # heavy

        waiting = iter(tasks)
        busy: list[_Worker] = []
        try:
            self._fill(busy, waiting)
            while busy:
                worker, answer = self._next(busy)
                if worker is None:  # a tick
                    if not wanted():
                        return
                    continue
                assert worker.task is not None
                if answer is None or isinstance(answer, _Killed):
                    outcome = _death(worker, answer)
                elif answer[0] == "unloadable":
                    words = f"the worker cannot load the cell: {answer[2]}"
                    outcome = lost(worker.task, "failed", kind=answer[1], message=words, start=worker.start)
                else:
                    outcome = answer[1]
                busy.remove(worker)
                if answer is not None and not isinstance(answer, _Killed) and _reusable(outcome):
                    worker.task = None
                    self._idle.append(worker)
                else:
                    worker.end()
                yield Outcome(outcome.result, outcome.arrays)  # that a worker was asked to end does not end the sweep
                self._fill(busy, waiting)  # it may raise, and the outcome is to be stored before that
        except (KeyboardInterrupt, Terminated) as halt:
            if not busy:  # between two cells: no outcome is left to say it
                raise
            words = "ended from outside by SIGTERM" if isinstance(halt, Terminated) else "interrupted by the user"
            for worker in busy:
                assert worker.task is not None
                yield lost(
                    worker.task, "interrupted", kind=type(halt).__name__, message=words, start=worker.start,
                    iteration=worker.board.read().iteration, halted=True,
                )  # fmt: skip
        finally:
            for worker in busy:
                worker.end()

    def close(self) -> None:
        """End the workers."""
        while self._idle:
            self._idle.pop().end()

    def _fill(self, busy: list[_Worker], waiting: Iterator[Task]) -> None:
        """Hand out cells while there are any and fewer than so many run."""
        while len(busy) < self.jobs:
            task = next(waiting, None)
            if task is None:
                return
            content = pickled(task)
            while True:
                worker = self._idle.pop() if self._idle else _Worker(self._inbox)
                if worker.process.poll() is None:
                    break
                worker.end()  # it died between two cells, which is nobody's fault
            busy.append(worker)
            worker.give(task, content, patience=self._patience)

    def _next(self, busy: list[_Worker]) -> tuple[_Worker, Any] | tuple[None, None]:
        """The next word of a busy worker, the death of one, or None after a tick in which nothing happened."""
        now = monotonic()
        if now < self._tick:
            with suppress(queue.Empty):
                worker, content = self._inbox.get(timeout=self._tick - now)
                answer = None if content is None else _read(content)
                if answer is not None and answer[0] == "ready":
                    worker.is_ready(takes=answer[1])
                elif worker in busy:
                    return worker, answer
            return None, None
        self._tick = now + self._patience.tick
        for each in busy:
            if each.is_gone():
                return each, None
            why = each.hangs(tick=self._patience.tick)
            if why is not None:
                return each, _Killed(why)
        return None, None


class _Killed:
    """Why a worker is killed."""

    def __init__(self, why: str) -> None:
        self.why = why


class _Worker:
    """One worker process, seen from here."""

    def __init__(self, inbox: Inbox) -> None:
        self.task: Task | None = None
        self.start: str | None = None  # when it was given its task
        self.takes: float | None = None  # MB of address space, once it is ready
        self.board = Board()
        self._usage: Usage | None = None
        self._watchdog: Watchdog | None = None
        self._asked = 0.0
        self._changes = 0
        self._was_gone = False
        flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001  # as multiprocessing does
        command = [sys.executable, *flags, "-c", _PROGRAM, str(self.board.path), json.dumps(sys.path)]
        with _without_interrupts():
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603  # no shell; our own words
        threading.Thread(target=self._listen, args=(inbox,), daemon=True).start()

    def give(self, task: Task, content: bytes, *, patience: Patience) -> None:
        """Hand a cell over; that the process is dead is found out later."""
        from gpbench.bench.provenance import now  # noqa: PLC0415  # heavy

        self.task, self.start = task, now()
        self.board.clear()
        self._changes = 0
        self._watchdog = Watchdog(
            limit=task.spec.limits.seconds, threads=task.threads, hard=task.bounds.hard_seconds, patience=patience
        )
        self._asked = monotonic()
        if self.takes is not None:
            _check_memory(task, takes=self.takes)
        assert self.process.stdin is not None
        with suppress(OSError):
            send(self.process.stdin, content)

    def is_ready(self, *, takes: float) -> None:
        """It has imported what it needs, and takes so much address space."""
        self.takes = takes
        self._asked = monotonic()
        if self.task is not None:
            _check_memory(self.task, takes=takes)

    def is_gone(self) -> bool:
        """Whether the process has ended without its pipe's telling: a process that it has started may hold the pipe."""
        gone = self.process.poll() is not None
        found, self._was_gone = gone and self._was_gone, gone
        return found

    def hangs(self, *, tick: float) -> str | None:
        """Why the cell is to be killed, or None."""
        assert self._watchdog is not None
        if self.takes is None:  # it still imports, which is no part of the cell
            return None
        now = monotonic()
        # When this process was stopped too (Ctrl-Z, a laptop that slept), the time counts for nobody.
        elapsed = min(now - self._asked, 2.0 * tick)
        self._asked = now
        state = self.board.read()
        if self._usage is None:
            self._usage = Usage(self.process.pid)
        if self._usage.stands():
            return None
        if state.changes != self._changes:
            self._changes = state.changes
            self._usage.begin()
        cpu = state.cpu_seconds
        if state.trains:
            cpu += max(0.0, self._usage.own() - state.process_seconds) + self._usage.others()
        return self._watchdog.ask(state, elapsed=elapsed, cpu=cpu)

    def end(self) -> None:
        """Kill the process and what it has started."""
        others = [] if self._usage is None else self._usage.seen()
        if self.process.poll() is None:
            if self.task is not None:
                others = [*others, *Usage(self.process.pid).descendants()]
            self.process.kill()
        for each in others:
            with suppress(Exception):  # gone by itself
                each.kill()
        self.process.wait()
        assert self.process.stdin is not None
        with suppress(OSError):  # what was not sent has no reader
            self.process.stdin.close()
        self.board.remove()

    def _listen(self, inbox: Inbox) -> None:
        assert self.process.stdout is not None
        while True:
            content = receive(self.process.stdout)
            inbox.put((self, content))
            if content is None:
                # Closed here alone: a process that the worker has left behind may hold the pipe, and who closes a
                # stream waits for him who reads it.
                self.process.stdout.close()
                return


def pickled(task: Task) -> bytes:
    """A cell as bytes that another process can read.

    Raises
    ------
    UsageError
        Its method lives in this process alone.
    """
    try:
        return pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"method {task.spec.method} cannot be sent to another process ({error}); "
            "define its scheme in a module that can be imported"
        ) from error


def _read(content: bytes) -> Any:
    answer = pickle.loads(content)  # noqa: S301  # our own process wrote it, and marked it
    return answer if isinstance(answer, tuple) else ("outcome", answer)


def _reusable(outcome: Outcome) -> bool:
    """Whether a worker may go on: not after it was asked to end, nor with a memory that was used up."""
    problem = outcome.result.problem
    return not outcome.halted and (problem is None or "MemoryError" not in problem.type)


def _death(worker: _Worker, killed: _Killed | None) -> Outcome:
    """The outcome of a cell whose worker is dead or about to be."""
    from gpbench.bench.runner import lost  # noqa: PLC0415  # heavy

    task = worker.task
    assert task is not None
    ended = partial(lost, task, start=worker.start, iteration=worker.board.read().iteration)
    if killed is not None:
        return ended("timeout", kind="Hung", message=f"{killed.why}; it was killed")
    try:
        code = worker.process.wait(timeout=_GRACE)
    except subprocess.TimeoutExpired:  # it has closed its pipe and lives
        return ended("failed", kind="WorkerDied", message="its process fell silent")
    status, words = "failed", f"its process ended by itself with exit code {code}"
    if code == LOST:
        words = "its process lost its pipe to the sweep: the scheme has closed, or taken, a file that is not its own"
    if code < 0:
        status = "interrupted" if -code == signal.SIGTERM else "failed"
        words = f"its process was ended by {_signal(-code)}"
    if task.bounds.memory_mb is not None and status == "failed":
        words += f"; its address space was bounded to {task.bounds.memory_mb:g} MB"
    return ended(status, kind="WorkerDied", message=words)


def _signal(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
    if name == "SIGKILL":
        return f"{name}, as the system does where memory runs out"
    return f"{name} ({signal.strsignal(number)})"


def _check_memory(task: Task, *, takes: float) -> None:
    limit = task.bounds.memory_mb
    if limit is not None and limit < takes + _HEADROOM:
        raise UsageError(
            f"--memory-limit must leave room for a worker, which takes {takes:.0f} MB of address space before its "
            f"first cell; got {limit:g} MB"
        )


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back for the processes started within: it reaches the whole group, and the parent alone decides.

    They inherit the mask, so that it holds from their first line on, while they import too.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
