"""``results/README.md`` from its template: prose that holds no number of its own, and blocks that code writes.

In ``results/README.template.md`` a line ``<!-- BLOCK -->`` stands for one of :data:`BLOCKS`, and

    {{hensman2015/fig1 | klsp, inducing=16 | nll}}

for a number of the reference results: the plan's mean or median over the splits of that table of [methods], at a swept
value, ``dataset=ID`` where there are several. A paragraph that names a number of which there are no cells is left out,
and says so. So nothing on the page can outlive its cells.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from gpbench.errors import UsageError
from gpbench.report.evidence.apart import apart_table
from gpbench.report.evidence.experiments import STATES, experiments_table, headlines_table
from gpbench.report.plan.checks import each_group, shown
from gpbench.report.plan.claims import GRADES, NOT_MEASURED, VERDICTS
from gpbench.report.plan.numbers import centre_of
from gpbench.report.tables.summary import value_of
from gpbench.report.text import escape_markdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.report.evidence.apart import Number
    from gpbench.report.evidence.experiments import Experiment
    from gpbench.report.plan.claims import Judged
    from gpbench.report.plan.verdicts import Headline

__all__ = ["BLOCKS", "NUMBER", "UNCARRIED", "cells_of", "page", "resolved"]

#: What a template may leave to code, by name: the head, then what it is.
BLOCKS = {
    "FINDINGS": "the first of what gpbench itself has to say, with verdict, numbers, plan and command",
    "FURTHER": "the rest of it, a line each",
    "APART": "the numbers that are lower or higher than the printed ones, with what explains them",
    "HEADLINE": "the share of printed numbers that agree, with all its counts",
    "CLAIMS": "the papers' claims with verdict and grade",
    "EXPERIMENTS": "the state of every experiment",
}
#: Findings that stand first, with their numbers; the others have a line each.
_FIRST = 8
NUMBER = re.compile(r"\{\{([^}]*)\}\}")
_BLOCK = re.compile(r"^<!-- ([A-Z]+) -->$", re.MULTILINE)
UNCARRIED = "Not measured yet."


def cells_of(place: str, plans: Mapping[str, PlanCells]) -> tuple[PlanCells, str, tuple[PlanResult, ...]]:
    """The plan, the metric and the finished cells that a number's name means.

    Raises
    ------
    UsageError
        It is no name of a number: its form, the plan, the table, a swept value or the metric is unknown.
    """
    parts = [part.strip() for part in place.split("|")]
    if len(parts) != 3 or parts[0] not in plans:
        raise UsageError(f"a number is named PLAN | TABLE, swept=value | METRIC of a plan that ships; got {place!r}")
    found, metric = plans[parts[0]], parts[2]
    table, *chosen = (part.strip() for part in parts[1].split(","))
    at = dict(part.split("=", 1) for part in chosen)
    datasets = [at.pop("dataset")] if "dataset" in at else None
    if metric not in found.plan.metrics:
        raise UsageError(f"{place!r}: {metric} is no metric of {parts[0]}; it has {', '.join(found.plan.metrics)}")
    groups = [
        group
        for group in each_group(found, (table,), datasets=datasets)
        if all(str(group.sweep.get(name)) == value for name, value in at.items())
    ]
    if len(groups) != 1:
        raise UsageError(f"{place!r} means {len(groups)} groups of cells; expected one")
    return found, metric, groups[0].all()


def resolved(text: str, plans: Mapping[str, PlanCells]) -> str:
    """Prose with its numbers; paragraphs of which a number has no cells are replaced by :data:`UNCARRIED`.

    Raises
    ------
    UsageError
        As :func:`cells_of`.
    """
    paragraphs = []
    for paragraph in text.split("\n\n"):
        words = paragraph
        for name in NUMBER.findall(paragraph):
            found, metric, cells = cells_of(name, plans)
            known = [value for cell in cells if (value := value_of(cell, metric)) is not None]
            if not known:
                words = UNCARRIED
                break
            words = words.replace("{{" + name + "}}", shown(centre_of(found.plan, known)))
        paragraphs.append(words)
    return "\n\n".join(paragraphs)


def page(
    template: str,
    *,
    plans: Mapping[str, PlanCells],
    findings: Sequence[Judged],
    claims: Sequence[Judged],
    told: Mapping[str, Headline],
    found: Sequence[Experiment],
    beside: Sequence[Number] = (),
) -> str:
    """The page.

    Parameters
    ----------
    template : str
    plans : mapping
        Of :func:`gpbench.report.evidence.experiments.all_plans`.
    findings, claims : sequence of Judged
    told : mapping
        Of :func:`gpbench.report.evidence.experiments.headlines`.
    found : sequence of Experiment
    beside : sequence of Number
        Of :func:`gpbench.report.evidence.apart.apart`.

    Raises
    ------
    UsageError
        The template names a block or a number that there is not.
    """
    blocks = {
        "FINDINGS": _findings(findings[:_FIRST]),
        "FURTHER": _further(findings[_FIRST:]),
        "HEADLINE": f"{told['all'] or 'No printed number is judged.'}\n\n{headlines_table(told)}",
        "APART": apart_table(beside),
        "CLAIMS": _claims(claims),
        "EXPERIMENTS": _states(found) + "\n\n" + experiments_table(found),
    }
    if unknown := sorted(set(_BLOCK.findall(template)) - set(blocks)):
        raise UsageError(f"the template names {', '.join(unknown)}; known are {', '.join(blocks)}")
    prose = resolved(template, plans)
    return _BLOCK.sub(lambda block: blocks[block[1]].strip(), prose).rstrip() + "\n"


def _findings(judged: Sequence[Judged]) -> str:
    lines = []
    for each in judged:
        evidence = f" ({each.grade}, {len(each.keys)} cells)" if each.keys else ""
        numbers = [f"{escape_markdown(each.brief)}."] if each.brief else []
        lines += [
            f"- **{_said(each)}**: {each.counted}{evidence}.",
            "  " + " ".join([*numbers, f"{', '.join(_commands(each))}."]),
        ]
    return "\n".join(lines)


def _further(judged: Sequence[Judged]) -> str:
    lines = ["| finding | verdict | evidence | command |", "|---|---|---|---|"]
    for each in judged:
        evidence = f"{each.grade}, {len(each.keys)} cells" if each.keys else ""
        words = [_said(each), each.counted, evidence]
        lines.append("| " + " | ".join([*words, ", ".join(_commands(each))]) + " |")
    return "\n".join(lines)


def _said(each: Judged) -> str:
    """Its text; a question where nothing is measured."""
    return escape_markdown(each.claim.text) + ("?" if each.verdict == NOT_MEASURED else "")


def _commands(each: Judged) -> list[str]:
    """What shows the plans that decide it."""
    return [f"`gpbench report {name}`" for name in dict.fromkeys(part.plan for part in each.claim.parts)]


def _claims(judged: Sequence[Judged]) -> str:
    counts = Counter(each.verdict for each in judged)
    grades = Counter(each.grade for each in judged if each.grade)
    words = [f"{verdict} {counts[verdict]}" for verdict in VERDICTS if counts[verdict]]
    graded = ", ".join(f"{grade} {grades[grade]}" for grade in GRADES if grades[grade])
    lines = [
        f"Of {len(judged)} claims: {', '.join(words)}" + (f" (evidence: {graded})." if graded else "."),
        "",
        "| paper | claim | verdict | evidence | measured |",
        "|---|---|---|---|---|",
    ]
    for each in judged:
        if each.verdict != NOT_MEASURED:
            words = [each.claim.paper, each.claim.text, each.verdict, each.grade, each.brief]
            lines.append("| " + " | ".join(map(escape_markdown, words)) + " |")
    return "\n".join(lines)


def _states(found: Sequence[Experiment]) -> str:
    counts = Counter(each.state for each in found)
    ran = sum(each.finished for each in found)
    planned = sum(each.planned for each in found)
    words = ", ".join(f"{state} {counts[state]}" for state in STATES if counts[state])
    return f"{len(found)} plans: {words}. {ran:,} of {planned:,} cells, counted as plans name them, are there."
