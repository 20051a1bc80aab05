"""Ours against what a paper prints: agrees, better, worse, or not comparable and why.

Centres are compared (means, or medians where the paper prints medians). Ours agrees where

    |ours - printed| <= 2 sqrt(se_ours^2 + se_printed^2) + 0.005,

the last term being the rounding of two printed decimals. Our standard error is the standard deviation over splits by
the root of their number; a paper's follows from what it prints beside the ±: hensman2015 two standard deviations over
ten splits, wenzel2019 one over ten, villacampa2017 the standard error itself. Times were taken on the papers' machines
and are never judged.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpbench.report.plan.published import Printed

__all__ = ["AGREES", "BETTER", "NOT_COMPARABLE", "WORSE", "Verdict", "judge", "printed_error", "tally"]

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
