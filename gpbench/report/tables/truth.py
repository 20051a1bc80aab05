"""Distances from reference posteriors as tables: a row for each method, problem and number of inducing inputs."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, fields
from statistics import median
from typing import TYPE_CHECKING, Any

from gpbench.bench.derived.stored import stored_arrays
from gpbench.bench.truth.measures import Distance
from gpbench.errors import unknown_name
from gpbench.report.notes import plan_notes
from gpbench.report.tables.lines import head_words, text
from gpbench.report.tables.table import ENDINGS, NONE, RENDERERS, Display, Line, Number
from gpbench.report.text import csv_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.bench.derived.stored import Arrays
    from gpbench.bench.plan.cells import PlanCells

__all__ = ["Row", "rows_of", "truth_rows", "truth_text"]

_NOTES = (
    (
        "Over the test rows. Mean: root mean square error of the latent means, in posterior standard deviations; sd: "
        "geometric mean ratio of the standard deviations; KL: mean divergence of the normal law with the exact moments "
        "from the method's, in nats; probability: largest difference."
    ),
    (
        "Gap: log evidence less the method's bound or evidence, in nats; a bound's is never below 0 but for the "
        "evidence's own error."
    ),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One cell beside its reference.

    Attributes
    ----------
    problem, link, label, method : str
    m : int
        Inducing inputs.
    whole : bool
        Whether these are all training rows, or the method has none.
    mean, sd, kl, probability : float
        Over the test rows.
    train_mean, train_sd, train_kl, train_probability : float
        Over the training rows.
    gap : float or None
    evidence, evidence_error, mean_error, probability_error : float
        The reference's log evidence, and its own errors.
    seconds : float or None
        Of training.
    """

    problem: str
    link: str
    label: str
    method: str
    m: int
    whole: bool
    mean: float
    sd: float
    kl: float
    probability: float
    train_mean: float
    train_sd: float
    train_kl: float
    train_probability: float
    gap: float | None
    evidence: float
    evidence_error: float
    mean_error: float
    probability_error: float
    seconds: float | None


def rows_of(found: PlanCells, arrays: Arrays | None = None) -> list[Row]:
    """The rows of a plan's finished cells, in the plan's order.

    Raises
    ------
    NotComputed
        The distances are not stored.
    """
    arrays = stored_arrays(found) if arrays is None else arrays
    cells = {cell.key: cell for cell in found.results}
    rows = []
    for index, key in enumerate(arrays.get("cell", ())):
        cell = cells[str(key)]
        gap, m = float(arrays["gap"][index]), int(arrays["M"][index])
        numbers = {name: float(arrays[name][index][1]) for name in Distance._fields}
        numbers |= {f"train_{name}": float(arrays[name][index][0]) for name in Distance._fields}
        own = ("evidence", "evidence_error", "mean_error", "probability_error")
        rows.append(
            Row(
                problem=str(arrays["problem"][index]),
                link=str(arrays["link"][index]),
                label=cell.shown.variant,
                method=cell.method,
                m=m,
                whole=cell.settings.get("inducing", "all") == "all",
                **numbers,
                gap=None if math.isnan(gap) else gap,
                **{name: float(arrays[name][index]) for name in own},
                seconds=cell.metrics.get("train_seconds"),
            )
        )
    return rows


def truth_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as JSON can hold them."""
    return [{each.name: getattr(row, each.name) for each in fields(Row)} for row in rows]


def truth_text(found: PlanCells, rows: Sequence[Row], form: str, *, width: int | None = None) -> str:
    """The tables in a format: of each problem, and over problems where there are several; text within a width.

    Raises
    ------
    UsageError
        An unknown format.
    """
    if form not in ENDINGS:
        raise unknown_name("table format", form, ENDINGS)
    if form == "csv":
        heads = [each.name for each in fields(Row)]
        return csv_text([heads, *([getattr(row, name) for name in heads] for row in rows)])
    several = len({row.problem for row in rows}) > 1
    shown = [*([_over_problems(rows)] if several else []), _problems(rows, found)]
    written = [text(each, width) if form == "text" else RENDERERS[form](each) for each in shown]
    return "\n".join([head_words(found.plan, form, width=width) + "\n", *written])


def _over_problems(rows: Sequence[Row]) -> Display:
    """Medians over problems."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.label, row.link, _size(row)].append(row)
    lines = []
    for (label, link, size), own in groups.items():
        gaps = [row.gap for row in own if row.gap is not None]
        numbers = (
            *(Number(_digits(median(getattr(row, name) for row in own))) for name in Distance._fields),
            Number(_digits(median(gaps)) if gaps else NONE),
        )
        lines.append(Line((label, link, size, str(len(own))), numbers))
    return Display(
        word_heads=("method", "link", "M", "problems"),
        number_heads=(*Distance._fields, "gap"),
        lines=tuple(lines),
        best="",
        notes=("Medians over problems.",),
    )


def _problems(rows: Sequence[Row], found: PlanCells) -> Display:
    lines = []
    for row in rows:
        numbers = (
            *(Number(_digits(getattr(row, name))) for name in Distance._fields),
            Number(NONE if row.gap is None else _digits(row.gap)),
        )
        lines.append(Line((row.problem, row.link, row.label, str(row.m)), numbers))
    own = {(row.problem, row.link): row for row in rows}
    exact = [
        f"{problem}, {link}: log evidence {row.evidence:.2f} ± {row.evidence_error:.2f}; the reference's own error is "
        f"at most {row.mean_error:.3f} sd of a mean and {row.probability_error:.4f} of a probability."
        for (problem, link), row in own.items()
    ]
    failed = [
        f"{cell.shown.method} on {cell.shown.dataset}: {cell.problem.message if cell.problem else cell.status}."
        for cell in found.results
        if not cell.finished
    ]
    return Display(
        word_heads=("problem", "link", "method", "M"),
        number_heads=(*Distance._fields, "gap"),
        lines=tuple(lines),
        best="",
        notes=(*_NOTES, *exact, *failed, *plan_notes(found.plan)),
    )


def _size(row: Row) -> str:
    return "n" if row.whole else str(row.m)


def _digits(value: float) -> str:
    """Three significant digits."""
    if value == 0.0 or abs(value) >= 100.0:
        return f"{value:.0f}"
    decimals = min(max(2 - math.floor(math.log10(abs(value))), 0), 5)
    return f"{value:.{decimals}f}"
