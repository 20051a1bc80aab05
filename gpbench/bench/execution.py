"""Executors: where cells run. One after another in this process, or in worker processes; a cluster fits the same joint.

Results are the same wherever a cell runs, in all that no clock decides, since a task carries all that a cell depends
on. The store is written by the caller alone: a worker that dies leaves nothing half done.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Protocol

from gpbench.bench.runner import Outcome, Task, lost, run_cell
from gpbench.bench.signals import Terminated
from gpbench.errors import UsageError
from gpbench.terminal import warn_on_one_line

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from multiprocessing.process import BaseProcess

__all__ = ["Executor", "Processes", "Serial", "executor", "executor_for"]


class Executor(Protocol):
    """Runs cells, in any order and anywhere.

    An outcome that is ``halted`` is the last word: the caller was asked to end, and every cell that was running has
    been given an outcome.
    """

    def run(self, tasks: Iterable[Task]) -> Generator[Outcome]:
        """Outcomes as they come, one for each task that was started."""

    def close(self) -> None:
        """Let go of what it holds."""


class Serial:
    """One cell after another, in this process: the right choice for timings."""

    def run(self, tasks: Iterable[Task]) -> Generator[Outcome]:
        """Outcomes in the order of the tasks."""
        for task in tasks:
            outcome = run_cell(task)
            yield outcome
            if outcome.halted:
                return

    def close(self) -> None:
        """Nothing is held."""


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    task: Task

    def take(self) -> Outcome:
        """The outcome of the worker's cell, or what became of the process instead."""
        try:
            answer = pickle.loads(self.connection.recv_bytes())  # noqa: S301  # our own process wrote it
        except (EOFError, OSError):
            self.process.join()
            return _death(self.task, self.process.exitcode)
        if isinstance(answer, Outcome):
            return answer
        return lost(self.task, "failed", kind=answer[0], message=answer[1])

    def give(self, task: Task) -> bool:
        """Hand the next cell over; False where the process is gone."""
        content = _pickled(task)
        if not self.process.is_alive():
            return False
        try:
            self.connection.send_bytes(content)
        except OSError:
            return False
        self.task = task
        return True

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


class Processes:
    """Several cells at a time, each worker a fresh process that serves one cell after another.

    A worker that dies (out of memory, a crash of a library, a signal) takes its cell alone with it and is replaced.
    concurrent.futures gives up the whole pool in that case and does not say which cell was lost.

    Parameters
    ----------
    jobs : int
        Cells at a time. They disturb one another's clocks.
    """

    def __init__(self, jobs: int) -> None:
        if jobs < 1:
            raise UsageError(f"the number of jobs must be at least 1; got {jobs}")
        self.jobs = jobs
        # Not fork: BLAS threads and their locks do not survive it.
        self._context = multiprocessing.get_context("spawn")

    def run(self, tasks: Iterable[Task]) -> Generator[Outcome]:
        """Outcomes in the order in which cells end.

        Raises
        ------
        UsageError
            A method cannot be sent to another process.
        """
        queue = iter(tasks)
        workers: list[_Worker] = []
        try:
            workers.extend(self._start(task) for task in islice(queue, self.jobs))
            while workers:
                for worker in _ready(workers):
                    outcome = worker.take()
                    workers.remove(worker)
                    following = next(queue, None)
                    if following is None:
                        worker.end()
                    elif not outcome.halted and worker.give(following):
                        workers.append(worker)
                    else:
                        worker.end()
                        workers.append(self._start(following))
                    # That a worker was asked to end does not end the sweep.
                    yield Outcome(outcome.result, outcome.arrays)
        except (KeyboardInterrupt, Terminated) as halt:
            status = "timeout" if isinstance(halt, Terminated) else "interrupted"
            words = "ended from outside by SIGTERM" if status == "timeout" else "interrupted by the user"
            for worker in workers:
                yield lost(worker.task, status, kind=type(halt).__name__, message=words, halted=True)
        finally:
            for worker in workers:
                worker.end()

    def close(self) -> None:
        """Nothing is held between runs."""

    def _start(self, task: Task) -> _Worker:
        content = _pickled(task)
        here, there = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(there,), daemon=True)
        with _without_interrupts():
            process.start()
        there.close()  # so that the worker's death ends the pipe
        with suppress(OSError):  # dead already: `take` finds that out
            here.send_bytes(content)
        return _Worker(process, here, task)


def executor(jobs: int) -> Executor:
    """Serial for one job, else processes.

    Raises
    ------
    UsageError
        Fewer than one.
    """
    return Serial() if jobs == 1 else Processes(jobs)


def executor_for(*, jobs: int | None, scheduler: str | None) -> tuple[Executor, int]:
    """The executor that the options of a command ask for, and how many cells it runs at a time.

    Raises
    ------
    UsageError
        Both are given, or the cluster cannot be reached.
    """
    if scheduler is None:
        return executor(1 if jobs is None else jobs), 1 if jobs is None else jobs
    if jobs is not None:
        raise UsageError(
            f"--scheduler {scheduler} and --jobs {jobs} exclude one another: a cluster has its own workers"
        )
    from gpbench.bench.dask_cluster import DaskCluster  # noqa: PLC0415  # an optional dependency

    cluster = DaskCluster(scheduler)
    return cluster, cluster.workers


def _ready(workers: list[_Worker]) -> list[_Worker]:
    """Workers that have an outcome or are dead, waiting for the first."""
    found = wait([worker.connection for worker in workers] + [worker.process.sentinel for worker in workers])
    return [worker for worker in workers if worker.connection in found or worker.process.sentinel in found]


def _death(task: Task, code: int | None) -> Outcome:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        status = "timeout" if name == "SIGTERM" else "failed"
        return lost(task, status, kind="WorkerDied", message=f"its process was ended by {name}")
    return lost(task, "failed", kind="WorkerDied", message=f"its process ended by itself with exit code {code}")


def _pickled(task: Task) -> bytes:
    try:
        return pickle.dumps(task)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"method {task.spec.method} cannot be sent to another process ({error}); use one job"
        ) from error


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold Ctrl-C back for the processes started within: it reaches the whole group, and the parent alone decides.

    They inherit the mask, so that it holds from their first line on, while they import too.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # Else the first worker's start would start it, which lets Ctrl-C through again for that worker.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection) -> None:
    """What a worker does until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warn_on_one_line()
    threading.Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            content = connection.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            answer: object = run_cell(pickle.loads(content))  # noqa: S301  # the parent wrote it
        except Exception as error:  # noqa: BLE001  # a task that cannot be unpickled here fails its cell alone
            answer = (type(error).__name__, f"the worker cannot load the cell: {error}")
        try:
            connection.send_bytes(pickle.dumps(answer))
        except OSError:  # the parent is gone
            return
        if isinstance(answer, Outcome) and answer.halted:
            return


def _die_with_parent() -> None:
    """A worker whose parent was killed would go on and disturb the clocks of the sweep that takes over."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])  # asleep in the kernel: costs the cell's clock nothing
        os._exit(1)
