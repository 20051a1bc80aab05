"""Run a plan, or look up what is stored of it: in both cases its cells come back as renderers want them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpbench.bench.plan.blocks import Block, runnable
from gpbench.bench.plan.stored import shown, stored_cells
from gpbench.bench.plan.tasks import plan_tasks, source_of
from gpbench.bench.plan.time import Estimate, estimate
from gpbench.bench.sources import FileSource
from gpbench.bench.sweep import sweep
from gpbench.data.load import is_here

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpbench.bench.execution import Executor
    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.store import Store
    from gpbench.bench.sweep import Event
    from gpbench.config import Config
    from gpbench.data.download import Progress

__all__ = ["Outlook", "PlanCells", "look_ahead", "look_up", "run_plan"]


@dataclass(frozen=True)
class PlanCells:
    """A plan and its cells.

    Attributes
    ----------
    plan : Plan
        With what could not be had.
    cells : list of dict
        Stored results with ``shown``, see :mod:`gpbench.report.plan.renderers`; in the plan's order.
    """

    plan: Plan
    cells: list[dict[str, Any]]

    @property
    def failed(self) -> int:
        """Cells that did not end well."""
        return sum(cell["status"] != "ok" for cell in self.cells)


@dataclass(frozen=True)
class Outlook:
    """What running a plan would mean.

    Attributes
    ----------
    estimates : list of Estimate
        One a block.
    absent : tuple of str
        Data sets that are neither here nor in a mirror that is a folder: they would be asked for at an http mirror and
        at their publishers.
    """

    estimates: list[Estimate]
    absent: tuple[str, ...]


def run_plan(
    plan: Plan,
    config: Config,
    store: Store,
    *,
    executor: Executor,
    jobs: int = 1,
    threads: int = 1,
    force: bool = False,
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
    force : bool
        Run finished cells again.
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
    planned = plan_tasks(plan, found, config, jobs=jobs, threads=threads, progress=progress)
    for name, why in planned.missing.items():
        say(f"{name}: {why}")
    results = sweep(planned.tasks, store, executor=executor, force=force, watch=watch) if planned.tasks else []
    # The whole message names folders of this machine, which have no place in a report.
    missing = {name: why.partition("\n")[0] for name, why in planned.missing.items()}
    return _together(replace(plan, missing=missing), found, [each.to_json() for each in results], store)


def look_up(plan: Plan, store: Store) -> PlanCells:
    """What is stored of a plan; nothing is run and no data set is opened.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    return _together(plan, runnable(plan), store.cells(), store)


def look_ahead(plan: Plan, config: Config, store: Store | None) -> Outlook:
    """What running a plan would mean; nothing is run, fetched or prepared.

    Parameters
    ----------
    plan : Plan
    config : Config
    store : Store or None
        None: as if nothing were stored.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    cells = [] if store is None else store.cells()
    found = estimate(stored_cells(plan, runnable(plan), cells), cells)
    needed = {each.block.dataset for each in found}
    return Outlook(found, tuple(name for name in plan.datasets if name in needed and not _is_here(plan, name, config)))


def _is_here(plan: Plan, name: str, config: Config) -> bool:
    return isinstance(source_of(plan, name, config), FileSource) or is_here(name, config.data, config.mirror)


def _together(plan: Plan, found: Sequence[Block], results: Sequence[dict[str, Any]], store: Store) -> PlanCells:
    own = stored_cells(plan, found, results)
    return PlanCells(plan, [shown(cell, block, plan, store.folder) for block, cells in own for cell in cells])
