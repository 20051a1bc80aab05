"""The papers' claims in words, what decides each, and what was found: two files beside one another, and as tables.

``results/published/claims.csv`` has the columns ``paper, claim, decided by``; ``results/reproduced/claims.csv`` has
``paper, claim, measured, verdict, where`` and is written by hand. A claim without a row there is not measured.
``decided by`` begins with the plans that decide: ``table1 and fig2: ...``, ``fig4 to fig7``, ``mnist``.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from gpbench.errors import UsageError, unknown_name
from gpbench.report.plan.published import published_folder, read_rows, shipped_folder
from gpbench.report.tables.table import RENDERERS, Display, Line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpbench.bench.plan.plan import Plan

__all__ = [
    "NOTE",
    "NOT_MEASURED",
    "VERDICTS",
    "Claim",
    "claim_display",
    "claim_words",
    "claims_of",
    "read_claims",
    "reproduced_folder",
]

NOT_MEASURED = "not measured"
#: What can be said of a claim.
VERDICTS = ("holds", "holds in part", "does not hold", NOT_MEASURED)

NOTE = "Verdicts on claims are given by hand, on the results that ship with gpbench and not on the cells shown here."

#: Letters of a line of a claim, and of its verdict, on a terminal.
_WIDTHS = (66, 48)

_PUBLISHED = ("paper", "claim", "decided by")
_REPRODUCED = ("paper", "claim", "measured", "verdict", "where")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of a paper.

    Attributes
    ----------
    paper, text : str
    decided_by : str
        The measurement that decides it, the plans first.
    verdict : str
        One of :data:`VERDICTS`.
    measured, where : str
        What was measured, and where it stands; empty where nothing was.
    """

    paper: str
    text: str
    decided_by: str
    verdict: str = NOT_MEASURED
    measured: str = ""
    where: str = ""

    @property
    def items(self) -> frozenset[str]:
        """Words that may be the names of plans: those before the colon or bracket, and what ``A to B`` lies between."""
        head = re.split(r"[:(]", self.decided_by, maxsplit=1)[0]
        between = {
            f"{kind}{number}"
            for kind, first, last in re.findall(r"\b([a-z]+)(\d+) to \1(\d+)\b", head)
            for number in range(int(first), int(last) + 1)
        }
        return frozenset(re.findall(r"[\w-]+", head)) | between


def reproduced_folder() -> Path:
    """The folder of our verdicts on the claims: in a checkout, or in the wheel."""
    return shipped_folder("reproduced")


def read_claims(published: Path | None = None, reproduced: Path | None = None) -> list[Claim]:
    """Every claim, in the order of the published file.

    Parameters
    ----------
    published, reproduced : Path, optional
        The two files; by default those that ship. The second one may be missing: then nothing is measured.

    Raises
    ------
    UsageError
        A file cannot be read, lacks a column, or gives a claim twice; a verdict on a claim that no paper makes, or one
        that is no verdict.
    """
    printed = published if published is not None else published_folder() / "claims.csv"
    path = reproduced if reproduced is not None else reproduced_folder() / "claims.csv"
    claims = {key: row["decided by"] for key, row in _rows(printed, _PUBLISHED).items()}
    found = _rows(path, _REPRODUCED) if path.is_file() else {}
    for (paper, text), row in found.items():
        if (paper, text) not in claims:
            raise UsageError(f"{path}: {unknown_name(f'claim of {paper}', text, [own for _, own in claims])}")
        if row["verdict"] not in VERDICTS:
            raise UsageError(
                f"{path}: {text!r}: the verdict must be one of {', '.join(VERDICTS)}; got {row['verdict']!r}"
            )
    return [
        Claim(paper=paper, text=text, decided_by=decided_by, **_judged(found.get((paper, text))))
        for (paper, text), decided_by in claims.items()
    ]


def claims_of(paper: str, item: str) -> Sequence[Claim]:
    """The claims of a paper that one of its plans decides; a plan ``fig5-airline`` is a part of ``fig5``.

    Raises
    ------
    UsageError
        As :func:`read_claims`.
    """
    names = {item, item.partition("-")[0]}
    return [claim for claim in read_claims() if claim.paper == paper and not names.isdisjoint(claim.items)]


def _judged(row: dict[str, str] | None) -> dict[str, str]:
    return {} if row is None else {name: row[name] for name in ("verdict", "measured", "where")}


def _rows(path: Path, columns: Sequence[str]) -> dict[tuple[str, str], dict[str, str]]:
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for number, row in enumerate(read_rows(path, columns), 2):
        if None in row or None in row.values():
            named = len([name for name in row if name is not None])
            raise UsageError(f"{path}, line {number}: expected {named} values; got {row!r}")
        if (key := (row["paper"], row["claim"])) in rows:
            raise UsageError(f"{path}, line {number}: {row['paper']} claims twice: {row['claim']!r}")
        rows[key] = row
    return rows


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
