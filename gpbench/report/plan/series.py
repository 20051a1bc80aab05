"""The cells of a plan as series: one variant of a method on one data set, its swept values apart."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any

from gpbench.errors import UsageError
from gpbench.report.figures.palette import styles
from gpbench.report.groups import OK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.plan import Plan
    from gpbench.report.figures.palette import Style
    from gpbench.report.groups import Cell

__all__ = ["Point", "Series", "looks", "metric_label", "points_of", "series_of", "value_of"]

#: Metric -> label of its axis; the error's depends on the task.
LABELS = {
    "nll": "test NLL (nats)",
    "error": "test error",
    "accuracy": "test accuracy",
    "brier": "Brier score",
    "ece": "calibration error",
    "train_seconds": "training time (s)",
    "cpu_seconds": "processor time (s)",
    "bound": "bound (nats)",
}
_ERRORS = {"poisson": "mean fractional error", "ordinal": "mean zero-one error"}


@dataclass(frozen=True, eq=False)
class Series:
    """One block of a plan with its cells.

    Attributes
    ----------
    dataset : str
        As the plan shows it.
    row : int
        Its place in the plan.
    method : str
        Id.
    name, label : str
        The table of [methods], and the variant as the plan shows it without swept values.
    sweep : mapping
        Swept values.
    place : int
        Of the variant in the plan.
    cells : tuple of dict
        Failed ones too.
    """

    dataset: str
    row: int
    method: str
    name: str
    label: str
    sweep: Mapping[str, Any] = field(hash=False)
    place: int
    cells: tuple[Cell, ...]

    @property
    def finished(self) -> tuple[Cell, ...]:
        """The cells that ended well."""
        return tuple(cell for cell in self.cells if cell["status"] == OK)


@dataclass(frozen=True)
class Point:
    """A number over splits: centre and half width (None for one split), and how many cells there are.

    ``value`` is None where no cell ended well, or one's number is not finite.
    """

    value: float | None
    width: float | None
    finished: int
    cells: int


def series_of(cells: Sequence[Cell]) -> list[Series]:
    """Series in the plan's order; cells are those that a renderer is given."""
    members: dict[tuple[int, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        row, column = cell["shown"]["place"]
        members[row, column].append(cell)
    found = []
    for (row, column), own in sorted(members.items()):
        shown = own[0]["shown"]
        found.append(
            Series(
                dataset=shown["dataset"],
                row=row,
                method=own[0]["method"],
                name=shown["name"],
                label=shown["variant"],
                sweep=shown["sweep"],
                place=column,
                cells=tuple(own),
            )
        )
    return found


def looks(series: Sequence[Series]) -> dict[str, Style]:
    """A style for each label."""
    return styles((each.method, each.label) for each in series)


def points_of(plan: Plan, series: Series, metric: str) -> Point:
    """Centre and half width over splits, as the plan asks for them."""
    values = [value_of(cell, metric) for cell in series.finished]
    known = [value for value in values if value is not None and math.isfinite(value)]
    counts = len(series.finished), len(series.cells)
    if not known or len(known) < len(values):
        return Point(None, None, *counts)
    centre = fmean(known) if plan.centre == "mean" else median(known)
    if len(known) == 1:
        return Point(centre, None, *counts)
    width = stdev(known) * (2.0 if plan.spread.startswith("2") else 1.0)
    return Point(centre, width / math.sqrt(len(known)) if plan.spread.endswith("se") else width, *counts)


def value_of(cell: Cell, metric: str) -> float | None:
    """A cell's number."""
    metrics = cell["metrics"]
    if metric == "accuracy":
        return None if metrics.get("error") is None else 1.0 - metrics["error"]
    value: float | None = metrics.get(metric)
    return value


def metric_label(metric: str, cells: Sequence[Cell]) -> str:
    """Label of a metric's axis for some cells of one task.

    Raises
    ------
    UsageError
        There is no such metric.
    """
    if metric not in LABELS:
        raise UsageError(f"expected a metric of {', '.join(LABELS)}; got {metric!r}")
    if metric == "error":
        kinds = {_ERRORS.get(str(cell.get("likelihood")), LABELS["error"]) for cell in cells}
        return kinds.pop() if len(kinds) == 1 else LABELS["error"]
    return LABELS[metric]
