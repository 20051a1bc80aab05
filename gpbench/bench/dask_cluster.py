"""Cells on the workers of an existing Dask cluster.

A task carries all that its cell depends on, so that results are those of a serial run in all that no clock decides. A
cell runs in a process of its own, which its Dask worker starts by ``subprocess`` and keeps for the next (its workers
are daemons, which may not fork): a crash or a hang ends as it does on one machine. A
worker runs one cell at a time whatever its number of threads (they would disturb one another's clocks), and as many
cells are handed out as there are workers, each to one that has none: Dask by itself gives a
worker of several threads several. The workers need gpbench of the same version and the
data: the data folder, or the mirror, under the same path, as on a shared file system. Results come back to this
process, which alone writes the store.

Where a worker dies, Dask gives its cell to another one. A cell that ends several workers is given up by the scheduler,
whose ``distributed.scheduler.allowed-failures`` says after how many, and fails alone. Where the scheduler dies, or the
last worker and no other comes, the sweep ends and says so.
"""

from __future__ import annotations

import logging
import pickle
import queue
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Any

from gpbench.bench.provenance import now
from gpbench.bench.runner import Outcome, Task, lost
from gpbench.bench.signals import Terminated
from gpbench.bench.workers import Workers, pickled
from gpbench.errors import ClusterLost, UsageError

try:
    import distributed
except ImportError as missing:
    raise UsageError(
        f'a Dask cluster needs packages that are not installed ({missing}); pip install "gpbench[cluster]"'
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

__all__ = ["DaskCluster"]

TICK = 1.0
"""Seconds between two looks at the cluster."""
WITHOUT_WORKERS = 30.0
"""Seconds for which a cluster may have no worker: time for one that died to be started again."""

_ONE_AT_A_TIME = threading.Lock()
"""Held while a cell runs under this worker."""
_own: list[Workers] = []
"""This Dask worker's own process for cells, once there is one."""


class DaskCluster:
    """Runs cells on a Dask cluster.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:8786``, or the path of a scheduler file (``.json``).
    timeout : str
        How long to wait for it.
    patience : float
        Seconds for which the cluster may have no worker.

    Raises
    ------
    UsageError
        It cannot be reached, or has no workers.
    """

    def __init__(self, address: str, *, timeout: str = "10s", patience: float = WITHOUT_WORKERS) -> None:
        self._address, self._patience = address, patience
        place: dict[str, Any] = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
        # What its client logs when the connection breaks are tracebacks; what happened is said by the error below.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            if "address" in place:  # said at once: a client that has begun to connect takes long to give up
                distributed.comm.get_address_host_port(address)
            self._client = distributed.Client(**place, timeout=timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise UsageError(f"no Dask scheduler answers at {address}: {error}") from error
        self.workers = len(self._addresses())
        if not self.workers:
            self.close()
            raise UsageError(f"the Dask scheduler at {address} has no workers; `dask worker {address}` starts one")

    def run(self, tasks: Iterable[Task]) -> Generator[Outcome]:
        """Outcomes in the order in which cells end.

        Raises
        ------
        UsageError
            A method cannot be sent to another process.
        ClusterLost
            The scheduler is gone, or no worker is left; the cells that were running have an outcome.
        """
        tasks = iter(tasks)
        waiting: dict[Any, _Handed] = {}
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        since = monotonic()  # when a worker was last seen
        try:
            for task in islice(tasks, self.workers):
                self._submit(task, waiting, done)
            while waiting:
                try:
                    future = done.get(timeout=TICK)
                except queue.Empty:
                    if self._addresses():
                        since = monotonic()
                    elif monotonic() - since >= self._patience:
                        raise ClusterLost(
                            f"the Dask scheduler at {self._address} has had no worker for {self._patience:g} s"
                        ) from None
                    continue
                outcome = self._outcome(waiting[future], future)
                del waiting[future]
                since = monotonic()
                future.release()
                yield outcome
                for following in islice(tasks, 1):  # it may raise, and the outcome is to be stored before that
                    self._submit(following, waiting, done)
        except (KeyboardInterrupt, Terminated) as halt:
            if not waiting:  # between two cells: no outcome is left to say it
                raise
            words = "ended from outside by SIGTERM" if isinstance(halt, Terminated) else "interrupted by the user"
            for each in waiting.values():
                yield each.lost("interrupted", kind=type(halt).__name__, message=words, halted=True)
        except ClusterLost as error:
            for each in waiting.values():
                yield each.lost("interrupted", kind="ClusterLost", message=str(error))
            raise
        finally:
            if waiting and self._client.status == "running":
                self._client.cancel(list(waiting), force=True)

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        with suppress(OSError, TimeoutError, RuntimeError):  # it is gone
            self._client.close(timeout=2)

    def _submit(self, task: Task, waiting: dict[Any, _Handed], done: queue.SimpleQueue[Any]) -> None:
        content = pickled(task)
        busy = {each.place for each in waiting.values()}
        place = next((one for one in self._addresses() if one not in busy), "")
        # A wish and no more: should this worker die, any other may take the cell. Not pure, since with --force the same
        # cell must run again.
        where = {"workers": [place], "allow_other_workers": True} if place else {}
        future = self._client.submit(_serve, content, pure=False, **where)
        waiting[future] = _Handed(task, place)
        future.add_done_callback(done.put)

    def _addresses(self) -> list[str]:
        """The workers.

        Raises
        ------
        ClusterLost
            The scheduler is gone.
        """
        try:
            found = self._client.scheduler_info(n_workers=-1)
        except (OSError, TimeoutError, RuntimeError) as error:
            raise self._gone() from error
        if self._client.status != "running" or "workers" not in found:
            raise self._gone()
        return list(found["workers"])

    def _gone(self) -> ClusterLost:
        return ClusterLost(f"the Dask scheduler at {self._address} is gone")

    def _outcome(self, handed: _Handed, future: Any) -> Outcome:
        """The outcome of a cell, or what became of it instead."""
        if future.status == "finished":
            outcome: Outcome = pickle.loads(future.result())  # noqa: S301  # our own worker wrote it
            return Outcome(outcome.result, outcome.arrays)  # that a worker was asked to end does not end the sweep
        if future.status == "error":
            error = future.exception()
            if isinstance(error, distributed.KilledWorker):
                return handed.lost("failed", kind="WorkerDied", message=f"it ended the workers that ran it: {error}")
            words = f"the worker cannot run the cell: {error}"
            return handed.lost("failed", kind=type(error).__name__, message=words)
        self._addresses()
        return handed.lost("failed", kind="GivenUp", message=f"the cluster gave the cell up ({future.status})")


@dataclass(frozen=True)
class _Handed:
    """A cell that the cluster has: the worker that it was meant for, and since when."""

    task: Task
    place: str
    start: str = field(default_factory=now)

    def lost(self, status: str, **how: Any) -> Outcome:
        """Its outcome where no worker gave one; which machine it ran on is not known then."""
        return lost(self.task, status, start=self.start, here=False, **how)


def _serve(content: bytes) -> bytes:
    """Run a cell under a Dask worker."""
    worker = distributed.get_worker()
    key = worker.get_current_task()

    def wanted() -> bool:
        known = worker.state.tasks.get(key)
        return known is not None and known.state != "cancelled"

    with _ONE_AT_A_TIME:
        task: Task = pickle.loads(content)  # noqa: S301  # the user's own process wrote it
        if not _own:
            _own.append(Workers(1))
        for outcome in _own[0].run([task], wanted=wanted):
            return pickle.dumps(outcome)
        return pickle.dumps(lost(task, "interrupted", kind="Cancelled", message="nobody waits for it any more"))
