"""Executors: where cells run. In worker processes, one or several at a time; a cluster fits the same joint.

Results are the same wherever a cell runs, in all that no clock decides, since a task carries all that a cell depends
on. The store is written by the caller alone: a worker that dies leaves nothing half done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gpbench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from gpbench.bench.runner import Outcome, Task

__all__ = ["Executor", "executor", "executor_for"]


class Executor(Protocol):
    """Runs cells, in any order and anywhere.

    An outcome that is ``halted`` is the last word: the caller was asked to end, and every cell that was running has
    been given an outcome.
    """

    def run(self, tasks: Iterable[Task]) -> Generator[Outcome]:
        """Outcomes as they come, one for each task that was started."""

    def close(self) -> None:
        """Let go of what it holds."""


def executor(jobs: int) -> Executor:
    """Worker processes, so many at a time; the first starts at once.

    Raises
    ------
    UsageError
        Fewer than one.
    """
    from gpbench.bench.workers import Workers  # noqa: PLC0415

    return Workers(jobs)


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
