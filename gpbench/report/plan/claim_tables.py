"""The claims that a plan decides, as a table beneath its own: two columns in text, all that is known on a page."""

from __future__ import annotations

import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING

from gpbench.report.plan.claims import claims_of
from gpbench.report.tables.display import Display, Line
from gpbench.report.tables.table import RENDERERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.plan.plan import Plan
    from gpbench.report.plan.claims import Claim

__all__ = ["NOTE", "claim_display", "claim_words"]

NOTE = "Verdicts on claims are given by hand, on the results that ship with gpbench and not on the cells shown here."

#: Letters of a line of a claim, and of its verdict, on a terminal.
_WIDTHS = (66, 48)


def claim_words(plan: Plan, form: str) -> str:
    """The claims that a plan decides with their verdicts, in a format of tables; empty where it decides none.

    Parameters
    ----------
    plan : Plan
    form : str
        ``text``, ``markdown`` or ``latex``.

    Raises
    ------
    UsageError
        The claims cannot be read.
    """
    claims = claims_of(plan.paper, plan.item)
    if not claims:
        return ""
    lines = []
    for claim in claims:
        words = (claim.text, f"{claim.verdict}: {claim.measured}" if claim.measured else claim.verdict)
        lines += _broken(words) if form == "text" else [Line(words, ())]
    return RENDERERS[form](_display(("claim of the paper", "verdict"), lines))


def claim_display(plan: Plan) -> Display | None:
    """The claims that a plan decides with all that is known of them; None where it decides none.

    Raises
    ------
    UsageError
        The claims cannot be read.
    """
    claims: Sequence[Claim] = claims_of(plan.paper, plan.item)
    lines = [Line((each.text, each.decided_by, each.verdict, each.measured, each.where), ()) for each in claims]
    return _display(("claim of the paper", "decided by", "verdict", "measured", "where"), lines) if lines else None


def _display(heads: tuple[str, ...], lines: Sequence[Line]) -> Display:
    return Display(word_heads=heads, number_heads=(), lines=tuple(lines), best="", notes=(NOTE,))


def _broken(words: Sequence[str]) -> list[Line]:
    """A row as lines that fit a terminal."""
    parts = [textwrap.wrap(word, width) for word, width in zip(words, _WIDTHS, strict=True)]
    return [Line(each, ()) for each in zip_longest(*parts, fillvalue="")]
