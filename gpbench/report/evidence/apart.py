"""Numbers that lie apart from the printed ones, each with what has been tried to explain it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpbench.report.plan.claims import NOT_MEASURED
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.table import HEADS, cell_words
from gpbench.report.plan.verdicts import AGREES, HIGHER, LOWER, UNDECIDED
from gpbench.report.text import csv_text, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.plan.run import PlanCells
    from gpbench.report.plan.claims import Cause, Judged
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
    explains : bool
        It holds, and what it puts in the number's place agrees with the printed one.
    """

    place: int
    judged: Judged
    explains: bool


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
        refuted = [str(each.place) for each in self.tried if each.judged.verdict != UNDECIDED]
        return f"not known; not {', '.join(refuted)}" if refuted else "not known"


def apart(plans: Mapping[str, PlanCells], causes: Sequence[tuple[Cause, Judged]]) -> list[Number]:
    """The counted numbers that are lower or higher than the printed ones.

    Parameters
    ----------
    plans : mapping
        Of :func:`gpbench.report.evidence.experiments.all_plans`.
    causes : sequence of (Cause, Judged)
    """
    judged = {name: entries_of(found.plan, found.results) for name, found in plans.items() if found.plan.published}
    words = {
        (name, each.block.table.name, each.block.dataset, metric): entry.verdict.word
        for name, blocks in judged.items()
        for each in blocks
        for metric, entry in each.entries.items()
    }

    def tried(name: str, of: BlockNumbers, metric: str) -> Iterator[Tried]:
        table, dataset, printed = of.block.table.name, of.block.dataset, of.entries[metric].printed
        large = printed is not None and printed.value is None
        for place, (cause, found) in enumerate(causes, start=1):
            if cause.speaks_of(name, method=table, dataset=dataset, large=large) and found.verdict != NOT_MEASURED:
                other = words.get((cause.instead_plan, cause.instead.get(table, ""), dataset, metric), "")
                there = other == AGREES or not cause.instead
                yield Tried(place, found, found.verdict.startswith("holds") and there)

    return [
        Number(plans[name].plan, each, metric, tuple(tried(name, each, metric)))
        for name, blocks in judged.items()
        for each in blocks
        if each.block.table.counted
        for metric, entry in each.entries.items()
        if entry.verdict.word in {LOWER, HIGHER}
    ]


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
    return f"- {place}: {text}: {judged.verdict} ({judged.grade}). {measured}."


def apart_csv(numbers: Sequence[Number]) -> str:
    """The same for programs: a line for each number and cause that was tried, and one where none was."""
    rows: list[list[object]] = [
        [
            *("plan", "dataset", "method", "metric", "verdict", "ours", "standard_error", "printed"),
            *("cause", "holds", "explains", "measured"),
        ]
    ]
    for each in numbers:
        head = [
            *(each.plan.id, each.of.block.dataset, each.of.block.label, each.metric, each.entry.verdict.word),
            *(each.entry.centre, each.entry.error, "" if each.entry.printed is None else each.entry.printed.text),
        ]
        tried = [[one.judged.claim.text, one.judged.verdict, one.explains, one.judged.measured] for one in each.tried]
        rows += [[*head, *words] for words in tried or [["", "", "", ""]]]
    return csv_text(rows)
