"""Numbers that lie apart from the printed ones, each with what has been tried to explain it."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpbench.report.plan.claims import NOT_MEASURED
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.table import HEADS, cell_words
from gpbench.report.plan.verdicts import CUT_SHORT, HIGHER, LOWER, UNDECIDED
from gpbench.report.text import csv_text, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.plan.plan import Plan
    from gpbench.report.plan.claims import Judged
    from gpbench.report.plan.claims_file import Cause, Counterparts
    from gpbench.report.plan.numbers import BlockNumbers, Entry

__all__ = ["Number", "Tried", "apart", "apart_csv", "apart_table"]


@dataclass(frozen=True)
class Tried:
    """A cause that speaks of a number.

    Attributes
    ----------
    place : int
        Among all causes, from 1.
    judged : Judged
        What the cells say of it as a whole.
    explains : bool or None
        It holds, for the number's own cells where it speaks of each number apart, and what it puts in the number's
        place does not lie apart from the printed one, too; None where the cells leave that open.
    """

    place: int
    judged: Judged
    explains: bool | None


@dataclass(frozen=True)
class Number:
    """A number that is lower or higher than the printed one.

    Attributes
    ----------
    plan : Plan
    of : BlockNumbers
    metric : str
    tried : tuple of Tried
        Causes of which something was measured.
    """

    plan: Plan
    of: BlockNumbers
    metric: str
    tried: tuple[Tried, ...]

    @property
    def entry(self) -> Entry:
        """The number itself."""
        return self.of.entries[self.metric]

    @property
    def words(self) -> str:
        """What is known of its cause."""
        if own := [str(each.place) for each in self.tried if each.explains]:
            return ", ".join(own)
        refuted = [str(each.place) for each in self.tried if each.explains is False]
        return f"not known; not {', '.join(refuted)}" if refuted else "not known"


def apart(plans: Mapping[str, PlanCells], causes: Sequence[tuple[Cause, Judged]]) -> list[Number]:
    """The counted numbers that are lower or higher than the printed ones.

    Parameters
    ----------
    plans : mapping
        Of :func:`gpbench.report.evidence.experiments.all_plans`.
    causes : sequence of (Cause, Judged)
    """

    def swept(each: BlockNumbers) -> str:
        return json.dumps({**each.block.sweep}, sort_keys=True)

    judged = {name: entries_of(found.plan, found.results) for name, found in plans.items() if found.plan.published}
    blocks = {
        (name, each.block.table.name, each.block.dataset, swept(each)): each
        for name, found in judged.items()
        for each in found
    }
    keys: defaultdict[tuple[str, tuple[int, int]], set[str]] = defaultdict(set)
    for name in judged:
        for cell in plans[name].results:
            keys[name, cell.shown.position].add(cell.key)

    def tried(of: BlockNumbers, name: str, metric: str) -> Iterator[Tried]:
        table, dataset, printed = of.block.table.name, of.block.dataset, of.entries[metric].printed
        large = printed is not None and printed.value is None

        def counterpart(there: Counterparts) -> BlockNumbers | None:
            return blocks.get((*there.of(table, dataset), swept(of)))

        for place, (cause, found) in enumerate(causes, start=1):
            if found.verdict == NOT_MEASURED:
                continue
            if cause.speaks_of(name, method=table, dataset=dataset, metric=metric, large=large):
                holds = _holds(found)
                if cause.cells is not None:
                    block = counterpart(cause.cells)
                    holds = _holds_of(found, keys[cause.cells.plan, block.block.position] if block else set())
                if holds and cause.instead is not None:
                    block = counterpart(cause.instead)
                    entry = block.entries.get(metric) if block else None
                    holds = entry.verdict.within if entry and entry.verdict.word != CUT_SHORT else None
                yield Tried(place, found, holds)

    return [
        Number(plans[name].plan, each, metric, tuple(tried(each, name, metric)))
        for name, found in judged.items()
        for each in found
        if each.block.table.counted
        for metric, entry in each.entries.items()
        if entry.verdict.word in {LOWER, HIGHER}
    ]


def _holds(judged: Judged) -> bool | None:
    """Whether a cause holds as a whole; None where that is open."""
    return None if judged.verdict == UNDECIDED else judged.verdict.startswith("holds")


def _holds_of(judged: Judged, cells: AbstractSet[str]) -> bool | None:
    """Whether a cause holds by the checks that rest on some cells; None where that is open."""
    return True if cells & judged.upheld else False if cells & judged.denied else None


def apart_table(numbers: Sequence[Number]) -> str:
    """The numbers in Markdown, and below them the causes by the places that the table names."""
    if not numbers:
        return "None."
    lines = [
        "| plan | data set | method | metric | verdict | ours | printed | cause |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in numbers:
        words = [
            *(each.plan.id, each.plan.dataset_label(each.of.block.dataset), each.of.block.label),
            *(HEADS.get(each.metric, each.metric), each.entry.verdict.word),
            cell_words(each.plan, each.of, each.metric, best=False, timed=True),
            *("" if each.entry.printed is None else each.entry.printed.text, each.words),
        ]
        lines.append("| " + " | ".join(map(escape_markdown, words)) + " |")
    causes = {tried.place: tried.judged for each in numbers for tried in each.tried}
    lines += ["", *(_cause(place, causes[place]) for place in sorted(causes))]
    return "\n".join(lines)


def _cause(place: int, judged: Judged) -> str:
    text, measured = escape_markdown(judged.claim.text), escape_markdown(judged.brief)
    return f"- {place}: {text}: {judged.counted} ({judged.grade}). {measured}."


def apart_csv(numbers: Sequence[Number]) -> str:
    """The same for programs: a row for each number and cause that was tried, and one where none was.

    What was measured of the causes is :func:`gpbench.report.plan.claims_shown.claims_csv` of them.
    """
    rows: list[list[object]] = [
        [
            *("plan", "dataset", "method", "metric", "verdict", "ours", "standard_error", "printed"),
            *("cause", "holds", "explains"),
        ]
    ]
    for each in numbers:
        head = [
            *(each.plan.id, each.of.block.dataset, each.of.block.label, each.metric, each.entry.verdict.word),
            *(each.entry.centre, each.entry.error, "" if each.entry.printed is None else each.entry.printed.text),
        ]
        tried = [[one.judged.claim.text, one.judged.verdict, one.explains] for one in each.tried]
        rows += [[*head, *words] for words in tried or [["", "", ""]]]
    return csv_text(rows)
