"""Which cells may be averaged: those of one data set and one split protocol that differ in split and seed alone.

What is not the same is never averaged together. Where one method stands in the store with several settings, each gets
a row of its own whose label names the fewest settings that tell the rows apart, such as ``x-gpc (inducing=200)``; what
else differs is the group's ``details``, to be said beneath. The same goes for a data set whose content or scaling
changed. Labels are settled over all cells given, so that a label means the same in every row and every picture of one
report. Cells of a plan bear its labels and stand in its order instead
(:class:`gpbench.bench.plan.cells.Shown`).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, fields
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from gpbench.bench.cell import Limits, OriginSpec
    from gpbench.bench.plan.cells import Shown
    from gpbench.bench.result import Result

__all__ = [
    "Group",
    "distinct",
    "disturbance_words",
    "disturbed_words",
    "facts_of",
    "group_cells",
    "is_cut_short",
    "is_quick",
    "natural",
    "processors_of",
]

#: Stands for a setting that a cell does not have.
_UNSET = "unset"
#: Settings that say most to a reader; of two that tell cells apart as well, the first here is named.
_TELLING = ("inducing", "kernel", "likelihood", "link", "hyperparameters", "max_iterations")
#: So many facts are searched for all ways to tell cells apart by fewer; 30 that differ make 4,525.
_SEARCHED = 3


@dataclass(frozen=True)
class Group:
    """Cells that are one method with one choice of settings on one data set under one split protocol.

    Attributes
    ----------
    dataset, method : str
        Ids.
    dataset_label, method_label : str
        The ids, with what tells this group apart from others of the same id.
    split : str
        The protocol: ``"folds:10"``.
    cells : tuple of Result
        In the order of seed and split; failed ones too.
    details : tuple of str
        ``name=value`` of what differs between the rows of the method and is not in its label.
    """

    dataset: str
    dataset_label: str
    method: str
    method_label: str
    split: str
    cells: tuple[Result, ...]
    details: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, str]:
        """The settings that have a value, as the command line takes them."""
        return {name: _words(value) for name, value in sorted(self.cells[0].settings.items()) if value is not None}

    @property
    def finished(self) -> tuple[Result, ...]:
        """The cells that ended well."""
        return tuple(cell for cell in self.cells if cell.finished)

    @property
    def seeds(self) -> list[int]:
        """Seeds of the splits, sorted."""
        return sorted({cell.split.seed for cell in self.cells})

    @property
    def processors(self) -> list[str]:
        """Names of the processors that the finished cells ran on, sorted."""
        return processors_of(self.finished)

    @property
    def disturbed(self) -> list[str]:
        """What the finished cells' clocks say against their times, in words."""
        return disturbed_words(self.finished)

    @property
    def threads(self) -> list[int]:
        """Numbers of threads that the finished cells ran with, sorted."""
        return sorted({cell.threads for cell in self.finished})


def is_cut_short(cell: Result, paper: Limits) -> bool:
    """Whether a finished cell ended before the paper's own run did.

    That is by seconds, or by a number of iterations (the plan's limit or the method's own maximum), where the paper ran
    to convergence or for longer. The end of a method's own schedule is no limit.

    Parameters
    ----------
    cell : Result
    paper : Limits
        What the paper's runs ended by: ``paper_limits`` of the plan.
    """
    if cell.stopped_by == "seconds":
        return paper.seconds is None or (cell.limits.seconds or 0.0) < paper.seconds
    if cell.stopped_by == "iterations":
        own = (cell.limits.iterations, cell.settings.get("max_iterations"))
        reached = min((int(each) for each in own if each is not None), default=int(cell.metrics.get("iterations") or 0))
        return paper.iterations is None or reached < paper.iterations
    return False


def is_quick(cell: Result) -> bool:
    """Whether a cell is of a plan's quick form, which alone limits all that there is to limit."""
    return len(cell.limits.description()) == len(fields(cell.limits))


def processors_of(cells: Iterable[Result]) -> list[str]:
    """Names of the processors that some cells ran on, sorted; times of several do not compare.

    Wall seconds, which count where a cell has several threads, are named: they compare with no processor seconds.
    """
    return sorted({f"{cell.cpu}, wall seconds" if cell.clock == "wall" else cell.cpu for cell in cells})


def disturbed_words(cells: Sequence[Result]) -> list[str]:
    """What the clocks of some cells say against their times, in words; empty where nothing does."""
    return disturbance_words([cell.disturbance for cell in cells])


def disturbance_words(disturbances: Sequence[float | None], where: str = "") -> list[str]:
    """The same of what the cells' clocks say, each a ratio or None; ``where`` stands after the counts."""
    cells, where = f"{len(disturbances)} cells", f" ({where})" if where else ""
    apart = [ratio for ratio in disturbances if ratio is not None]
    waited, ran = [ratio for ratio in apart if ratio > 1.0], [1.0 / ratio for ratio in apart if ratio < 1.0]
    words = []
    if waited:
        words.append(
            f"in {len(waited)} of {cells}{where} training took up to {_times(max(waited))} times as many wall seconds "
            "as processor seconds: the machine was busy, or waited for its disk"
        )
    if ran:
        words.append(
            f"in {len(ran)} of {cells}{where} training used up to {_times(max(ran))} times as many processor seconds "
            "as wall seconds: more threads ran than were asked for"
        )
    return words


def _times(ratio: float) -> str:
    """Two digits of a ratio, never as a power of ten."""
    return f"{float(f'{ratio:.2g}'):,.12g}"


def natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key that puts ``inducing=16`` before ``inducing=100``."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


def distinct(cells: Iterable[Result]) -> list[Result]:
    """Each key once: the finished result where there are several, else the latest."""
    known: dict[str, list[Result]] = defaultdict(list)
    for cell in cells:
        known[cell.key].append(cell)
    return [same[0] if len(same) == 1 else max(same, key=_rank) for same in known.values()]


def _rank(cell: Result) -> tuple[bool, str, str, str]:
    """Finished before not, late before early; the JSON text and a plan's label settle ties: the order plays no part."""
    shown = _shown(cell)
    return (
        *(cell.finished, cell.ended),
        *(json.dumps(cell.to_json(), sort_keys=True), "" if shown is None else shown.method),
    )


def group_cells(cells: Iterable[Result]) -> list[Group]:
    """Groups in the order of data set, split protocol and method; those of a plan in its order.

    Parameters
    ----------
    cells : iterable of Result
        In any order; a key that comes twice counts once.
    """
    members: dict[Hashable, list[Result]] = defaultdict(list)
    for cell in distinct(cells):
        shown = _shown(cell)
        members[cell.identity().group if shown is None else shown.position].append(cell)
    found = []
    firsts = [own[0] for own in members.values()]
    labels = zip(_dataset_labels(firsts), _method_labels(firsts), strict=True)
    for own, (dataset, (method, details)) in zip(members.values(), labels, strict=True):
        first, shown = own[0], _shown(own[0])
        found.append(
            Group(
                dataset=first.dataset,
                dataset_label=dataset if shown is None else shown.dataset,
                method=first.method,
                method_label=method if shown is None else shown.method,
                split=first.split.protocol,
                cells=tuple(sorted(own, key=lambda cell: (cell.split.seed, cell.split.index, cell.seed, cell.key))),
                details=details if shown is None else (),
            )
        )
    return sorted(found, key=_order)


def _shown(cell: Result) -> Shown | None:
    """How a plan shows the cell; None of a cell that is no plan's."""
    return getattr(cell, "shown", None)


def _order(group: Group) -> tuple[tuple[int, ...], list[list[tuple[int, int, str]]]]:
    shown = _shown(group.cells[0])
    names = (group.dataset, group.dataset_label, group.split, group.method, group.method_label)
    return () if shown is None else shown.position, [natural(name) for name in names]


def _dataset_labels(cells: Sequence[Result]) -> list[str]:
    """Ids of the data sets, with checksum or scaling where one id stands for several contents."""
    facts = [{"checksum": _words(cell.checksum), "scaling": _words(cell.scaling)} for cell in cells]
    names = [cell.dataset for cell in cells]
    return [_label(name, label) for name, (label, _) in zip(names, _tell_apart(names, facts), strict=True)]


def _method_labels(cells: Sequence[Result]) -> list[tuple[str, tuple[str, ...]]]:
    """Ids of the methods with the facts that tell the cells of a method apart, and what else differs among them.

    Settings, limits and versions come first, then those of an origin among cells that they leave alike, then the
    likelihood, within a data set only and where no setting names it: it follows from the task.
    """
    stages: list[tuple[list[Hashable], list[Mapping[str, str]]]] = [
        ([None] * len(cells), [facts_of(cell) for cell in cells]),
        (
            [cell.origin.method if cell.origin else None for cell in cells],
            [_origin_facts(each.origin) for each in cells],
        ),
        (
            [cell.dataset for cell in cells],
            [{} if "likelihood" in cell.settings else {"likelihood": _words(cell.likelihood)} for cell in cells],
        ),
    ]
    labels: list[tuple[str, ...]] = [()] * len(cells)
    details: list[tuple[str, ...]] = [()] * len(cells)
    for apart, facts in stages:
        scopes = [(cell.method, label, extra) for cell, label, extra in zip(cells, labels, apart, strict=True)]
        for index, (label, rest) in enumerate(_tell_apart(scopes, facts)):
            labels[index] += label
            details[index] += rest
    names = [_label(cell.method, label) for cell, label in zip(cells, labels, strict=True)]
    return list(zip(names, map(_without_echo, labels, details, cells), strict=True))


def facts_of(cell: Result) -> dict[str, str]:
    """Settings, limits (``limits.seconds``) and version of a cell, as labels of methods show them."""
    return (
        {name: _words(value) for name, value in cell.settings.items()}
        | {f"limits.{name}": _words(value) for name, value in cell.limits.description().items()}
        | {"version": _words(cell.version), "source": _words(cell.source)[:8], "changes": _words(cell.changes)[:8]}
    )


def _without_echo(label: Sequence[str], details: Sequence[str], cell: Result) -> tuple[str, ...]:
    """Details without the limit on iterations where the setting that it was turned into is said and says the same."""
    iterations = f"max_iterations={_words(cell.settings.get('max_iterations'))}"
    echo = f"limits.{iterations.removeprefix('max_')}" if iterations in (*label, *details) else ""
    return tuple(each for each in details if each != echo)


def _origin_facts(origin: OriginSpec | None) -> dict[str, str]:
    """Settings and version of the method that hyper-parameters come from, which tell cells apart as their own do."""
    if origin is None:
        return {}
    facts = {**origin.settings, "version": origin.version, "source": origin.source}
    return {f"{origin.method}.{name}": _words(value) for name, value in facts.items()}


def _tell_apart(
    scopes: Sequence[Hashable], facts: Sequence[Mapping[str, str]]
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """For each cell ``name=value`` of the fewest facts that tell it apart in its scope; and of others that differ."""
    members: dict[Hashable, list[Mapping[str, str]]] = defaultdict(list)
    for scope, own in zip(scopes, facts, strict=True):
        members[scope].append(own)
    chosen = {scope: _fewest(known) for scope, known in members.items()}

    def words(own: Mapping[str, str], names: Iterable[str]) -> tuple[str, ...]:
        # A limit that is not set goes without saying: where all others name theirs, labels stay apart.
        said = [name for name in sorted(names) if name in own or not name.startswith("limits.")]
        return tuple(f"{name}={own.get(name, _UNSET)}" for name in said)

    return [
        (words(own, chosen[scope][0]), words(own, chosen[scope][1])) for scope, own in zip(scopes, facts, strict=True)
    ]


def _fewest(facts: Sequence[Mapping[str, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the fewest facts by which all that differ can be told apart, the most telling first; and of the rest."""
    seen: dict[str, set[str]] = {name: {own.get(name, _UNSET) for own in facts} for own in facts for name in own}
    differing = sorted(
        (name for name, values in seen.items() if len(values) > 1), key=lambda each: _rank_of(each, seen)
    )
    kinds = {tuple(own.get(name, _UNSET) for name in differing) for own in facts}

    def tells(positions: Sequence[int]) -> bool:
        return len({tuple(kind[position] for position in positions) for kind in kinds}) == len(kinds)

    every = range(len(differing))
    few = (positions for size in range(_SEARCHED + 1) for positions in combinations(every, size) if tells(positions))
    found = next(few, None)
    if found is None:  # none can be spared of what is left, though fewer others might do
        found = tuple(every)
        for position in reversed(every):
            fewer = tuple(each for each in found if each != position)
            found = fewer if tells(fewer) else found
    return tuple(differing[each] for each in found), tuple(differing[each] for each in every if each not in found)


def _rank_of(name: str, seen: Mapping[str, set[str]]) -> tuple[int, int, str]:
    """Where a fact stands among those that could tell cells apart: settings, limits, version, what only some have."""
    kind = 0
    if name.startswith("limits."):
        kind = 1
    elif name == "version":
        kind = 2
    elif name in {"source", "changes"}:
        kind = 4
    elif _UNSET in seen[name]:
        kind = 3
    return kind, _TELLING.index(name) if name in _TELLING else len(_TELLING), name


def _label(name: str, parts: Sequence[str]) -> str:
    return f"{name} ({', '.join(parts)})" if parts else name


def _words(value: Any) -> str:
    """A setting's value as the command line takes it; a checksum by its first digits."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return value[:8] if re.fullmatch(r"[0-9a-f]{64}", value) else value
    return json.dumps(value, sort_keys=True)
