"""The one rule by which a number of ours is judged against a printed one, and how verdicts are counted.

===============  =====================================================================================================
verdict          where
===============  =====================================================================================================
not comparable   other data, other splits, a quick form, or a part of folds in file order, which are not alike
not run          no cell has been run, or the data cannot be had
failed           some split failed: k of n
cut short        a cell ended by a clock or a number of iterations before the paper's own runs did
undecided        one split, or no printed spread; or a tolerance that is larger than :data:`LARGEST` of the number
agrees           within the tolerance
lower, higher    outside of it
===============  =====================================================================================================

The tolerance is t = 2 sqrt(se_ours^2 + se_printed^2) + half a unit of the last printed digit. Ours agrees where
|ours - printed| <= t and t <= max(0.2 |printed|, 0.01). Our standard error is that of the mean over splits; a paper's
follows from what it prints beside the ±: hensman2015 two standard deviations over ten splits, wenzel2019 one over ten,
villacampa2017 the standard error itself. An entry that is printed as ``large`` is reproduced by a median above 1 alone.
A part of random splits is judged and says k of n. Times were taken on the papers' machines and are never judged.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpbench.report.plan.published import Printed

__all__ = [
    "AGREES",
    "CUT_SHORT",
    "DECIDED",
    "FAILED",
    "HIGHER",
    "LOWER",
    "NOT_COMPARABLE",
    "NOT_RUN",
    "OTHERS",
    "PRINTED_TOO_WIDE",
    "RULE",
    "UNDECIDED",
    "Evidence",
    "Headline",
    "Verdict",
    "headline",
    "judge",
    "printed_error",
    "tally",
]

AGREES, LOWER, HIGHER, UNDECIDED = "agrees", "lower", "higher", "undecided"
NOT_COMPARABLE, CUT_SHORT, NOT_RUN, FAILED = "not comparable", "cut short", "not run", "failed"

#: The verdicts that decide: the headline is the share of the first among them.
DECIDED = (AGREES, LOWER, HIGHER)
#: The others, in the order in which they are counted.
OTHERS = (UNDECIDED, NOT_COMPARABLE, CUT_SHORT, NOT_RUN, FAILED)

#: A tolerance above this share of the printed number (and above the next) decides nothing.
LARGEST = 0.2
_SMALLEST_LARGEST = 0.01
#: A paper prints ``large`` for medians above this.
_LARGE = 1.0

#: Why some stay undecided: no more splits decide them, or there are no more.
PRINTED_TOO_WIDE = "the printed spread alone is too wide"
ALL_BLOCKS = "all blocks in file order are run"

#: Paper -> its standard error, as a multiple of the spread that it prints.
_SPREADS = {
    "hensman2015": 1.0 / (2.0 * math.sqrt(10.0)),
    "wenzel2019": 1.0 / math.sqrt(10.0),
    "villacampa2017": 1.0,
}

#: The rule, for the reader of a table.
RULE = (
    "Agrees: |ours − printed| ≤ t = 2 √(se² + se²) + half a printed unit; undecided: t > max(0.2 |printed|, 0.01), one "
    "split, or no printed spread. Lower is no success. Times are not judged."
)


@dataclass(frozen=True)
class Verdict:
    """How our number stands to the printed one.

    Attributes
    ----------
    word : str
        One of those in the module's table; empty where there is nothing to judge.
    why : str
        What a reader must know of it: why nothing is compared, or how many of the splits it rests on.
    within : bool or None
        Whether ours lies within the tolerance, however wide, and cut short or not; None where that is not known.
    """

    word: str
    why: str = ""
    within: bool | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.word, self.why)))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a verdict on a number of ours rests on.

    Attributes
    ----------
    centre, error : float or None
        Mean or median over splits, and the standard error; None where there is none.
    finished, failed : int
        Splits that ended well, and those that did not.
    expected : int
        Splits that the plan states; 0 where that is not known.
    cut : int or None
        How many of the finished ones :func:`is_cut_short`; None where that is not recorded.
    in_order : bool
        The splits are blocks in file order, so that a part of them is no sample of all.
    apart : str
        Why nothing is to be compared, whatever the numbers are.
    absent : str
        Why there are no numbers at all.
    """

    centre: float | None
    error: float | None
    finished: int
    failed: int = 0
    expected: int = 0
    cut: int | None = 0
    in_order: bool = False
    apart: str = ""
    absent: str = ""

    @property
    def part(self) -> str:
        """``3 of 10 splits`` where not all were run; else empty."""
        begun = self.finished + self.failed
        return f"{begun} of {self.expected} splits" if begun < self.expected else ""


def printed_error(paper: str, spread: float | None) -> float | None:
    """The standard error of a printed centre; None where no spread is printed.

    A paper that is not known is taken to print standard errors.
    """
    return None if spread is None else spread * _SPREADS.get(paper, 1.0)


def judge(printed: Printed | None, ours: Evidence, *, paper: str) -> Verdict:
    """The verdict on one number.

    Parameters
    ----------
    printed : Printed or None
        None where the paper prints nothing.
    ours : Evidence
    paper : str
    """
    if printed is None:
        return Verdict("")
    if printed.metric == "train_seconds":
        return Verdict("", "another machine")
    if ours.apart:
        return Verdict(NOT_COMPARABLE, ours.apart)
    if ours.absent:
        return Verdict(NOT_RUN, "" if ours.absent == NOT_RUN else ours.absent)
    if ours.failed:
        return Verdict(FAILED, f"{ours.failed} of {ours.failed + ours.finished} splits")
    if ours.in_order and ours.part:
        return Verdict(NOT_COMPARABLE, f"{ours.part} in file order")
    printed_se = printed_error(paper, printed.spread)
    within = _within(printed, ours, printed_se)
    if ours.cut:
        return Verdict(CUT_SHORT, f"{ours.cut} of {ours.finished} splits", within)
    if ours.centre is None or not math.isfinite(ours.centre):
        return Verdict(NOT_COMPARABLE, "no finite number of ours")
    if within is False:
        word = LOWER if printed.value is None or ours.centre < printed.value else HIGHER
    else:
        word = AGREES if within and not _is_large(_tolerance(printed, ours.error, printed_se), printed) else UNDECIDED
    why = ""
    if word == UNDECIDED:
        wide = printed_se is not None and _is_large(_tolerance(printed, None, printed_se), printed)
        why = PRINTED_TOO_WIDE if wide else ALL_BLOCKS if ours.in_order else ""
    return Verdict(word, ", ".join(filter(None, [why, ours.part])), within)


def _within(printed: Printed, ours: Evidence, printed_se: float | None) -> bool | None:
    """Whether ours lies within the tolerance of the printed number, however wide; None where one is not known."""
    if ours.centre is None or not math.isfinite(ours.centre) or ours.error is None:
        return None
    if printed.value is None:
        return ours.centre > _LARGE
    if printed_se is None:
        return None
    # A number that is printed to two digits stands in binary only roughly: what lies on the edge is within.
    return abs(ours.centre - printed.value) <= _tolerance(printed, ours.error, printed_se) * (1.0 + 1e-9)


def _tolerance(printed: Printed, error: float | None, printed_se: float | None) -> float:
    return 2.0 * math.hypot(error or 0.0, printed_se or 0.0) + 0.5 * printed.unit


def _is_large(tolerance: float, printed: Printed) -> bool:
    """Whether a tolerance decides nothing."""
    return printed.value is not None and tolerance > max(LARGEST * abs(printed.value), _SMALLEST_LARGEST)


@dataclass(frozen=True)
class Headline:
    """Verdicts counted.

    Attributes
    ----------
    counts : Counter
        Verdict -> how many.
    reasons : Counter
        Why of what is not comparable -> how many.
    kept : Counter
        Why of what is undecided and stays so -> how many.
    """

    counts: Counter[str]
    reasons: Counter[str]
    kept: Counter[str] = field(default_factory=Counter)

    @property
    def decided(self) -> int:
        """How many agree, are lower or higher."""
        return sum(self.counts[word] for word in DECIDED)

    @property
    def share(self) -> float | None:
        """The headline: agrees / (agrees + lower + higher); None where nothing is decided."""
        return self.counts[AGREES] / self.decided if self.decided else None

    @property
    def is_short(self) -> bool:
        """More than a fifth of what could be decided is undecided."""
        return self.counts[UNDECIDED] > 0.2 * (self.decided + self.counts[UNDECIDED])

    def __str__(self) -> str:
        """In a sentence, always with all counts; empty where nothing is judged."""
        if not self.counts:
            return ""
        share = "" if self.share is None else f" ({100 * self.share:.0f} %)"
        words = (
            f"Verdicts: {self.counts[AGREES]} of {self.decided} decided numbers agree with what is printed{share}, "
            f"{self.counts[LOWER]} are lower and {self.counts[HIGHER]} higher; "
            + ", ".join(f"{word} {self.counts[word]}" for word in OTHERS)
        )
        if self.reasons:
            words += " (not comparable: " + ", ".join(f"{why} {count}" for why, count in self.reasons.items()) + ")"
        words += "."
        if self.is_short:
            others = self.counts[UNDECIDED] - self.kept.total()
            words += " More than a fifth is undecided"
            words += "".join(f", {count} of them since {why}" for why, count in self.kept.items())
            words += f": more splits decide{f' the other {others}' if self.kept else ''}." if others else "."
        return words


def headline(verdicts: Iterable[Verdict]) -> Headline:
    """Count verdicts; those without a word are none."""
    given = [each for each in verdicts if each.word]
    return Headline(
        Counter(each.word for each in given),
        Counter(each.why for each in given if each.word == NOT_COMPARABLE),
        Counter(
            why
            for each in given
            for why in (PRINTED_TOO_WIDE, ALL_BLOCKS)
            if each.word == UNDECIDED and each.why.startswith(why)
        ),
    )


def tally(verdicts: Iterable[Verdict]) -> str:
    """All verdicts of a table in a sentence; empty where nothing is judged."""
    return str(headline(verdicts))
