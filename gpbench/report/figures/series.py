"""What the pictures of plans are made of: cells as series with their points, and the frame around the panels.

A series is one variant of a method on one data set, its swept values apart. The frame is the size of the panels, the
plan's name above them, the legend and the notes that must be read with them below.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from gpbench.errors import UsageError
from gpbench.report.figures.style import (
    AXIS_LABELS,
    LEGEND_ROW,
    TITLE_ROW,
    fit_legend,
    log_axis,
    picture_bytes,
    styles,
    wrapped_title,
)
from gpbench.report.files import write_atomically
from gpbench.report.notes import head_notes, plan_notes
from gpbench.report.tables.summary import over_splits, value_of
from gpbench.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.result import Result
    from gpbench.report.figures.style import Style

__all__ = [
    "Point",
    "Series",
    "axis_of_sizes",
    "finish",
    "handle",
    "metric_label",
    "new_figure",
    "points_of",
    "series_of",
    "series_styles",
    "write_picture",
]

#: Likelihood -> label of the error's axis, which depends on the task.
_ERRORS = {"poisson": "mean fractional error", "ordinal": "mean zero-one error"}


@dataclass(frozen=True, eq=False)
class Series:
    """One block of a plan with its cells.

    Attributes
    ----------
    dataset : str
        As the plan shows it.
    row : int
        The data set's position in the plan.
    method : str
        Id.
    name, label : str
        The table of [methods], and the variant as the plan shows it without swept values.
    sweep : mapping
        Swept values.
    column : int
        The variant's position in the plan.
    cells : tuple of PlanResult
        Failed ones too.
    """

    dataset: str
    row: int
    method: str
    name: str
    label: str
    sweep: Mapping[str, Any] = field(hash=False)
    column: int
    cells: tuple[PlanResult, ...]

    @property
    def finished(self) -> tuple[PlanResult, ...]:
        """The cells that ended well."""
        return tuple(cell for cell in self.cells if cell.finished)


@dataclass(frozen=True)
class Point:
    """A number over splits: centre and half width (None for one split), and how many cells there are.

    ``value`` is None where no cell ended well, or one's number is not finite.
    """

    value: float | None
    width: float | None
    finished: int
    cells: int


def series_of(cells: Sequence[PlanResult]) -> list[Series]:
    """Series in the plan's order; cells are those that a renderer is given."""
    members: dict[tuple[int, int], list[PlanResult]] = defaultdict(list)
    for cell in cells:
        members[cell.shown.position].append(cell)
    found = []
    for (row, column), own in sorted(members.items()):
        shown = own[0].shown
        found.append(
            Series(
                dataset=shown.dataset,
                row=row,
                method=own[0].method,
                name=shown.name,
                label=shown.variant,
                sweep=shown.sweep,
                column=column,
                cells=tuple(own),
            )
        )
    return found


def series_styles(series: Sequence[Series]) -> dict[str, Style]:
    """A style for each label."""
    return styles((each.method, each.label) for each in series)


def points_of(plan: Plan, series: Series, metric: str) -> Point:
    """Centre and half width over splits, as the plan asks for them."""
    values = [value_of(cell, metric) for cell in series.finished]
    centre, width, _ = over_splits(values, centre=plan.centre, spread=plan.spread)
    return Point(centre, width, len(series.finished), len(series.cells))


def metric_label(metric: str, cells: Sequence[Result]) -> str:
    """Label of a metric's axis for some cells of one task.

    Raises
    ------
    UsageError
        There is no such metric.
    """
    if metric not in AXIS_LABELS:
        raise UsageError(f"expected a metric of {', '.join(AXIS_LABELS)}; got {metric!r}")
    if metric == "error":
        kinds = {_ERRORS.get(cell.likelihood, AXIS_LABELS["error"]) for cell in cells}
        return kinds.pop() if len(kinds) == 1 else AXIS_LABELS["error"]
    return AXIS_LABELS[metric]


#: Inches of a line of notes, and of a row of the legend.
_LINE, _ENTRY = 0.125, 0.2


def new_figure(columns: int, rows: int, *, width: float, height: float) -> Figure:
    """A figure of panels of a size in inches; :func:`finish` makes room for legend and notes."""
    size = (max(width * columns + 0.3, 5.0), height * rows + 0.4)
    return Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.05))


def handle(label: str, style: Style) -> Line2D:
    """A method in the legend."""
    return Line2D(
        [], [], color=style.color, linestyle=style.line, marker=style.marker, markersize=4.0, label=printable(label)
    )


def finish(drawn: Figure, plan: Plan, handles: Sequence[Artist], *, notes: Sequence[str] = ()) -> Figure:
    """Put the plan's name above, the legend and all notes below."""
    head, *cut = head_notes(plan)
    width = drawn.get_figwidth()
    title = wrapped_title(head, width)
    drawn.suptitle("\n".join(title), x=0.01, ha="left", fontsize=10, fontweight="bold")
    lines = [*cut, *notes, *plan_notes(plan)]
    wide = max(40, int(width * 19))
    text = [line for note in lines for line in textwrap.wrap(printable(note), wide)]
    blank = Line2D([], [], linestyle="none", label=" ")
    shown = list(handles) or [blank]
    columns, labels, high = fit_legend([str(one.get_label()) for one in shown], width, most=max(1, int(width / 1.7)))
    below = _LINE * len(text) + _ENTRY / LEGEND_ROW * high
    drawn.set_figheight(drawn.get_figheight() + TITLE_ROW * (len(title) - 1) + below)
    legend = drawn.legend(
        handles=shown,
        labels=labels,
        loc="outside lower left",
        ncols=columns,
        title="\n".join(text),
        title_fontsize=7,
        alignment="left",
    )
    legend.get_title().set_color("#595959")
    return drawn


def write_picture(drawn: Figure, found: PlanCells, folder: Path, *, numbers: str = "") -> list[Path]:
    """Write a plan's picture as ``ITEM.png`` and what else is wanted, and its numbers, if any, as ``ITEM.csv``.

    Raises
    ------
    StoreError
        A file cannot be written.
    """
    item = found.plan.item
    written = {folder / f"{item}{ending}": picture_bytes(drawn, ending) for ending in found.pictures}
    if numbers:
        written[folder / f"{item}.csv"] = numbers.encode("utf-8")
    for path, content in written.items():
        write_atomically(path, content)
    return list(written)


def axis_of_sizes(ax: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic with a tick at each of the values that stand far enough apart."""
    ticks: list[float] = []
    for value in sorted(set(values)):
        if not ticks or value / ticks[-1] >= (max(values) / min(values)) ** 0.08:
            ticks.append(value)
    log_axis(ax, "x", at=FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
