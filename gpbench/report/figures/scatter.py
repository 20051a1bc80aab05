"""``render = "scatter"``: one metric against another, or one method's predictions against another's.

With ``x`` and ``y`` in [figure] a mark is a series' mean over splits, marks of a method are joined in the order of the
swept sizes, and the smallest size has a ring around it (sheth2015, figures 3 and 4). With ``against`` a mark is a test
row, see :mod:`gpbench.report.figures.agreement` (wenzel2019, figure 1). Beside the picture stands ``ITEM.csv``, its
numbers.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from gpbench.errors import UsageError
from gpbench.report.figures.axes import STYLE, time_axis
from gpbench.report.figures.learning_curves import lost_cells, swept_name, upper_limit
from gpbench.report.figures.pictures import save_figure
from gpbench.report.files import write_atomically
from gpbench.report.plan.figure import close, handle, new_figure
from gpbench.report.plan.series import Series, looks, metric_label, points_of, series_of
from gpbench.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpbench.bench.plan.plan import Plan
    from gpbench.report.figures.palette import Style
    from gpbench.report.groups import Cell

__all__ = ["render", "scatter"]

_TIMES = frozenset({"cpu_seconds", "train_seconds"})

_Point = tuple[float, float, float]


def render(plan: Plan, cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Write the picture and its numbers; see :mod:`gpbench.report.plan.renderers`."""
    picture, numbers = folder / f"{plan.item}.png", folder / f"{plan.item}.csv"
    if "against" in plan.figure:
        from gpbench.report.figures.agreement import agreement  # noqa: PLC0415  # it needs data and posteriors

        drawn, text = agreement(plan, cells)
    else:
        drawn, text = scatter(plan, cells)
    save_figure(drawn, picture)
    write_atomically(numbers, text)
    return [picture, numbers]


def scatter(plan: Plan, cells: Sequence[Cell]) -> tuple[Figure, str]:
    """The picture of metrics, and its numbers as csv.

    Raises
    ------
    UsageError
        No finished cells, an unknown metric, or times of different processors.
    """
    x = str(plan.figure.get("x", "cpu_seconds"))
    chosen = plan.figure.get("y", [name for name in plan.metrics if name not in _TIMES])
    ys = [chosen] if isinstance(chosen, str) else list(chosen)
    join = swept_name(plan, str(plan.figure.get("join", ""))) if plan.sweep else ""
    series = series_of(cells)
    finished = [cell for each in series for cell in each.finished]
    if not finished:
        raise UsageError("there are no finished cells to draw")
    cpus = sorted({str(cell["provenance"].get("cpu", "unknown")) for cell in finished})
    if x in _TIMES and len(cpus) > 1:
        raise UsageError(f"times need cells of one processor; these ran on {len(cpus)} ({'; '.join(cpus)})")
    panels: dict[tuple[int, str], list[Series]] = defaultdict(list)
    for each in series:
        panels[each.row, each.dataset].append(each)
    style = looks(series)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["dataset", "label", *([join] if join else []), x, "metric", "value"])
    with mpl.rc_context(STYLE):
        count = len(panels) * len(ys)
        columns = min(count, 3 if len(ys) == 1 else len(ys))
        drawn = new_figure(columns, -(-count // columns), width=3.2, height=2.6)
        place = 0
        for (_, dataset), own in panels.items():
            for y in ys:
                place += 1
                ax = drawn.add_subplot(-(-count // columns), columns, place)
                points = _points(plan, own, x=x, y=y, join=join)
                _panel(ax, points, style=style, is_time=x in _TIMES)
                ax.set_title(printable(dataset), loc="left")
                ax.set_xlabel(metric_label(x, finished))
                ax.set_ylabel(metric_label(y, [cell for each in own for cell in each.cells]))
                for label, found in points.items():
                    for size, left, value in found:
                        writer.writerow([dataset, label, *([size] if join else []), left, y, value])
        handles = [handle(label, each) for label, each in style.items()]
        notes = [f"Marks: {plan.centre} over splits."]
        if join:
            ring = Line2D([], [], linestyle="none", marker="o", markersize=8, markerfacecolor="none", color="#595959")
            ring.set_label("smallest size")
            handles.append(ring)
        if x in _TIMES:
            notes.append(f"Times were taken on {cpus[0]}.")
        return close(drawn, plan, handles, notes=notes + lost_cells(series)), file.getvalue()


def _points(plan: Plan, series: Sequence[Series], *, x: str, y: str, join: str) -> dict[str, list[_Point]]:
    """Size, x and y of each series by label, in the order of the sizes."""
    found: dict[str, list[_Point]] = defaultdict(list)
    for each in series:
        left, right = points_of(plan, each, x).value, points_of(plan, each, y).value
        if left is not None and right is not None:
            found[each.label].append((float(each.sweep.get(join, 0)), left, right))
    return {label: sorted(points) for label, points in found.items()}


def _panel(ax: Axes, points: Mapping[str, Sequence[_Point]], *, style: Mapping[str, Style], is_time: bool) -> None:
    top = upper_limit([value for own in points.values() for _, _, value in own])
    for label, own in points.items():
        look = style[label]
        lefts, values = [each[1] for each in own], [min(each[2], top) for each in own]
        ax.plot(lefts, values, color=look.color, linestyle=look.line, linewidth=1.1)
        for left, (_, _, value) in zip(lefts, own, strict=True):
            above = value > top
            mark = "^" if above else look.marker
            ax.plot([left], [min(value, top)], mark, color=look.color, markersize=4.2, clip_on=not above, zorder=3)
        if len(own) > 1:
            ax.plot(
                lefts[:1], values[:1], "o", color=look.color, markersize=9, fillstyle="none", zorder=2, clip_on=False
            )
    lefts = [left for own in points.values() for _, left, _ in own]
    if is_time and lefts:
        time_axis(ax, (0.8 * max(min(lefts), 1e-6), 1.25 * max(*lefts, 1e-5)))
    ax.set_ylim(top=top)
    ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
