"""A plan's cells in the store and among the reference results, found without a look at the data.

They come back as :class:`PlanResult`, a stored result with how the plan shows it, so that what is stored can be
rendered anywhere. What runs them is :mod:`gpbench.bench.plan.run`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpbench.bench.cell import CONTENT, SPLIT
from gpbench.bench.code import changes
from gpbench.bench.methods import outdated
from gpbench.bench.plan.blocks import Block, runnable
from gpbench.bench.reference import read_reference, reference_file, stands_in
from gpbench.bench.result import Result
from gpbench.bench.sources import FileSource, Source, dataset_id, opened, sources
from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.store import Store
    from gpbench.config import Config

__all__ = [
    "PlanCells", "PlanResult", "Shown", "described", "look_up", "of_content", "reference_of", "source_of",
    "stored_results", "together",
]  # fmt: skip


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
        stored, faults = of_content(plan, stored, config)
    own = {cell.key: cell for cell in stored}
    reference = {} if fresh else reference_of(plan, own)
    found = together(plan, runnable(plan), [*(own | reference).values()], store, apart=_CODE)
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


def reference_of(plan: Plan, own: Mapping[str, Result]) -> dict[str, Result]:
    """Reference results of a plan that stand in for what the store has, by key.

    Parameters
    ----------
    plan : Plan
    own : mapping
        Key -> what the store has.
    """
    return {cell.key: cell for cell in read_reference(reference_file(plan.id)) if stands_in(cell, own)}


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


def together(
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


def of_content(plan: Plan, results: Iterable[Result], config: Config) -> tuple[list[Result], list[str]]:
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
