"""Which cells are compared where methods are named: the store's own, or reference results where those do not suffice.

Plans run a method with dozens of settings. Of what is in the store each choice of settings is compared, since the user
ran it himself; of reference results a name stands for the settings nearest to its method's defaults under which all
that are named have been run on the same splits.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, TypeAlias

from gpbench.bench.methods import methods as known_methods
from gpbench.errors import GpbenchError
from gpbench.report.groups import distinct
from gpbench.report.sources import (
    choose,
    matches,
    method_of,
    reference_beside,
    reference_words,
    without_quick,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.result import Result

__all__ = ["contest"]

#: Where cells can be paired: data set, its content, scaling, split protocol, limits of training and test rows.
_Place: TypeAlias = tuple[str, str, str, str, int | None, int | None]
#: A name's cells of one choice of settings in one place.
_Variant: TypeAlias = "list[Result]"


def contest(
    cells: Sequence[Result],
    names: Sequence[str],
    *,
    datasets: Sequence[str] = (),
    split: str | None = None,
    processor: str | None = None,
    reference: bool = True,
    beside: bool = False,
) -> tuple[list[Result], list[str]]:
    """The cells that a comparison of some methods is made of.

    Parameters
    ----------
    cells : sequence of Result
        The store's.
    names : sequence of str
        Methods, with settings where the name goes on with them, as :func:`gpbench.report.sources.method_of` reads it.
    datasets, split, processor
        As for :func:`gpbench.report.sources.choose`.
    reference : bool
        Whether reference results take part where a name has no cells in the store.
    beside : bool
        Whether they do in any case.

    Returns
    -------
    list of Result
    list of str
        What is to be said of them, one sentence each.

    Raises
    ------
    UsageError
        There are no such cells.
    StoreError
        Reference results cannot be read.
    """
    asked: dict[str, Any] = {"datasets": datasets, "methods": names, "split": split, "processor": processor}
    own = [cell for cell in cells if not datasets or cell.dataset in datasets]
    lacking = [name for name in names if not any(matches(cell, name) for cell in own)]
    added = reference_beside(cells) if reference and (lacking or beside) else []
    if not added:
        return without_quick(choose(cells, **asked))
    chosen, words = without_quick(choose(distinct([*cells, *added]), **asked))
    where = f" on {', '.join(datasets)}" if datasets else ""
    mine = {cell.key for cell in cells}.difference(cell.key for cell in added)
    found = _nearest(chosen, names, mine)
    used = [cell for cell in found if cell.key not in mine]
    if used:
        if lacking:
            words.append(f"the store has no results of {', '.join(lacking)}{where}")
        words.append(f"{reference_words(used)}; of a method's settings those nearest to its defaults")
    return found, words


def _nearest(cells: Sequence[Result], names: Sequence[str], mine: set[str]) -> list[Result]:
    """Of each name one choice of settings in each place where all meet, with settings as near to defaults as can be.

    Where all meet nowhere, the same in every place, whoever meets there.
    """
    default = {name: _defaults(method_of(name)[0]) for name in names}
    places: dict[_Place, dict[str, dict[str, _Variant]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for cell in cells:
        for name in names:
            if matches(cell, name):
                places[_place(cell)][name][cell.identity().group].append(cell)

    def rank(name: str, variant: _Variant) -> tuple[int, bool, int, float, str]:
        """Few settings that are not the default's, then the user's own, many cells, the shorter limit; no ties."""
        first = variant[0]
        own = any(cell.key in mine for cell in variant)
        limit = math.inf if first.limits.seconds is None else first.limits.seconds
        return _apart(first, name, default[name]), not own, -len(variant), limit, first.identity().group

    best = {
        place: {name: min(variants.values(), key=lambda each: rank(name, each)) for name, variants in found.items()}
        for place, found in places.items()
    }
    costs = {
        place: (sum(rank(name, each)[0] for name, each in found.items()), sum(rank(n, e)[1] for n, e in found.items()))
        for place, found in best.items()
        if len(found) == len(set(names))
    }
    least = min(costs.values(), default=None)
    kept = best if least is None else {place: best[place] for place, cost in costs.items() if cost == least}
    chosen = {cell.key: cell for found in kept.values() for variant in found.values() for cell in variant}
    return list(chosen.values())


def _place(cell: Result) -> _Place:
    limits = cell.limits.train_rows, cell.limits.test_rows
    return cell.dataset, cell.checksum, cell.scaling, cell.split.protocol, *limits


def _defaults(method: str) -> Mapping[str, Any]:
    """The settings that a method runs with where none is given; none of a method that cannot be had."""
    try:
        return known_methods()[method].resolve({})
    except (KeyError, GpbenchError):
        return {}


def _apart(cell: Result, name: str, default: Mapping[str, Any]) -> int:
    """How many settings are not the default's; those that are asked for do not count."""
    asked = method_of(name)[1]
    return sum(cell.settings.get(key) != value for key, value in default.items() if key not in asked)
