"""``render = "panels"``: two-dimensional data, inducing inputs and decision boundaries; methods by sizes.

A row of panels for each method, a column for each value of the swept name; tables of [methods] that are not swept, such
as the full schemes, stand in the last column where [figure] ``last`` says so. Drawn are the training rows of the first
split, coloured by class, the inducing inputs (hollow in their class's colour where each class has its own, or where
they are many) and how many of them lie outside, and where the predicted class changes as black lines. The axes are the
inputs as the methods see them, scaled if the plan scales them. Beside the picture stands ``ITEM.csv``: the NLL,
inducing inputs and boundaries in numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.lines import Line2D

from gpbench.bench.derived.stored import stored_arrays
from gpbench.bench.plan.blocks import SYMBOLS
from gpbench.errors import UsageError, unknown_name
from gpbench.report.figures.learning_curves import lost_cells, swept_name
from gpbench.report.figures.series import Series, finish, new_figure, series_of, write_picture
from gpbench.report.figures.style import CLASS_COLORS, RC
from gpbench.report.text import DRAWN, csv_text, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpbench.bench.derived.stored import Arrays
    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.plan.plan import Plan

__all__ = ["panel_rows", "panels", "render"]

Array = npt.NDArray[Any]

#: Inducing inputs of a panel; more are drawn smaller and hollow.
_MANY = 48


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write the picture; see :mod:`gpbench.report.plan.renderers`."""
    return write_picture(panels(found), found, folder, numbers=_csv(found))


def panels(found: PlanCells) -> Figure:
    """The picture.

    Raises
    ------
    UsageError
        No finished cells, or options that name nothing.
    NotComputed
        The grids are not stored.
    """
    rows, titles = panel_rows(found.plan, series_of(found.results))
    known = [each for row in rows for each in row if each is not None]
    if not any(each.finished for each in known):
        raise UsageError("there are no finished cells to draw")
    arrays = stored_arrays(found)
    with mpl.rc_context(RC):
        drawn = new_figure(len(titles), len(rows), width=1.75, height=1.85)
        for number, row in enumerate(rows):
            for column, each in enumerate(row):
                ax = drawn.add_subplot(len(rows), len(titles), number * len(titles) + column + 1)
                _frame(ax, arrays["box"])
                if number == 0:
                    ax.set_title(printable(titles[column]))
                if column == 0:
                    ax.set_ylabel(_row_title(row))
                if each is not None:
                    _panel(ax, each, arrays)
                    if column == len(row) - 1 and each.label != _row_title(row):  # a full scheme beside a sparse one
                        ax.text(0.03, 0.97, printable(each.label), transform=ax.transAxes, va="top", fontsize=7)
        own = any(len(_inducing(each.finished[0].key, arrays)) > 1 for each in known if each.finished)
        handles = _handles(arrays["classes"], own=own)
        notes = ["Training rows of the first split, as the methods see them. Below each panel: test NLL of this split."]
        return finish(drawn, found.plan, handles, notes=notes + lost_cells(known))


def panel_rows(plan: Plan, series: Sequence[Series]) -> tuple[list[list[Series | None]], list[str]]:
    """Rows of series for the panels, and the columns' titles.

    Raises
    ------
    UsageError
        ``last`` names no table of [methods], or there are more than rows.
    """
    x = swept_name(plan, str(plan.figure.get("columns", "")))
    last = [str(name) for name in plan.figure.get("last", [])]
    tables = [each.name for each in plan.methods]
    for name in last:
        if name not in tables:
            raise unknown_name("table of [methods]", name, tables)
    names = [name for name in tables if name not in last]
    if len(last) > len(names):
        raise UsageError(f"{plan.path}: [figure]: last has {len(last)} tables for {len(names)} rows")
    values = list(dict.fromkeys(each.sweep[x] for each in series if x in each.sweep))
    known = {(each.name, each.sweep.get(x)): each for each in series}
    rows = [[known.get((name, value)) for value in values] for name in names]
    titles = [f"{SYMBOLS.get(x, x)} = {value}" for value in values]
    if last:
        titles.append(str(plan.figure.get("last_title", "full")))
        for number, row in enumerate(rows):
            row.append(known.get((last[number], None)) if number < len(last) else None)
    return rows, titles


def _row_title(row: Sequence[Series | None]) -> str:
    return next((printable(each.label) for each in row if each is not None), "")


def _frame(ax: Axes, box: Array) -> None:
    ax.set_xlim(box[0][0], box[1][0])
    ax.set_ylim(box[0][1], box[1][1])
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_visible(True)


def _panel(ax: Axes, series: Series, arrays: Arrays) -> None:
    X, y = arrays["X"], arrays["y"]
    for label in arrays["classes"]:
        mine = y == label
        color = CLASS_COLORS[int(label) % len(CLASS_COLORS)]
        ax.plot(X[mine, 0], X[mine, 1], ".", color=color, markersize=2.4, alpha=0.55, markeredgewidth=0)
    if not series.finished:
        ax.text(
            0.5, 0.5, "failed", transform=ax.transAxes, ha="center", va="center", color="#a33c00", fontweight="bold"
        )
        return
    cell = series.finished[0]
    for margin in arrays[f"{cell.key}/margins"]:  # lines where one class's probability passes all others'
        if margin.min() < 0.0 < margin.max():
            ax.contour(*arrays["grid"], margin, levels=[0.0], colors="black", linewidths=1.3)
    sets = _inducing(cell.key, arrays)
    total = sum(map(len, sets))
    size = 3.4 if total <= _MANY else 2.2
    for number, Z in enumerate(sets):
        if len(sets) == 1:
            look: Any = {"markerfacecolor": "black" if total <= _MANY else "none", "markeredgewidth": 0.5}
            look["markeredgecolor"] = "white" if total <= _MANY else "black"
        else:  # each class has its own: hollow, so that they hide no rows, in the class's colour
            color = CLASS_COLORS[number % len(CLASS_COLORS)]
            look = {"markerfacecolor": "none", "markeredgecolor": color, "markeredgewidth": 0.9}
        ax.plot(Z[:, 0], Z[:, 1], "o", markersize=size, linestyle="none", zorder=4, **look)
    low, high = arrays["box"]
    outside = sum(int((np.less(Z, low) | np.greater(Z, high)).any(axis=1).sum()) for Z in sets)
    nll = cell.metrics["nll"]
    words = f"NLL {nll:.3f}" if nll is not None else "NLL not finite"
    words += f", {outside} of {total} outside" if outside else ""
    ax.set_xlabel(words, fontsize=7.5, labelpad=2)


def _inducing(key: str, arrays: Arrays) -> list[Array]:
    """The inducing inputs of a cell, for each of its latent functions that has its own."""
    found: list[Array] = []
    while (Z := arrays.get(f"{key}/inducing/{len(found)}")) is not None:
        found.append(Z)
    return found


def _csv(found: PlanCells) -> str:
    """What is drawn of each panel, in numbers; a boundary by the share of the box that lies on its positive side."""
    arrays = stored_arrays(found)
    rows: list[list[object]] = [["dataset", "label", "nll", "inducing", "class", "share"]]
    for each in series_of(found.results):
        for cell in each.finished[:1]:
            count = sum(len(Z) for Z in _inducing(cell.key, arrays))
            rows += [
                [each.dataset, each.label, cell.metrics["nll"], count, number + 1, float((margin > 0.0).mean())]
                for number, margin in enumerate(arrays[f"{cell.key}/margins"])
            ]
    return csv_text(rows, digits=DRAWN)


def _handles(labels: Array, *, own: bool) -> list[Line2D]:
    """The legend; ``own``: each class has inducing inputs of its own."""
    classes = [
        Line2D([], [], linestyle="none", marker="o", markersize=5, label=f"class {label + 1}",
               color=CLASS_COLORS[label % len(CLASS_COLORS)])
        for label in map(int, labels)
    ]  # fmt: skip
    inducing = Line2D([], [], linestyle="none", marker="o", markersize=5, color="black", label="inducing inputs")
    if own:
        inducing.set_markerfacecolor("none")
        inducing.set_label("inducing inputs of a class, in its colour")
    return [*classes, inducing, Line2D([], [], color="black", label="decision boundary")]
