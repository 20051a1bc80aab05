"""Run many cells: pass over what is stored, store each outcome at once, go on where an earlier sweep stopped."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpbench.bench.signals import Terminated, terminable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gpbench.bench.execution import Executor
    from gpbench.bench.runner import Task
    from gpbench.bench.store import Store

__all__ = ["Event", "sweep"]


@dataclass(frozen=True)
class Event:
    """What a sweep tells its watcher.

    Attributes
    ----------
    kind : str
        ``"begin"`` (what is to do is known), ``"start"`` (a cell starts), ``"end"`` (a cell has an outcome),
        ``"damaged"`` (stored files were set aside), or ``"otherwise"`` (stored cells ran with other threads or jobs).
    total, stored : int
        Cells of the sweep, and those among them that were stored already.
    label : str
        The cell's, or the message.
    result : dict or None
        The cell's outcome, with kind ``end``.
    task : Task or None
        With kinds ``start`` and ``end``.
    to_do : sequence of Task
        With kind ``begin``: the cells that will run.
    """

    kind: str
    total: int
    stored: int
    label: str = ""
    result: dict[str, Any] | None = None
    task: Task | None = None
    to_do: Sequence[Task] = ()


def sweep(
    tasks: Sequence[Task],
    store: Store,
    *,
    executor: Executor,
    force: bool = False,
    watch: Callable[[Event], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Run the cells that have no finished result yet.

    Parameters
    ----------
    tasks : sequence of Task
        Of distinct keys.
    store : Store
    executor : Executor
    force : bool
        Run finished cells again.
    watch : callable
        Told of each event; must not raise.

    Returns
    -------
    list of dict
        Results in the order of the tasks, the stored ones included.

    Raises
    ------
    StoreError
        The store cannot be read or written; the sweep ends, since its results would be lost.
    KeyboardInterrupt
        Ctrl-C, or SIGTERM; all outcomes so far are stored.
    """
    store.prepare()
    results: dict[str, dict[str, Any]] = {}
    if not force:
        for task in tasks:
            known = store.get(task.spec.key)
            if known is not None and known["status"] == "ok":
                results[task.spec.key] = known
    to_do = {task.spec.key: task for task in tasks if task.spec.key not in results}
    total, stored = len(tasks), len(results)
    for problem in store.problems:
        watch(Event("damaged", total, stored, problem))
    if differing := _ran_otherwise(tasks, results):
        watch(Event("otherwise", total, stored, differing))
    watch(Event("begin", total, stored, to_do=tuple(to_do.values())))

    def announced() -> Iterator[Task]:
        for task in to_do.values():
            watch(Event("start", total, stored, task.spec.label, task=task))
            yield task

    halted = False
    try:
        with terminable(), closing(executor.run(announced())) as outcomes:
            for outcome in outcomes:
                result = store.put(outcome.result, outcome.arrays)
                results[result["key"]] = result
                task = to_do[result["key"]]
                watch(Event("end", total, stored, task.spec.label, result, task))
                halted = halted or outcome.halted
    except Terminated:
        halted = True
    if halted:
        raise KeyboardInterrupt
    return [results[task.spec.key] for task in tasks]


def _ran_otherwise(tasks: Sequence[Task], stored: Mapping[str, dict[str, Any]]) -> str:
    """Which stored cells ran with other threads or jobs than these tasks ask for, in words; empty where none did.

    Neither is part of a cell's key, since its numbers do not depend on them. Its times do.
    """
    asked = {task.spec.key: f"threads {task.threads}, jobs {task.jobs}" for task in tasks}
    ran = {
        key: f"threads {result['provenance'].get('threads', 1)}, jobs {result['provenance'].get('jobs', 1)}"
        for key, result in stored.items()
    }
    others = [key for key in ran if ran[key] != asked[key]]
    if not others:
        return ""
    theirs, ours = (sorted({each[key] for key in others}) for each in (ran, asked))
    number = f"{len(others)} of {len(stored)} stored cells were timed with {'; '.join(theirs)}"
    return f"{number}, not with {'; '.join(ours)}; --force runs them again"
