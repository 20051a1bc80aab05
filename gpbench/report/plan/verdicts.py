"""A plan's numbers against what the paper prints: agrees, better, worse, or not comparable and why.

Each block and metric has a centre over splits, its spread as the plan asks for it, and its standard error.

Centres are compared (means, or medians where the paper prints medians). Ours agrees where

    |ours - printed| <= 2 sqrt(se_ours^2 + se_printed^2) + 0.005,

the last term being the rounding of two printed decimals. Our standard error is the standard deviation over splits by
the root of their number; a paper's follows from what it prints beside the ±: hensman2015 two standard deviations over
ten splits, wenzel2019 one over ten, villacampa2017 the standard error itself. Times were taken on the papers' machines
and are never judged.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpbench.bench.plan.blocks import Block, blocks
from gpbench.report.groups import disturbed_words, processors_of
from gpbench.report.plan.published import find_printed, read_published
from gpbench.report.tables.summary import statistics, value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.plan.run import PlanResult
    from gpbench.report.plan.published import Printed

__all__ = [
    "AGREES",
    "BETTER",
    "NOT_COMPARABLE",
    "WORSE",
    "BlockNumbers",
    "Entry",
    "Verdict",
    "entries_of",
    "judge",
    "printed_error",
    "tally",
]

AGREES, BETTER, WORSE, NOT_COMPARABLE = "agrees", "better", "worse", "not comparable"

#: Half a unit of the second decimal.
ROUNDING = 0.005

#: Paper -> its standard error, as a multiple of the spread that it prints.
_SPREADS = {
    "hensman2015": 1.0 / (2.0 * math.sqrt(10.0)),
    "wenzel2019": 1.0 / math.sqrt(10.0),
    "villacampa2017": 1.0,
}
#: Metrics of which more is better.
_MORE = frozenset({"accuracy", "bound"})
#: Above this a paper prints ``large``.
_LARGE = 1.0


@dataclass(frozen=True)
class Verdict:
    """How our number stands to the printed one.

    Attributes
    ----------
    word : str
        One of the four; empty where the paper prints no number.
    why : str
        Of ``not comparable``.
    """

    word: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.word}: {self.why}" if self.why else self.word


def printed_error(paper: str, spread: float | None) -> float:
    """The standard error of a printed centre; 0 where no spread is printed.

    A paper that is not known is taken to print standard errors.
    """
    return 0.0 if spread is None else spread * _SPREADS.get(paper, 1.0)


def judge(
    printed: Printed | None, *, centre: float | None, error: float | None, paper: str, incomparable: str = ""
) -> Verdict:
    """The verdict on one number.

    Parameters
    ----------
    printed : Printed or None
        None where the paper prints nothing.
    centre, error : float or None
        Ours and its standard error: None where there is none (no cell ended well), or a single split.
    paper : str
    incomparable : str
        Why nothing is to be compared here, whatever the numbers are.
    """
    if printed is None:
        return Verdict("")
    if printed.metric == "train_seconds":
        return Verdict(NOT_COMPARABLE, "another machine")
    if incomparable:
        return Verdict(NOT_COMPARABLE, incomparable)
    if centre is None:
        return Verdict(NOT_COMPARABLE, "no number of ours")
    if printed.value is None:
        return Verdict(AGREES if centre > _LARGE else BETTER)
    room = 2.0 * math.hypot(error or 0.0, printed_error(paper, printed.spread)) + ROUNDING
    excess = centre - printed.value
    if abs(excess) <= room:
        return Verdict(AGREES)
    return Verdict(BETTER if (excess > 0) == (printed.metric in _MORE) else WORSE)


def tally(verdicts: Iterable[Verdict]) -> str:
    """All verdicts of a table in a sentence; empty where nothing is printed."""
    given = [each for each in verdicts if each.word]
    if not given:
        return ""
    counts = Counter(each.word for each in given)
    judged = sum(counts[word] for word in (AGREES, BETTER, WORSE))
    words = (
        f"Verdicts: of {judged} comparable numbers {counts[AGREES]} agree with what is printed, {counts[BETTER]} are "
        f"better and {counts[WORSE]} worse"
    )
    if judged:
        words += f" ({100 * (counts[AGREES] + counts[BETTER]) / judged:.0f} % agree or better)"
    reasons = Counter(each.why for each in given if each.word == NOT_COMPARABLE)
    if reasons:
        words += "; not comparable: " + ", ".join(f"{why} {count}" for why, count in reasons.items())
    return words + "."


_WIDTHS = {"sd": 1.0, "2sd": 2.0, "se": 1.0, "2se": 2.0}


@dataclass(frozen=True)
class Entry:
    """One number and what is printed for it.

    Attributes
    ----------
    centre, spread, error : float or None
        Ours; the spread as the plan asks for it, and the standard error. None where there is none.
    printed : Printed or None
    verdict : Verdict
    """

    centre: float | None
    spread: float | None
    error: float | None
    printed: Printed | None
    verdict: Verdict


@dataclass(frozen=True)
class BlockNumbers:
    """A block with its numbers.

    Attributes
    ----------
    block : Block
    expected, finished, failed : int
        Cells that the block has (0 where that is not known), and those that ended well or not.
    absent : str
        Why there are no numbers at all: the data cannot be had, or nothing has been run.
    entries : mapping
        Metric -> its number.
    processors : tuple of str
        Where its finished cells ran.
    disturbed : tuple of str
        What their clocks say against their times.
    """

    block: Block
    expected: int
    finished: int
    failed: int
    absent: str
    entries: Mapping[str, Entry]
    processors: tuple[str, ...]
    disturbed: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """What a reader must know of the number of cells: ``failed 1/10``, ``3 of 10 splits``; else empty."""
        words = []
        if self.failed:
            words.append(f"failed {self.failed}/{self.finished + self.failed}")
        if 0 < self.finished + self.failed < self.expected:
            words.append(f"{self.finished + self.failed} of {self.expected} splits")
        return ", ".join(words)


def entries_of(plan: Plan, cells: Sequence[PlanResult]) -> list[BlockNumbers]:
    """Every block of a plan with its numbers, in the plan's order.

    Parameters
    ----------
    plan : Plan
    cells : sequence of PlanResult

    Raises
    ------
    UsageError
        The printed numbers cannot be read.
    """
    printed = read_published(plan)
    own: dict[tuple[int, int], list[PlanResult]] = defaultdict(list)
    for cell in cells:
        own[cell.shown.position].append(cell)
    return [_block_numbers(plan, block, own[block.position], printed) for block in blocks(plan)]


def _block_numbers(plan: Plan, block: Block, cells: Sequence[PlanResult], printed: Sequence[Printed]) -> BlockNumbers:
    finished = [cell for cell in cells if cell.finished]
    failed = len(cells) - len(finished)
    count = cells[0].split.count if cells else 0
    absent = "" if cells else "no data" if block.dataset in plan.missing else "not run"
    incomparable = (
        ("quick form" if plan.reduction.words else "")
        or (plan.override(block.dataset).incomparable or "")
        or absent
        or (f"failed {failed}/{len(cells)}" if failed else "")
    )
    entries = {}
    for metric in plan.metrics:
        centre, spread, error = _numbers(plan, [value_of(cell, metric) for cell in finished])
        one = find_printed(printed, plan, block, metric)
        verdict = judge(one, centre=centre, error=error, paper=plan.paper, incomparable=incomparable)
        entries[metric] = Entry(centre, spread, error, one, verdict)
    return BlockNumbers(
        block=block,
        expected=min(count, block.splits or count),
        finished=len(finished),
        failed=failed,
        absent=absent,
        entries=entries,
        processors=tuple(processors_of(finished)),
        disturbed=tuple(disturbed_words(finished)),
    )


def _numbers(plan: Plan, values: Sequence[float | None]) -> tuple[float | None, float | None, float | None]:
    known = statistics(values)
    mean, sd = known["mean"], known["sd"]
    if mean is None:
        return None, None, None
    centre = mean if plan.centre == "mean" else median(value for value in values if value is not None)
    if sd is None:
        return centre, None, None
    error = sd / math.sqrt(len(values))
    return centre, _WIDTHS[plan.spread] * (error if plan.spread.endswith("se") else sd), error
