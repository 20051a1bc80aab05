"""A plan's cells: made of its blocks and run, or found in the store without a look at the data.

In all cases they come back as :class:`PlanResult`, a stored result with how the plan shows it. What is in the store can
be rendered anywhere; a data set that cannot be had is reported, and the rest of the plan goes on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import CONTENT, SPLIT
from gpbench.bench.code import changes
from gpbench.bench.derived.stored import step_of
from gpbench.bench.expand import Request, expand
from gpbench.bench.methods import outdated
from gpbench.bench.plan.blocks import Block, runnable
from gpbench.bench.plan.estimate import Estimate, estimate
from gpbench.bench.reference import read_reference, reference_file, stands_in
from gpbench.bench.result import Result
from gpbench.bench.runner import Bounds
from gpbench.bench.sources import FileSource, Source, dataset_id, decisions, opened, sources
from gpbench.bench.sweep import sweep
from gpbench.data.load import is_here
from gpbench.data.record import inputs_of
from gpbench.data.splits import Protocol
from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gpbench.bench.execution import Executor
    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.runner import Task
    from gpbench.bench.store import Store
    from gpbench.bench.sweep import Event
    from gpbench.config import Config
    from gpbench.data.dataset import Dataset
    from gpbench.data.download import Progress

__all__ = [
    "Outlook",
    "PlanCells",
    "PlanResult",
    "PlannedTasks",
    "Shown",
    "described",
    "look_ahead",
    "look_up",
    "plan_tasks",
    "run_plan",
    "source_of",
    "stored_results",
]


#: Parts of a description that say which code made a cell.
_CODE = ("version", "source", "changes", "origin.version", "origin.source")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How a plan shows a cell.

    Attributes
    ----------
    dataset : str
        The plan's label.
    method, variant, printed : str
        The block's label, the same without swept values, and the name in the published file.
    name : str
        The table of [methods].
    position : (int, int)
        Of the data set and of the variant in the plan, for sorting.
    sweep : mapping
        Swept name -> value.
    arrays : Path
        Where the cell's arrays are.
    """

    dataset: str
    method: str
    variant: str
    printed: str
    name: str
    position: tuple[int, int]
    sweep: Mapping[str, Any] = field(hash=False)
    arrays: Path

    @classmethod
    def of(cls, key: str, block: Block, plan: Plan, *, folder: Path) -> Shown:
        """How a plan shows a cell of one of its blocks.

        Parameters
        ----------
        key : str
            The cell's.
        block, plan
            Which of what.
        folder : Path
            The store's.
        """
        return cls(
            dataset=plan.dataset_label(block.dataset),
            method=block.label,
            variant=block.variant,
            printed=block.printed,
            name=block.table.name,
            position=block.position,
            sweep=block.sweep,
            arrays=folder / f"{key}.npz",
        )


@dataclass(frozen=True, kw_only=True)
class PlanResult(Result):
    """A stored result with how a plan shows it."""

    shown: Shown


@dataclass(frozen=True)
class PlanCells:
    """A plan and its cells.

    Attributes
    ----------
    plan : Plan
        With what could not be had.
    results : list of PlanResult
        In the plan's order.
    store : Store
        Where they are.
    reference : Path or None
        The file of reference results in which those are that the store lacks.
    borrowed : frozenset of str
        Keys of the cells that are from there.
    remarks : tuple of str
        What is to be said of them.
    pictures : tuple of str
        Endings that a picture of it is written with.
    fresh : bool
        Reference results play no part.
    """

    plan: Plan
    results: list[PlanResult]
    store: Store
    reference: Path | None = None
    borrowed: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()
    pictures: tuple[str, ...] = (".png",)
    fresh: bool = False

    @property
    def failed(self) -> int:
        """Cells that did not end well."""
        return sum(not result.finished for result in self.results)


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
    files : mapping
        The user's own files that could be read -> what is in them, in words.
    faults : tuple of str
        What will fail, and why; so far as the user's own files tell.
    """

    estimates: list[Estimate]
    absent: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


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
    whole = _together(replace(plan, missing=missing), found, [*results, *known.values()], store)
    return replace(whole, reference=reference_file(plan.id) if known else None, fresh=fresh)


def _not_run(plan: Plan, tasks: Sequence[Task], store: Store) -> dict[str, Result]:
    """Reference results of a plan's cells that need not run since these ended well, by key.

    They have no posteriors. A picture that is made of these takes either all of its cells from here, or none.
    """
    keys = [task.spec.key for task in tasks]
    found = _reference(plan, {key: own for key in keys if (own := store.get(key)) is not None})
    known = {key: found[key] for key in keys if key in found and found[key].finished}
    return known if step_of(plan) is None or len(known) == len(set(keys)) else {}


def _reference(plan: Plan, own: Mapping[str, Result]) -> dict[str, Result]:
    """Reference results of a plan that stand in for what the store has, by key.

    Parameters
    ----------
    plan : Plan
    own : mapping
        Key -> what the store has.
    """
    return {cell.key: cell for cell in read_reference(reference_file(plan.id)) if stands_in(cell, own)}


def look_up(
    plan: Plan,
    store: Store,
    *,
    results: Sequence[Result] | None = None,
    config: Config | None = None,
    fresh: bool = False,
) -> PlanCells:
    """What is stored of a plan, and what is among the reference results; nothing is run.

    No data set of the catalogue is opened. The user's own files are: a file may have changed, or be read otherwise, and
    cells of other content are another experiment's.

    A cell of another version of its method, or made by a checkout with other changes, is taken where there is none of
    the present one's, and the remarks say so.

    Parameters
    ----------
    plan : Plan
    store : Store
    results : sequence of Result, optional
        What it holds, where that has been read.
    config : Config, optional
        Where the plan's files are cached; by default they are not looked at.
    fresh : bool
        Without reference results.

    Raises
    ------
    StoreError
        The store, or the reference results, cannot be read.
    """
    stored = store.results() if results is None else list(results)
    faults: list[str] = []
    if config is not None:
        stored, faults = _of_content(plan, stored, config)
    own = {cell.key: cell for cell in stored}
    reference = {} if fresh else _reference(plan, own)
    found = _together(plan, runnable(plan), [*(own | reference).values()], store, apart=_CODE)
    used = {cell.key for cell in found.results}
    borrowed = used & reference.keys()
    remarks = [*faults]
    if borrowed:
        remarks.append(f"{len(borrowed)} of {len(used)} cells are reference results, which come with gpbench")
    old = {f"{name} of version {one}" for name, versions in outdated(found.results).items() for one in versions}
    if old:
        remarks.append(f"cells of versions that are no longer current: {', '.join(sorted(old))}")
    if any(cell.changes != changes() for cell in found.results):
        remarks.append("some cells were made by other code than this checkout's, whose files are changed")
    place = reference_file(plan.id) if reference else None
    return replace(found, reference=place, borrowed=frozenset(borrowed), remarks=tuple(remarks), fresh=fresh)


def described(plan: Plan, cells: Iterable[Result]) -> list[Result]:
    """The cells that a plan still describes, whatever their versions: none of settings that have since changed."""
    parts = (*CONTENT, *SPLIT, *_CODE)
    kinds = {block.identity().but_for(*parts) for block in runnable(plan)}
    return [cell for cell in cells if cell.identity().but_for(*parts) in kinds]


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
        known = {cell.key: cell for cell in _of_content(plan, stored, config)[0]}
    if not (store is None or fresh):
        known |= _reference(plan, known)
    found = estimate(stored_results(runnable(plan), known.values()), known.values())
    needed = [name for name in plan.datasets if name in {each.block.dataset for each in found}]
    files, faults = _files_ahead(plan, [each.block for each in found], config)
    return Outlook(found, tuple(name for name in needed if not _is_here(plan, name, config)), files, tuple(faults))


def _of_content(plan: Plan, results: Iterable[Result], config: Config) -> tuple[list[Result], list[str]]:
    """Results without those on other content of the plan's own files, and why files have none.

    A file that cannot be read as the plan says has no results.
    """
    faults: list[str] = []
    wanted: dict[str, str | None] = {}
    for name in plan.datasets:
        source = source_of(plan, name, config)
        if not isinstance(source, FileSource):
            continue
        try:
            wanted[dataset_id(name)] = opened(source, None).checksum
        except (DataError, UsageError) as error:
            wanted[dataset_id(name)] = None
            faults.append(f"{name}: {str(error).partition(chr(10))[0]}")
    return [each for each in results if wanted.get(each.dataset, each.checksum) == each.checksum], faults


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


def source_of(plan: Plan, name: str, config: Config) -> Source:
    """Where a plan's data set is: a file beside the plan goes before one in the current folder.

    Raises
    ------
    UsageError
        There is no such data set.
    """
    file = name.partition("::")[0]  # without a member of an archive
    beside = Path(file).suffix and (plan.path.parent / file).is_file()
    return sources([str(plan.path.parent / name) if beside else name], config, options=plan.files.get(name))[0]


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


def stored_results(
    found: Sequence[Block], results: Iterable[Result], *, apart: tuple[str, ...] = ()
) -> list[tuple[Block, list[Result]]]:
    """Stored results of each block, in the order of their splits.

    All that describes a cell must agree, but for the content of the data, which is not opened: where the store holds
    results on several versions of a data set, those of the latest are taken.

    Parameters
    ----------
    found : sequence of Block
        Of a plan.
    results : iterable of Result
        All of the store.
    apart : tuple of str
        More parts of their descriptions that need not agree; where some results agree, these are taken.
    """
    parts = (*CONTENT, *SPLIT, *apart)
    known: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        known[result.identity().but_for(*parts)].append(result)
    return [(block, _latest(known[block.identity().but_for(*parts)], block)) for block in found]


def _latest(results: Sequence[Result], block: Block) -> list[Result]:
    wanted = block.identity().but_for(*CONTENT, *SPLIT)
    by_content: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        if block.splits is None or result.split.index < block.splits:
            by_content[result.checksum, result.likelihood, result.identity().but_for(*CONTENT, *SPLIT)].append(result)
    if not by_content:
        return []
    agreeing = {content: same for content, same in by_content.items() if content[-1] == wanted}
    chosen = max((agreeing or by_content).values(), key=lambda same: max(result.ended for result in same))
    return sorted(chosen, key=lambda result: result.split.index)


def _is_here(plan: Plan, name: str, config: Config) -> bool:
    return isinstance(source_of(plan, name, config), FileSource) or is_here(name, config.data, config.mirror)


def _together(
    plan: Plan, found: Sequence[Block], results: Sequence[Result], store: Store, *, apart: tuple[str, ...] = ()
) -> PlanCells:
    """The blocks' results among these, with how the plan shows them."""
    names = [each.name for each in fields(Result)]
    return PlanCells(
        plan,
        [
            PlanResult(
                **{name: getattr(result, name) for name in names},
                shown=Shown.of(result.key, block, plan, folder=store.folder),
            )
            for block, own in stored_results(found, results, apart=apart)
            for result in own
        ],
        store,
    )
