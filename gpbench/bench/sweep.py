"""Run many cells: pass over what is stored, store each outcome at once, go on where an earlier sweep stopped.

Sweeps that share a store share the work. Each claims a cell before it runs it
(:meth:`gpbench.bench.store.Store.claim`), passes over those that others have claimed, and comes back to them at the
end, for their outcome or, where the other one ended without, to run them itself.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from gpbench.bench.choices import learned_in
from gpbench.bench.runner import Outcome, lost
from gpbench.bench.signals import Terminated, terminable
from gpbench.errors import ClusterLost, GpbenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gpbench.bench.execution import Executor
    from gpbench.bench.result import Result
    from gpbench.bench.runner import Task
    from gpbench.bench.store import Store
    from gpbench.leases import Lease

__all__ = ["Event", "sweep"]

#: Seconds between two looks at cells that other processes run.
_LOOK = 0.5


@dataclass(frozen=True)
class Event:
    """What a sweep tells its watcher.

    Attributes
    ----------
    kind : str
        ``"begin"`` (what is to do is known), ``"start"`` (a cell starts), ``"end"`` (a cell has an outcome),
        ``"elsewhere"`` (another process ran a cell meanwhile), ``"waiting"`` (all that is left runs in others),
        ``"damaged"`` (stored files were set aside), or ``"otherwise"`` (stored cells ran with other threads or jobs).
    total, stored : int
        Cells of the sweep, and those among them that were stored already.
    label : str
        The cell's, or the message.
    result : Result or None
        The cell's outcome, with kinds ``end`` and ``elsewhere``. One that left an earlier result in its place says so.
    task : Task or None
        With kinds ``start``, ``end`` and ``elsewhere``.
    to_do : sequence of Task
        With kind ``begin``: the cells that will run.
    """

    kind: str
    total: int
    stored: int
    label: str = ""
    result: Result | None = None
    task: Task | None = None
    to_do: Sequence[Task] = ()


def sweep(
    tasks: Sequence[Task],
    store: Store,
    *,
    executor: Executor,
    force: bool = False,
    watch: Callable[[Event], None] = lambda _: None,
) -> list[Result]:
    """Run the cells that have no finished result yet.

    Parameters
    ----------
    tasks : sequence of Task
        Of distinct keys. Origins of those that are not stored run first, unless they are; their results are not
        returned.
    store : Store
    executor : Executor
    force : bool
        Run finished cells again. The earlier result of one that is interrupted stays.
    watch : callable
        Told of each event; must not raise.

    Returns
    -------
    list of Result
        In the order of the tasks, the stored ones included: what the store holds.

    Raises
    ------
    StoreError
        The store cannot be read or written; the sweep ends, since its results would be lost.
    ClusterLost
        The cells ran on a Dask cluster that is gone; all outcomes so far are stored.
    KeyboardInterrupt
        Ctrl-C, or SIGTERM; all outcomes so far are stored.
    """
    store.prepare()
    running = _Sweep(tasks, store, executor=executor, force=force, watch=watch)
    running.begin()
    try:
        with terminable():
            halted = running.run()
    except Terminated:
        halted = True
    except ClusterLost as error:
        finished = sum(result.finished for result in running.results.values())
        raise ClusterLost(
            f"{error}; {finished} of {running.total} cells are stored in {store.folder}, and the same command goes on "
            "from there, with --scheduler naming a cluster that runs, or --jobs in its place"
        ) from error
    finally:
        running.release()
    if halted:
        raise KeyboardInterrupt
    return [running.results[task.spec.key] for task in tasks]


class _Sweep:
    """A sweep in progress; parameters as of :func:`sweep`.

    Attributes
    ----------
    results : dict
        Key -> result, of all cells that have one: stored before, run here, or run elsewhere meanwhile.
    total : int
        Cells of the sweep, origins included.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        store: Store,
        *,
        executor: Executor,
        force: bool,
        watch: Callable[[Event], None],
    ) -> None:
        self._tasks, self._store, self._executor, self._watch = tasks, store, executor, watch
        wanted = {task.spec.key: task for task in tasks}
        self._before = _stored(tasks, store)  # key -> what the store had when the sweep began
        self.results = {} if force else _finished(self._before)
        missing = [task for key, task in wanted.items() if key not in self.results]
        origins = {task.origin.spec.key: task.origin for task in missing if task.origin is not None}
        origins = {key: task for key, task in origins.items() if key not in wanted}
        self._before |= _stored(origins.values(), store)
        self.results |= _finished({key: self._before[key] for key in origins})
        self._to_do = {key: task for key, task in {**origins, **wanted}.items() if key not in self.results}
        self.total, self._already = len(origins) + len(wanted), len(self.results)
        self._claims: dict[str, Lease] = {}

    def begin(self) -> None:
        """Tell what is stored and what is to do."""
        for problem in self._store.problems:
            self._tell("damaged", problem)
        if differing := _ran_otherwise(self._tasks, self.results):
            self._tell("otherwise", differing)
        self._tell("begin", to_do=tuple(self._to_do.values()))

    def run(self) -> bool:
        """Run what is to do, the cells that have an origin last; whether the sweep was asked to end meanwhile."""
        first = [task for task in self._to_do.values() if task.origin is None]
        return self._run(first) or self._run(self._with_learned())

    def release(self) -> None:
        """Let go of the cells that are claimed still."""
        for lease in self._claims.values():
            lease.release()

    def _run(self, ready: Sequence[Task]) -> bool:
        """Run these here or wait until others have; whether the sweep was asked to end meanwhile."""
        waiting = list(ready)
        while waiting:
            others: list[Task] = []  # which other processes run now
            number = len(self.results)
            if self._run_here(self._announced(waiting, others)):
                return True
            waiting = others
            if waiting and len(self.results) == number:
                holder = self._store.claimed_by(waiting[0].spec.key)
                self._tell("waiting", f"{len(waiting)} cells run elsewhere, the first in {holder}")
                time.sleep(_LOOK)
        return False

    def _run_here(self, tasks: Iterator[Task]) -> bool:
        """Run these, if there are any; whether the sweep was asked to end meanwhile."""
        first = next(tasks, None)
        if first is None:
            return False
        halted = False
        with closing(self._executor.run(chain([first], tasks))) as outcomes:
            for outcome in outcomes:
                self._keep(outcome)
                halted = halted or outcome.halted
        return halted

    def _announced(self, ready: Iterable[Task], others: list[Task]) -> Iterator[Task]:
        """The tasks that no other process has run since the sweep began; ``others`` gets those that one runs now."""
        for task in ready:
            key = task.spec.key
            lease = self._store.claim(key)
            if lease is None:
                others.append(task)
                continue
            found = self._store.get(key)
            if found is not None and found != self._before[key] and found.status != "interrupted":
                lease.release()
                self.results[key] = found
                self._tell("elsewhere", task.spec.label, result=found, task=task)
                continue
            self._claims[key] = lease
            self._tell("start", task.spec.label, task=task)
            yield task

    def _with_learned(self) -> list[Task]:
        """The cells that have an origin, with what it learned; those whose origin left nothing have their outcome."""
        ready = []
        for task in self._to_do.values():
            if task.origin is None:
                continue
            prepared = _given(task, self.results, self._store)
            if isinstance(prepared, Outcome):
                self._keep(prepared)
            else:
                ready.append(prepared)
        return ready

    def _keep(self, outcome: Outcome) -> None:
        """Store an outcome, let go of its cell and tell it."""
        result = self.results[outcome.result.key] = self._store.put(outcome.result, outcome.arrays)
        if result.key in self._claims:
            self._claims.pop(result.key).release()
        task = self._to_do[result.key]
        told = result if result.status == outcome.result.status else _beside_earlier(outcome.result)
        self._tell("end", task.spec.label, result=told, task=task)

    def _tell(
        self,
        kind: str,
        label: str = "",
        *,
        result: Result | None = None,
        task: Task | None = None,
        to_do: Sequence[Task] = (),
    ) -> None:
        self._watch(Event(kind, self.total, self._already, label, result, task, to_do))


def _beside_earlier(result: Result) -> Result:
    """An interrupted result that says that the cell's earlier one stays."""
    problem = result.problem
    assert problem is not None
    return replace(result, problem=replace(problem, message=f"{problem.message}; its earlier result stays"))


def _given(task: Task, results: Mapping[str, Result], store: Store) -> Task | Outcome:
    """A cell with the hyper-parameters that its origin learned; where the origin left none, the outcome of the cell.

    Parameters
    ----------
    task : Task
        With an origin.
    results : mapping
        Key -> result; the origin's among them.
    store : Store
        Has the origin's posterior.
    """
    assert task.origin is not None
    origin = task.origin.spec
    result = results[origin.key]
    words = f"its hyper-parameters are those of {origin.label} (cell {origin.key}), which"
    if result.problem is not None:
        why = f"{words} ended as {result.status}: {result.problem}"
        return lost(task, "failed", kind="OriginFailed", message=why)
    try:
        learned = learned_in(store, origin.key)
    except GpbenchError as error:
        return lost(task, "failed", kind=type(error).__name__, message=f"{words} cannot be used: {error}")
    return replace(task, origin=None, learned=learned)


def _stored(tasks: Iterable[Task], store: Store) -> dict[str, Result | None]:
    return {task.spec.key: store.get(task.spec.key) for task in tasks}


def _finished(found: Mapping[str, Result | None]) -> dict[str, Result]:
    return {key: known for key, known in found.items() if known is not None and known.finished}


def _ran_otherwise(tasks: Sequence[Task], stored: Mapping[str, Result]) -> str:
    """Which stored cells ran with other threads or jobs than these tasks ask for, in words; empty where none did.

    Neither is part of a cell's key, since its numbers do not depend on them. Its times do.
    """
    asked = {task.spec.key: f"threads {task.threads}, jobs {task.jobs}" for task in tasks}
    ran = {key: f"threads {result.threads}, jobs {result.jobs}" for key, result in stored.items() if key in asked}
    others = [key for key in ran if ran[key] != asked[key]]
    if not others:
        return ""
    theirs, ours = (sorted({each[key] for key in others}) for each in (ran, asked))
    number = f"{len(others)} of {len(ran)} stored cells were timed with {'; '.join(theirs)}"
    return f"{number}, not with {'; '.join(ours)}; --force runs them again"
