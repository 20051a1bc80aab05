"""``render = "learning-curves"``: a metric against a swept size, such as that of the active set; a panel a data set.

Marks are means over splits (or medians), bars their spread. Curves are moved a little sideways so that bars can be told
apart. What lies above a panel's axis is a triangle at its edge, as in sheth2015's figure 2. Beside the picture stands
``ITEM.csv`` with its numbers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.ticker import MaxNLocator

from gpbench.bench.plan.blocks import SYMBOLS
from gpbench.errors import UsageError
from gpbench.report.figures.series import (
    Point,
    Series,
    axis_of_sizes,
    finish,
    handle,
    metric_label,
    new_figure,
    points_of,
    series_of,
    series_styles,
    write_picture,
)
from gpbench.report.figures.style import RC
from gpbench.report.text import DRAWN, csv_text, printable
from gpbench.report.traces import SPREADS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.bench.plan.plan import Plan
    from gpbench.report.figures.style import Style

__all__ = ["learning_curves", "lost_cells", "render", "swept_name", "upper_limit"]

#: How far the curves of a panel are moved apart in all, as a factor.
_APART = 1.12


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write the picture and its numbers; see :mod:`gpbench.report.plan.renderers`."""
    numbers = _csv(found.plan, series_of(found.results))
    return write_picture(learning_curves(found.plan, found.results), found, folder, numbers=numbers)


def learning_curves(plan: Plan, cells: Sequence[PlanResult]) -> Figure:
    """The picture.

    Raises
    ------
    UsageError
        No finished cells, or [figure] x is no swept name.
    """
    x = swept_name(plan, str(plan.figure.get("x", "")))
    series = [each for each in series_of(cells) if x in each.sweep]
    metrics = [name for name in plan.metrics if name != "train_seconds"]
    if not any(each.finished for each in series):
        raise UsageError("there are no finished cells to draw")
    panels: dict[tuple[int, str], dict[str, list[Series]]] = defaultdict(lambda: defaultdict(list))
    for each in series:
        panels[each.row, each.dataset][each.label].append(each)
    style = series_styles(series)
    with mpl.rc_context(RC):
        per_row = max(1, 3 // len(metrics)) * len(metrics)
        count = len(panels) * len(metrics)
        columns = min(count, per_row)
        drawn = new_figure(columns, -(-count // columns), width=3.1, height=2.5)
        number = 0
        for (_, dataset), curves in panels.items():
            for metric in metrics:
                number += 1
                ax = drawn.add_subplot(-(-count // columns), columns, number)
                _panel(ax, plan, curves, metric=metric, x=x, style=style)
                ax.set_title(printable(dataset), loc="left")
        notes = [f"{'Mean' if plan.centre == 'mean' else 'Median'} over splits; bars: {SPREADS[plan.spread]}."]
        return finish(
            drawn, plan, [handle(label, each) for label, each in style.items()], notes=notes + lost_cells(series)
        )


def swept_name(plan: Plan, name: str) -> str:
    """The swept name that [figure] asks for; the first one by default.

    Raises
    ------
    UsageError
        There is none of that name, or none at all.
    """
    if name in plan.sweep:
        return name
    if name or not plan.sweep:
        raise UsageError(f"{plan.path}: [figure]: x must be a name under [sweep]; got {name!r}")
    return next(iter(plan.sweep))


def _panel(
    ax: Axes,
    plan: Plan,
    curves: Mapping[str, Sequence[Series]],
    *,
    metric: str,
    x: str,
    style: Mapping[str, Style],
) -> None:
    found = {
        label: sorted((float(each.sweep[x]), points_of(plan, each, metric)) for each in own)
        for label, own in curves.items()
    }
    top = upper_limit([point.value for own in found.values() for _, point in own if point.value is not None])
    sizes = [size for own in found.values() for size, _ in own]
    for rank, (label, own) in enumerate(found.items()):
        shift = _APART ** (rank / max(len(found) - 1, 1) - 0.5)
        _curve(ax, [(size * shift, point) for size, point in own], style[label], top=top)
    axis_of_sizes(ax, sizes)
    ax.set_ylim(top=top)
    ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    ax.set_xlabel({"M": "M", "n": "training rows n"}.get(SYMBOLS.get(x, x), printable(x)))
    ax.set_ylabel(metric_label(metric, [cell for own in curves.values() for each in own for cell in each.cells]))


def _curve(ax: Axes, points: Sequence[tuple[float, Point]], style: Style, *, top: float) -> None:
    known = [(size, point.value, point.width) for size, point in points if point.value is not None]
    inside = [each for each in known if each[1] <= top]
    ax.plot([each[0] for each in known], [each[1] for each in known], color=style.color, linestyle=style.line, lw=1.2)
    ax.errorbar(
        [each[0] for each in inside],
        [each[1] for each in inside],
        [each[2] or 0.0 for each in inside],
        fmt=style.marker,
        color=style.color,
        markersize=3.6,
        elinewidth=0.8,
        capsize=1.5,
    )
    above = [each[0] for each in known if each[1] > top]
    if above:
        ax.plot(above, [top] * len(above), "^", color=style.color, markersize=5, clip_on=False, zorder=4)


def upper_limit(values: Sequence[float]) -> float:
    """Above the best half of all values by three times their range, or above all where none is farther out."""
    if not values:
        return 1.0
    ordered = sorted(values)
    low, middle, high = ordered[0], ordered[len(ordered) // 2], ordered[-1]
    scale = max(middle - low, 0.05 * abs(middle), 1e-3)
    reach = min(high, middle + 3.0 * scale)
    return reach + 0.08 * max(reach - low, scale)


def lost_cells(series: Sequence[Series]) -> list[str]:
    """A note on failed cells; none where there are none."""
    lost: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for each in series:
        lost[each.label, each.dataset][0] += len(each.cells) - len(each.finished)
        lost[each.label, each.dataset][1] += len(each.cells)
    words = [f"{label} on {dataset} {bad}/{all_}" for (label, dataset), (bad, all_) in lost.items() if bad]
    return [f"Failed cells: {'; '.join(words)}."] if words else []


def _csv(plan: Plan, series: Sequence[Series]) -> str:
    names = list(plan.sweep)
    rows: list[list[object]] = [
        ["dataset", "method", "label", *names, "cells", "failed", "metric", plan.centre, plan.spread]
    ]
    for each in series:
        for metric in (*plan.metrics, "cpu_seconds"):
            point = points_of(plan, each, metric)
            swept = [each.sweep.get(name) for name in names]
            lost = point.cells - point.finished
            numbers = [value if value is None or math.isfinite(value) else None for value in (point.value, point.width)]
            rows.append([each.dataset, each.method, each.label, *swept, point.cells, lost, metric, *numbers])
    return csv_text(rows, digits=DRAWN)
