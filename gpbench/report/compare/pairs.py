"""Who met whom: methods on the same test rows, split by split.

Two results may be set against each other only where they were tested on the same rows after training on the same rows:
the same content of a data set, scaled alike, under one split protocol, index and seed, with one seed of the schemes and
the same limits of test and training rows. Such splits are the units of an arena; what is not there in both is passed
over and said.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from gpbench.data.catalogue import family_of
from gpbench.errors import UsageError
from gpbench.report.groups import group_cells, natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.result import Result
    from gpbench.report.groups import Group

__all__ = ["Arena", "Contender", "Unit", "arenas_of", "complete", "contenders_of", "one_per_family"]

#: Index, count and seed of the split, seed of the scheme, limits of test rows and of training rows (0 for none).
Unit: TypeAlias = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, order=True)
class Contender:
    """A method that is compared.

    Attributes
    ----------
    label : str
        The id, with settings where one method stands in an arena with several.
    method : str
        Its id.
    """

    label: str
    method: str


@dataclass(frozen=True, eq=False)
class Arena:
    """One data set under one split protocol.

    Attributes
    ----------
    dataset : str
        Id.
    label : str
        The id, with what tells several contents of it apart.
    split : str
        The protocol.
    finished : mapping of Contender to mapping of Unit to Result
        The cells that ended well.
    started : mapping of Contender to frozenset of Unit
        The units of all cells, those that failed too.
    """

    dataset: str
    label: str
    split: str
    finished: Mapping[Contender, Mapping[Unit, Result]]
    started: Mapping[Contender, frozenset[Unit]]

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.label}, {self.split}"

    def common(self, contenders: Iterable[Contender]) -> list[Unit]:
        """The units that all these contenders finished, in order; none where one of them is not here."""
        found = [set(self.finished.get(each, {})) for each in contenders]
        return sorted(set.intersection(*found)) if found else []

    def cells(self, contender: Contender, units: Iterable[Unit]) -> list[Result]:
        """The contender's cells of some units that it finished."""
        return [self.finished[contender][unit] for unit in units]


def arenas_of(cells: Iterable[Result]) -> tuple[list[Arena], list[str]]:
    """The arenas of some cells, in the order of data sets and protocols.

    A method that stands in no arena with more than one choice of settings is one contender under its id, though its
    settings may differ between data sets (a note says so); else each choice of settings is a contender of its own.

    Returns
    -------
    list of Arena
    list of str
        Notes, one sentence each.
    """
    groups = group_cells(cells)
    labels: dict[str, set[str]] = defaultdict(set)
    by_arena: dict[tuple[str, str], list[Group]] = defaultdict(list)
    several = set()
    for group in groups:
        labels[group.method].add(group.method_label)
        here = by_arena[group.dataset_label, group.split]
        if any(other.method == group.method for other in here):
            several.add(group.method)
        here.append(group)
    notes = [
        f"{method} ran with different settings on different data sets ({'; '.join(sorted(known, key=natural))}) "
        "and is compared as one method."
        for method, known in sorted(labels.items())
        if len(known) > 1 and method not in several
    ]
    notes += [
        f"{label} also has {', '.join(details)}."
        for label, details in {each.method_label: each.details for each in groups if each.method in several}.items()
        if details
    ]
    arenas = []
    for (label, split), members in by_arena.items():
        finished: dict[Contender, dict[Unit, Result]] = {}
        started: dict[Contender, frozenset[Unit]] = {}
        for group in members:
            contender = Contender(group.method_label if group.method in several else group.method, group.method)
            finished[contender] = {_unit(cell): cell for cell in group.finished}
            started[contender] = frozenset(map(_unit, group.cells))
        arenas.append(Arena(members[0].dataset, label, split, finished, started))
    return arenas, notes


def complete(arenas: Sequence[Arena], contenders: Sequence[Contender]) -> list[Arena]:
    """The arenas where all contenders finished at least one unit in common."""
    return [arena for arena in arenas if arena.common(contenders)]


def one_per_family(arenas: Sequence[Arena], contenders: Sequence[Contender]) -> tuple[list[Arena], list[str]]:
    """One arena for each family of data sets, since tests over data sets take these to be independent.

    Data sets of a family share rows (:func:`gpbench.data.catalogue.family_of`). Of several arenas the one with the most
    units in common counts; where they have as many, the first.

    Returns
    -------
    list of Arena
    list of str
        Notes on what was left out.
    """
    rivals: dict[str, list[Arena]] = defaultdict(list)
    for arena in complete(arenas, contenders):
        rivals[family_of(arena.dataset)].append(arena)
    chosen, notes = [], []
    for family, known in rivals.items():
        best = max(known, key=lambda arena: len(arena.common(contenders)))
        chosen.append(best)
        if len(known) > 1:
            others = "; ".join(arena.name for arena in known if arena is not best)
            what = "" if {arena.dataset for arena in known} == {family} else "the family of "
            notes.append(f"Over data sets {what}{family} counts once, as {best.name} (not {others}).")
    return chosen, notes


def contenders_of(arenas: Sequence[Arena], methods: Sequence[str] = ()) -> list[Contender]:
    """All contenders, in the order in which their methods are named, then in natural order.

    Raises
    ------
    UsageError
        There are fewer than two, or no two ever finished the same unit.
    """
    named = {name: order for order, name in reversed(list(enumerate(methods)))}
    found = sorted(
        {each for arena in arenas for each in arena.finished},
        key=lambda each: (named.get(each.method, len(methods)), natural(each.label)),
    )
    if len(found) < 2:
        only = f"only {found[0].label}" if found else "none"
        raise UsageError(f"a comparison needs results of two methods at the least; there are {only}")
    if any(arena.common((a, b)) for arena in arenas for i, a in enumerate(found) for b in found[i + 1 :]):
        return found
    stands = [
        f"{each.label} on {'; '.join(arena.name for arena in arenas if arena.finished.get(each)) or 'nothing finished'}"
        for each in found
    ]
    raise UsageError(
        "nothing pairs up: no two of these methods finished the same split of a data set. "
        f"There is: {', and '.join(stands)}"
    )


def _unit(cell: Result) -> Unit:
    limits = cell.limits.test_rows or 0, cell.limits.train_rows or 0
    return cell.split.index, cell.split.count, cell.split.seed, cell.seed, *limits
