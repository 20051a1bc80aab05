"""From a plan's blocks to cells that can be run. A data set that cannot be had is reported; the rest goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpbench.bench.choices import Choice
from gpbench.bench.expand import Request, expand
from gpbench.bench.sources import Source, opened, sources
from gpbench.data.splits import Protocol
from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.plan.blocks import Block
    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.runner import Task
    from gpbench.config import Config
    from gpbench.data.dataset import Dataset
    from gpbench.data.download import Progress

__all__ = ["PlannedTasks", "plan_tasks", "source_of"]


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
        place = source_of(plan, name, config)
        try:
            dataset = opened(place, progress)
        except DataError as error:
            missing[name] = str(error)
            continue
        for block in own:
            try:
                tasks = _tasks(plan, block, place, dataset, jobs=jobs, threads=threads)
            except UsageError as error:
                raise UsageError(f"{plan.path}: {block.label}: {error}") from None
            for task in tasks:
                keyed.setdefault(task.spec.key, ((row, task.spec.split.index, block.place[1]), task))
    return PlannedTasks([task for _, task in sorted(keyed.values(), key=lambda pair: pair[0])], missing)


def source_of(plan: Plan, name: str, config: Config) -> Source:
    """Where a plan's data set is: a file beside the plan goes before one in the current folder.

    Raises
    ------
    UsageError
        There is no such data set.
    """
    beside = plan.path.parent / name
    return sources([str(beside) if Path(name).suffix and beside.is_file() else name], config)[0]


def _tasks(plan: Plan, block: Block, place: Source, dataset: Dataset, *, jobs: int, threads: int) -> list[Task]:
    count = Protocol.parse(block.split).count(dataset)
    return expand(
        Request(
            choices=[Choice(block.table.method, block.settings, block.origin)],
            sources=[place],
            split=block.split,
            limits=block.limits,
            seed=plan.seed,
            scaling=plan.scaling,
            indices=range(min(count, block.splits or count)),
            threads=threads,
            jobs=jobs,
        )
    )
