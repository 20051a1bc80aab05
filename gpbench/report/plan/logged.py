"""``render = "logged"``: NLL and error of all test rows, as wenzel2019's authors' code logs them, and as printed.

What that code logs is said in :func:`gpbench.bench.derived.steps.logged`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpbench.bench.derived.stored import stored_arrays
from gpbench.report.files import write_atomically
from gpbench.report.notes import plan_notes
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.pictured import logged_of
from gpbench.report.plan.table import HEADS
from gpbench.report.tables.lines import head_words
from gpbench.report.tables.table import ENDINGS, NONE, RENDERERS, Display, Line, write_tables
from gpbench.report.text import csv_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.plan.plan import Plan

__all__ = ["LoggedRow", "displays", "logged_rows", "render"]


@dataclass(frozen=True)
class LoggedRow:
    """A method's NLL or error on a data set, in three ways.

    Attributes
    ----------
    dataset, method : str
        Labels.
    metric : str
        ``nll`` or ``error``.
    splits, same : int
        Folds that ended well, and those of them in which all test rows are logged, whole.
    note : str
        Of :attr:`gpbench.report.plan.numbers.BlockNumbers.note`: what failed, is missing or was cut short.
    mean, sd : float or None
        Mean and standard deviation over folds, of all test rows.
    logged, logged_sd : float or None
        The same as it is logged.
    printed : str
        The paper's number with its standard deviation; empty where there is none.
    """

    dataset: str
    method: str
    metric: str
    splits: int
    same: int
    note: str
    mean: float | None
    sd: float | None
    logged: float | None
    logged_sd: float | None
    printed: str


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write ``table.txt``, ``table.md``, ``table.tex`` and ``table.csv``; see :mod:`gpbench.report.plan.renderers`."""
    rows = logged_rows(found, stored_arrays(found))
    shown = _display(found.plan, rows)
    written = write_tables(folder, lambda form: f"{head_words(found.plan, form)}\n\n{RENDERERS[form](shown)}")
    written.append(folder / f"table{ENDINGS['csv']}")
    write_atomically(
        written[-1], csv_text([list(LoggedRow.__dataclass_fields__), *(vars(row).values() for row in rows)])
    )
    return written


def displays(found: PlanCells) -> list[Display]:
    """The table.

    Raises
    ------
    NotComputed
        Its numbers are not stored.
    """
    return [_display(found.plan, logged_rows(found, stored_arrays(found)))]


def logged_rows(found: PlanCells, arrays: Mapping[str, npt.NDArray[np.generic]]) -> list[LoggedRow]:
    """A row for each data set, method and metric of which there are cells, in the plan's order."""
    rows = []
    for each in entries_of(found.plan, found.results):
        cells = [cell for cell in found.results if cell.shown.position == each.block.position]
        finished = [cell for cell in cells if cell.finished]
        for metric in found.plan.metrics if cells else ():
            entry, logged = each.entries.get(metric), logged_of(arrays, finished, metric)
            rows.append(
                LoggedRow(
                    dataset=cells[0].shown.dataset,
                    method=cells[0].shown.method,
                    metric=metric,
                    splits=len(finished),
                    same=logged.same,
                    note=each.note,
                    mean=logged.of_all["mean"],
                    sd=logged.of_all["sd"],
                    logged=logged.of_logged["mean"],
                    logged_sd=logged.of_logged["sd"],
                    printed="" if entry is None or entry.printed is None else entry.printed.text,
                )
            )
    return rows


def _display(plan: Plan, rows: Sequence[LoggedRow]) -> Display:
    lines = []
    for row in rows:
        count = str(row.splits) + (f" ({row.note})" if row.note else "")
        numbers = (_words(row.mean, row.sd), _words(row.logged, row.logged_sd), row.printed or NONE)
        head = HEADS.get(row.metric, row.metric)
        lines.append(Line((row.dataset, row.method, head, count, str(row.same), *numbers), ()))
    return Display(
        word_heads=("data set", "method", "metric", "folds", "all rows whole", "of all rows", "as logged", "printed"),
        number_heads=(),
        lines=tuple(lines),
        best="",
        notes=("Means ± one standard deviation over folds." if rows else "No cells.", *plan_notes(plan)),
        keys=4,
    )


def _words(mean: float | None, sd: float | None) -> str:
    if mean is None:
        return NONE
    return f"{mean:.3f}" + ("" if sd is None else f" ± {sd:.3f}")
