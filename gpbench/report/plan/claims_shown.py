"""Claims and their verdicts for a reader: as csv, as words below a table, as a table of their own."""

from __future__ import annotations

import textwrap
from itertools import zip_longest
from typing import TYPE_CHECKING

from gpbench.report.plan.claims import NOT_MEASURED, keys_of
from gpbench.report.tables.lines import text
from gpbench.report.tables.table import RENDERERS, Display, Line
from gpbench.report.text import csv_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.report.plan.checks import Check
    from gpbench.report.plan.claims import Judged

__all__ = ["NOTE", "claim_display", "claim_words", "claims_csv"]

NOTE = "Verdicts on claims follow from cells by code, as the claims' files say; grades are full, cut short, one split."

#: Letters of a line of a claim, and of its verdict, on a terminal.
_WIDTHS = (66, 48)


def claims_csv(judged: Sequence[Judged]) -> str:
    """Claims with all that is known of them, a row for each check: what ``results/reproduced/claims.csv`` holds.

    A claim of which no cells were looked at has one row.
    """
    rows: list[list[object]] = [
        ["paper", "claim", "rule", "verdict", "evidence", "plan", "measure", "measured", "so", "cells"]
    ]
    for each in judged:
        head = [each.claim.paper, each.claim.text, each.claim.rule, each.verdict, each.grade]
        rows += [
            [*head, part.plan, part.measure, check.words, _so(check), " ".join(sorted(keys_of([check])))]
            for part, check in each.checks
        ] or [[*head, "", "", "", NOT_MEASURED, ""]]
    return csv_text(rows)


def _so(check: Check) -> str:
    if not check.measured:
        return NOT_MEASURED
    return "undecided" if check.holds is None else "yes" if check.holds else "no"


def claim_words(judged: Sequence[Judged], form: str, *, width: int | None = None) -> str:
    """Claims with their verdicts, in a format of tables; empty where there are none.

    Parameters
    ----------
    judged : sequence of Judged
    form : str
        ``text``, ``markdown`` or ``latex``.
    width : int, optional
        Of the terminal, for text.
    """
    if not judged:
        return ""
    if form == "text" and width is not None:
        rows = [Line((each.claim.text, _verdict_words(each)), ()) for each in judged]
        return text(_display(("claim of the paper", "verdict"), rows), width)
    lines = []
    for each in judged:
        words = (each.claim.text, _verdict_words(each))
        lines += _broken(words) if form == "text" else [Line(words, ())]
    return RENDERERS[form](_display(("claim of the paper", "verdict"), lines))


def _verdict_words(each: Judged) -> str:
    grade = f" ({each.grade})" if each.grade else ""
    return f"{each.verdict}{grade}" + (f": {each.measured}" if each.measured else "")


def claim_display(judged: Sequence[Judged]) -> Display | None:
    """Claims with all that is known of them; None where there are none."""
    lines = [
        Line((each.claim.text, each.claim.decided_by, each.verdict, each.grade, each.measured), ()) for each in judged
    ]
    return _display(("claim of the paper", "decided by", "verdict", "evidence", "measured"), lines) if lines else None


def _display(heads: tuple[str, ...], lines: Sequence[Line]) -> Display:
    return Display(word_heads=heads, number_heads=(), lines=tuple(lines), best="", notes=(NOTE,))


def _broken(words: Sequence[str]) -> list[Line]:
    """A row as lines that fit a terminal."""
    parts = [textwrap.wrap(word, width) for word, width in zip(words, _WIDTHS, strict=True)]
    return [Line(each, ()) for each in zip_longest(*parts, fillvalue="")]
