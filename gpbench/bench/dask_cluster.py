"""Cells on the workers of an existing Dask cluster.

A task carries all that its cell depends on, so that results are those of a serial run in all that no clock decides. A
worker runs one cell at a time whatever its number of threads (clocks, and the pools of the numerical libraries, are a
process's), and as many cells are handed out as there are workers, each to one that has none: Dask by itself gives a
worker of several threads several. The workers need gpbench of the same version and the
data: the data folder, or the mirror, under the same path, as on a shared file system. Results come back to this
process, which alone writes the store.

Where a worker dies, Dask gives its cell to another one. A cell that ends several workers (by its memory, or by a crash
in a library) is given up by the scheduler, whose ``distributed.scheduler.allowed-failures`` says after how many, and
fails alone.
"""

from __future__ import annotations

import pickle
import threading
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpbench.bench.runner import Outcome, Task, lost, run_cell
from gpbench.bench.signals import Terminated
from gpbench.errors import UsageError

try:
    import distributed
except ImportError as missing:
    raise UsageError(
        f'a Dask cluster needs packages that are not installed ({missing}); pip install "gpbench[cluster]"'
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

__all__ = ["DaskCluster"]

#: Held while a cell runs in this process.
_ONE_AT_A_TIME = threading.Lock()


class DaskCluster:
    """Runs cells on a Dask cluster.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:8786``, or the path of a scheduler file (``.json``).
    timeout : str
        How long to wait for it.

    Raises
    ------
    UsageError
        It cannot be reached, or has no workers.
    """

    def __init__(self, address: str, *, timeout: str = "10s") -> None:
        place: dict[str, Any] = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
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
        """
        queue = iter(tasks)
        waiting: dict[Any, tuple[Task, str]] = {}
        try:
            for task in islice(queue, self.workers):
                self._submit(task, waiting)
            done = distributed.as_completed(list(waiting), loop=self._client.loop, raise_errors=False)
            for future in done:
                task, _ = waiting.pop(future)
                outcome = _outcome(task, future)
                future.release()
                for following in islice(queue, 1):
                    done.add(self._submit(following, waiting))
                yield outcome
        except (KeyboardInterrupt, Terminated) as halt:
            status = "timeout" if isinstance(halt, Terminated) else "interrupted"
            words = "ended from outside by SIGTERM" if status == "timeout" else "interrupted by the user"
            for task, _ in waiting.values():
                yield lost(task, status, kind=type(halt).__name__, message=words, halted=True)
        finally:
            if waiting:
                self._client.cancel(list(waiting), force=True)

    def close(self) -> None:
        """Leave the cluster, which goes on."""
        self._client.close()

    def _submit(self, task: Task, waiting: dict[Any, tuple[Task, str]]) -> Any:
        try:
            content = pickle.dumps(task)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UsageError(
                f"method {task.spec.method} cannot be sent to another process ({error}); use one job"
            ) from error
        busy = {place for _, place in waiting.values()}
        place = next((one for one in self._addresses() if one not in busy), "")
        # A wish and no more: should this worker die, any other may take the cell. Not pure, since with --force the same
        # cell must run again.
        where = {"workers": [place], "allow_other_workers": True} if place else {}
        future = self._client.submit(_serve, content, pure=False, **where)
        waiting[future] = task, place
        return future

    def _addresses(self) -> list[str]:
        return list(self._client.scheduler_info(n_workers=-1)["workers"])


def _serve(content: bytes) -> bytes:
    """Run a cell in a worker."""
    with _ONE_AT_A_TIME:
        return pickle.dumps(run_cell(pickle.loads(content)))  # noqa: S301  # the user's own process wrote it


def _outcome(task: Task, future: Any) -> Outcome:
    """The outcome of a cell, or what became of it instead."""
    if future.status == "finished":
        outcome: Outcome = pickle.loads(future.result())  # noqa: S301  # our own worker wrote it
        return Outcome(outcome.result, outcome.arrays)  # that a worker was asked to end does not end the sweep
    if future.status == "error":
        error = future.exception()
        if isinstance(error, distributed.KilledWorker):
            return lost(task, "failed", kind="WorkerDied", message=f"it ended the workers that ran it: {error}")
        return lost(task, "failed", kind=type(error).__name__, message=f"the worker cannot run the cell: {error}")
    return lost(task, "failed", kind="ClusterLost", message=f"the cluster gave the cell up ({future.status})")
