"""A plan's cells, made of its blocks and run; and what running it would mean.

What is stored already is not run again (:mod:`gpbench.bench.plan.cells`); a data set that cannot be had is reported,
and the rest of the plan goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpbench.bench.derived.stored import step_of
from gpbench.bench.expand import Request, expand
from gpbench.bench.plan.blocks import Block, runnable
from gpbench.bench.plan.cells import (
    PlanCells,
    of_content,
    reference_of,
    source_of,
    stored_results,
    together,
)
from gpbench.bench.plan.estimate import Outlook, estimate
from gpbench.bench.reference import reference_file
from gpbench.bench.runner import Bounds
from gpbench.bench.sources import FileSource, Source, decisions, opened
from gpbench.bench.sweep import sweep
from gpbench.data.load import is_here
from gpbench.data.record import inputs_of
from gpbench.data.splits import Protocol
from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpbench.bench.execution import Executor
    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.result import Result
    from gpbench.bench.runner import Task
    from gpbench.bench.store import Store
    from gpbench.bench.sweep import Event
    from gpbench.config import Config
    from gpbench.data.dataset import Dataset
    from gpbench.data.download import Progress

__all__ = ["PlannedTasks", "look_ahead", "plan_tasks", "run_plan"]


def run_plan(
    plan: Plan,
    config: Config,
    store: Store,
    *,
    executor: Executor,
    jobs: int = 1,
    threads: int = 1,
    bounds: Bounds | None = None,
    force: bool = False,
    fresh: bool = False,
    progress: Progress | None = None,
    watch: Callable[[Event], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> PlanCells:
    """Run the cells of a plan that are not stored yet.

    Parameters
    ----------
    plan : Plan
    config : Config
    store : Store
    executor : Executor
    jobs, threads : int
        Cells at a time, and threads of a cell.
    bounds : Bounds
        What a cell may not exceed.
    force : bool
        Run finished cells again.
    fresh : bool
        Run those too that are among the reference results.
    progress : callable, optional
        Of downloads and preparation.
    watch : callable
        Told of each event of the sweep.
    say : callable
        Told why a data set cannot be had, and what to do.

    Raises
    ------
    UsageError
        The plan cannot be run as it is; nothing has been run then.
    StoreError
        The store cannot be read or written.
    KeyboardInterrupt
        Ctrl-C, or SIGTERM; all outcomes so far are stored.
    """
    found = runnable(plan)
    planned = plan_tasks(plan, found, config, jobs=jobs, threads=threads, bounds=bounds, progress=progress)
    for name, why in planned.missing.items():
        say(f"{name}: {why}")
    known = {} if force or fresh else _not_run(plan, planned.tasks, store)
    if known:
        say(f"{len(known)} cells are reference results and are not run; --fresh runs them")
    tasks = [task for task in planned.tasks if task.spec.key not in known]
    for words in decisions(list(dict.fromkeys(task.source for task in tasks))):
        say(words)
    results = sweep(tasks, store, executor=executor, force=force, watch=watch) if tasks else []
    # The whole message names folders of this machine, which have no place in a report.
    missing = {name: why.partition("\n")[0] for name, why in planned.missing.items()}
    whole = together(replace(plan, missing=missing), found, [*results, *known.values()], store)
    return replace(whole, reference=reference_file(plan.id) if known else None, fresh=fresh)


def _not_run(plan: Plan, tasks: Sequence[Task], store: Store) -> dict[str, Result]:
    """Reference results of a plan's cells that need not run since these ended well, by key.

    They have no posteriors. A picture that is made of these takes either all of its cells from here, or none.
    """
    keys = [task.spec.key for task in tasks]
    found = reference_of(plan, {key: own for key in keys if (own := store.get(key)) is not None})
    known = {key: found[key] for key in keys if key in found and found[key].finished}
    return known if step_of(plan) is None or len(known) == len(set(keys)) else {}


@dataclass(frozen=True)
class PlannedTasks:
    """Cells of a plan.

    Attributes
    ----------
    tasks : list of Task
        Each key once, data set by data set, split by split, so that methods are compared early.
    missing : dict
        Data set -> why it cannot be had.
    """

    tasks: list[Task]
    missing: dict[str, str]


def plan_tasks(
    plan: Plan,
    found: Sequence[Block],
    config: Config,
    *,
    jobs: int = 1,
    threads: int = 1,
    bounds: Bounds | None = None,
    progress: Progress | None = None,
) -> PlannedTasks:
    """The cells of a plan's blocks.

    Parameters
    ----------
    plan : Plan
    found : sequence of Block
        Of the plan.
    config : Config
    jobs, threads : int
        Cells at a time, and threads of a cell.
    bounds : Bounds
        What a cell may not exceed.
    progress : callable, optional
        Told how far the download and preparation of a data set has come.

    Raises
    ------
    UsageError
        A method cannot do the task of a data set, or a data set has no such split.
    """
    keyed: dict[str, tuple[tuple[int, int, int], Task]] = {}
    missing: dict[str, str] = {}
    for row, name in enumerate(plan.datasets):
        own = [block for block in found if block.dataset == name]
        if not own:
            continue
        source = source_of(plan, name, config)
        try:
            dataset = opened(source, progress)
        except DataError as error:
            missing[name] = str(error)
            continue
        for block in own:
            try:
                tasks = _tasks(block, source, dataset, jobs=jobs, threads=threads, bounds=bounds or Bounds())
            except UsageError as error:
                raise UsageError(f"{plan.path}: {block.label}: {error}") from None
            for task in tasks:
                keyed.setdefault(task.spec.key, ((row, task.spec.split.index, block.position[1]), task))
    return PlannedTasks([task for _, task in sorted(keyed.values(), key=lambda pair: pair[0])], missing)


def _tasks(block: Block, source: Source, dataset: Dataset, *, jobs: int, threads: int, bounds: Bounds) -> list[Task]:
    count = Protocol.parse(block.split).count(dataset)
    return expand(
        Request(
            choices=[block.choice],
            sources=[source],
            split=block.split,
            limits=block.limits,
            seed=block.seed,
            scaling=block.scaling,
            indices=range(min(count, block.splits or count)),
            threads=threads,
            jobs=jobs,
            bounds=bounds,
        )
    )


def look_ahead(
    plan: Plan,
    config: Config,
    store: Store | None,
    *,
    results: Sequence[Result] | None = None,
    fresh: bool = False,
) -> Outlook:
    """What running a plan would mean; nothing is run or fetched. The user's own files are read.

    Parameters
    ----------
    plan : Plan
    config : Config
    store : Store or None
        None: as if nothing were stored.
    results : sequence of Result, optional
        What it holds, where that has been read.
    fresh : bool
        As if there were no reference results.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    known: dict[str, Result] = {}
    if store is not None:
        stored = store.results() if results is None else results
        known = {cell.key: cell for cell in of_content(plan, stored, config)[0]}
    if not (store is None or fresh):
        known |= reference_of(plan, known)
    found = estimate(stored_results(runnable(plan), known.values()), known.values())
    needed = [name for name in plan.datasets if name in {each.block.dataset for each in found}]
    files, faults = _files_ahead(plan, [each.block for each in found], config)
    return Outlook(found, tuple(name for name in needed if not _is_here(plan, name, config)), files, tuple(faults))


def _files_ahead(plan: Plan, found: Sequence[Block], config: Config) -> tuple[dict[str, str], list[str]]:
    """What is in the user's own files, and which blocks would be refused on them."""
    files: dict[str, str] = {}
    faults: list[str] = []
    for name in plan.datasets:
        own = [block for block in found if block.dataset == name]
        source = source_of(plan, name, config)
        if not own or not isinstance(source, FileSource):
            continue
        try:
            dataset = opened(source, None)
            inputs = inputs_of(dataset)
        except (DataError, UsageError) as error:
            faults.append(f"{name}: {error}")
            continue
        classes = f", classes {', '.join(map(str, dataset.classes))}" if len(dataset.classes) else ""
        files[name] = f"{dataset.n:,} rows, {inputs:,} inputs, {dataset.task}{classes}"
        for block in own:
            try:
                _tasks(block, source, dataset, jobs=1, threads=1, bounds=Bounds())
            except UsageError as error:
                faults.append(f"{block.label}: {error}")
    return files, list(dict.fromkeys(faults))


def _is_here(plan: Plan, name: str, config: Config) -> bool:
    return isinstance(source_of(plan, name, config), FileSource) or is_here(name, config.data, config.mirror)
