"""``render = "scatter"``: one metric against another, or one method's predictions against another's.

With ``x`` and ``y`` in [figure] a mark is a series' mean over splits, marks of a method are joined in the order of the
swept sizes, and the smallest size has a ring around it (sheth2015, figures 3 and 4). With ``against`` a mark is a test
row: one method's latent mean, variance and probability against another's (wenzel2019, figure 1). Beside the picture
stands ``ITEM.csv``, its numbers.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from gpbench.bench.derived.stored import stored_arrays
from gpbench.errors import UsageError, unknown_name
from gpbench.report.figures.learning_curves import lost_cells, swept_name, upper_limit
from gpbench.report.figures.series import (
    Series,
    finish,
    handle,
    metric_label,
    new_figure,
    points_of,
    series_of,
    series_styles,
    write_picture,
)
from gpbench.report.figures.style import RC, time_axis
from gpbench.report.text import DRAWN, csv_text, printable
from gpbench.report.timed import comparable, where_taken

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpbench.bench.derived.stored import Arrays
    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.bench.plan.plan import Plan
    from gpbench.report.figures.style import Style

__all__ = ["QUANTITIES", "agreement", "render", "scatter"]

#: What is compared: the latent function's mean and variance, and the probability of the last class.
QUANTITIES = {"mean": "posterior mean", "variance": "posterior variance", "probability": "probability of the class"}

_TIMES = frozenset({"cpu_seconds", "train_seconds"})

Array = npt.NDArray[Any]
_Point = tuple[float, float, float]


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write the picture and its numbers; see :mod:`gpbench.report.plan.renderers`."""
    drawn, numbers = agreement(found) if "against" in found.plan.figure else scatter(found.plan, found.results)
    return write_picture(drawn, found, folder, numbers=numbers)


def scatter(plan: Plan, cells: Sequence[PlanResult]) -> tuple[Figure, str]:
    """The picture of metrics, and its numbers as csv.

    Raises
    ------
    UsageError
        No finished cells, or an unknown metric.
    """
    x = str(plan.figure.get("x", "cpu_seconds"))
    chosen = plan.figure.get("y", [name for name in plan.metrics if name not in _TIMES])
    ys = [chosen] if isinstance(chosen, str) else list(chosen)
    join = swept_name(plan, str(plan.figure.get("join", ""))) if plan.sweep else ""
    cells, apart = comparable(cells) if x in _TIMES else (list(cells), [])
    series = series_of(cells)
    finished = [cell for each in series for cell in each.finished]
    if not finished:
        raise UsageError("there are no finished cells to draw")
    panels: dict[tuple[int, str], list[Series]] = defaultdict(list)
    for each in series:
        panels[each.row, each.dataset].append(each)
    style = series_styles(series)
    rows: list[list[object]] = [["dataset", "label", *([join] if join else []), x, "metric", "value"]]
    with mpl.rc_context(RC):
        count = len(panels) * len(ys)
        columns = min(count, 3 if len(ys) == 1 else len(ys))
        drawn = new_figure(columns, -(-count // columns), width=3.2, height=2.6)
        number = 0
        for (_, dataset), own in panels.items():
            for y in ys:
                number += 1
                ax = drawn.add_subplot(-(-count // columns), columns, number)
                points = _points(plan, own, x=x, y=y, join=join)
                _panel(ax, points, style=style, is_time=x in _TIMES)
                ax.set_title(printable(dataset), loc="left")
                ax.set_xlabel(metric_label(x, finished))
                ax.set_ylabel(metric_label(y, [cell for each in own for cell in each.cells]))
                for label, found in points.items():
                    for size, left, value in found:
                        rows.append([dataset, label, *([size] if join else []), left, y, value])
        handles = [handle(label, each) for label, each in style.items()]
        notes = [f"Marks: {plan.centre} over splits."]
        if join:
            ring = Line2D([], [], linestyle="none", marker="o", markersize=8, markerfacecolor="none", color="#595959")
            ring.set_label("smallest size")
            handles.append(ring)
        if x in _TIMES:
            of_panels = {dataset: [c for each in own for c in each.finished] for (_, dataset), own in panels.items()}
            notes += [f"{where_taken(of_panels)}.", *apart]
        return finish(drawn, plan, handles, notes=notes + lost_cells(series)), csv_text(rows, digits=DRAWN)


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
        mine = style[label]
        lefts, values = [each[1] for each in own], [min(each[2], top) for each in own]
        ax.plot(lefts, values, color=mine.color, linestyle=mine.line, linewidth=1.1)
        for left, (_, _, value) in zip(lefts, own, strict=True):
            above = value > top
            mark = "^" if above else mine.marker
            ax.plot([left], [min(value, top)], mark, color=mine.color, markersize=4.2, clip_on=not above, zorder=3)
        if len(own) > 1:
            ax.plot(
                lefts[:1], values[:1], "o", color=mine.color, markersize=9, fillstyle="none", zorder=2, clip_on=False
            )
    lefts = [left for own in points.values() for _, left, _ in own]
    if is_time and lefts:
        time_axis(ax, (0.8 * max(min(lefts), 1e-6), 1.25 * max(*lefts, 1e-5)))
    ax.set_ylim(top=top)
    ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))


def agreement(found: PlanCells) -> tuple[Figure, str]:
    """The picture, a row of panels for each method and data set, and correlations and differences as csv.

    All splits that both finished are taken together.

    Raises
    ------
    UsageError
        [figure] names no such table or quantity, or no split was finished by two, on the same rows.
    NotComputed
        The predictions are not stored.
    """
    plan = found.plan
    against = str(plan.figure["against"])
    names = [each.name for each in plan.methods]
    if against not in names:
        raise unknown_name("table of [methods]", against, names)
    quantities = [str(name) for name in plan.figure.get("quantities", QUANTITIES)]
    for name in quantities:
        if name not in QUANTITIES:
            raise unknown_name("quantity", name, QUANTITIES)
    series = series_of(found.results)
    pairs = [
        (truth, other)
        for truth in series
        for other in series
        if truth.name == against and other.name != against and other.row == truth.row and _common(truth, other)
    ]
    if not pairs:
        raise UsageError(f"there is no split that {against} and another method have finished")
    arrays = stored_arrays(found)
    style = series_styles(series)
    rows: list[list[object]] = [
        ["dataset", "method", "against", "quantity", "rows", "correlation", "largest_difference", "rms"]
    ]
    with mpl.rc_context(RC):
        drawn = new_figure(len(quantities), len(pairs), width=2.9, height=2.9)
        for row, (truth, other) in enumerate(pairs):
            left, right = (_predictions(each, arrays) for each in zip(*_common(truth, other), strict=True))
            if len(left["mean"]) != len(right["mean"]):
                raise UsageError(f"{truth.label} and {other.label} were tested on different rows of {truth.dataset}")
            for column, name in enumerate(quantities):
                ax = drawn.add_subplot(len(pairs), len(quantities), row * len(quantities) + column + 1)
                x, y = left[name], right[name]
                low, high = min(x.min(), y.min()), max(x.max(), y.max())
                ax.plot([low, high], [low, high], color="#8c8c8c", linewidth=0.9)
                mine = style[other.label]
                ax.plot(x, y, mine.marker, color=mine.color, markersize=3, alpha=0.6, linestyle="none")
                ax.set_aspect("equal", adjustable="datalim")
                ax.set_title(QUANTITIES[name], loc="left")
                ax.set_xlabel(printable(truth.label))
                ax.set_ylabel(printable(other.label))
                correlation, largest = _correlation(x, y), float(np.abs(x - y).max())
                words = f"correlation {correlation:.4f}\nlargest difference {largest:.3g}"
                ax.text(0.03, 0.97, words, transform=ax.transAxes, va="top", fontsize=7, color="#404040")
                rms = float(np.sqrt(np.mean((x - y) ** 2)))
                numbers = [f"{value:.6g}" for value in (correlation, largest, rms)]  # sums differ between machines
                rows.append([truth.dataset, other.label, truth.label, name, len(x), *numbers])
        notes = ["A mark is a test row; all splits together."]
        return finish(drawn, plan, [], notes=notes), csv_text(rows, digits=DRAWN)


def _common(truth: Series, other: Series) -> list[tuple[PlanResult, PlanResult]]:
    by_unit = {cell.unit: cell for cell in other.finished}
    return [(cell, by_unit[cell.unit]) for cell in truth.finished if cell.unit in by_unit]


def _predictions(cells: Sequence[PlanResult], arrays: Arrays) -> dict[str, Array]:
    """Each quantity of the test rows of some cells, one after another."""
    found = {name: np.concatenate([arrays[f"{cell.key}/{name}"] for cell in cells]) for name in QUANTITIES}
    return {name: values.astype(np.float64) for name, values in found.items()}  # reference results are float32


def _correlation(x: Array, y: Array) -> float:
    if x.std() == 0.0 or y.std() == 0.0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])
