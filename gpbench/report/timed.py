"""Times that may share an axis: those of one processor, panel by panel."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from gpbench.errors import UsageError
from gpbench.report.groups import processors_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.cells import PlanResult
    from gpbench.bench.result import Result

__all__ = ["comparable", "where_taken"]


def comparable(cells: Sequence[PlanResult]) -> tuple[list[PlanResult], list[str]]:
    """A plan's cells without those whose times compare with no others of their panel.

    Of each data set as the plan shows it these are the finished cells on another processor than most of them ran on:
    who continues a plan on a machine of his own has such ones beside the reference results.

    Returns
    -------
    list of PlanResult
        In their order; those that have not ended well too.
    list of str
        What is left out, and why, a sentence for each processor and data set.
    """
    ran: dict[str, dict[str, list[PlanResult]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        if cell.finished:
            ran[cell.shown.dataset][processors_of([cell])[0]].append(cell)
    left: set[str] = set()
    words = []
    for dataset, places in ran.items():
        most, *others = sorted(places, key=lambda name: (-len(places[name]), name))
        for name in others:
            methods = ", ".join(dict.fromkeys(cell.shown.method for cell in places[name]))
            left |= {cell.key for cell in places[name]}
            words.append(
                f"{dataset}: {len(places[name])} cells of {methods} are not drawn: they ran on {name}, the others on "
                f"{most}, and times of the two do not compare. `gpbench reproduce --fresh` runs all in one place."
            )
    return [cell for cell in cells if cell.key not in left], words


def where_taken(panels: Mapping[str, Sequence[Result]]) -> str:
    """Where the times of some panels were taken; of which, where that differs between them.

    Parameters
    ----------
    panels : mapping
        Title -> its finished cells.

    Raises
    ------
    UsageError
        A panel has times of several processors.
    """
    ran = {title: processors_of(cells) for title, cells in panels.items()}
    if mixed := next((names for names in ran.values() if len(names) > 1), None):
        raise UsageError(
            f"times that share an axis need cells of one processor; these ran on {len(mixed)} ({'; '.join(mixed)}): "
            "choose one"
        )
    places: dict[str, list[str]] = defaultdict(list)
    for title, names in ran.items():
        places[names[0]].append(title)
    if len(places) == 1:
        return f"Times were taken on {next(iter(places))}"
    return "Times were taken on " + ", on ".join(f"{name} ({'; '.join(titles)})" for name, titles in places.items())
