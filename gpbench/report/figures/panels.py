"""``render = "panels"``: two-dimensional data, inducing inputs and decision boundaries; methods by sizes.

A row of panels for each method, a column for each value of the swept name; tables of [methods] that are not swept, such
as the full schemes, stand in the last column where [figure] ``last`` says so. Drawn are the training rows of the first
split, coloured by class, the inducing inputs as black-rimmed dots, and where the predicted class changes as black lines
(the axes are the inputs as the methods see them, scaled if the plan scales them).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.lines import Line2D

from gpbench.bench.plan.blocks import SYMBOLS
from gpbench.errors import UsageError, unknown_name
from gpbench.report.figures.axes import STYLE
from gpbench.report.figures.learning_curves import lost_cells, swept_name
from gpbench.report.figures.palette import CLASS_COLORS
from gpbench.report.figures.pictures import save_figure
from gpbench.report.plan.figure import close, new_figure
from gpbench.report.plan.rows import posterior_of, rows_of
from gpbench.report.plan.series import Series, series_of
from gpbench.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpbench.bench.division import Division
    from gpbench.bench.plan.plan import Plan
    from gpbench.report.groups import Cell

__all__ = ["grid_of", "panels", "render"]

#: Grid points along each axis.
_STEPS = 160
#: Training rows that are drawn at most.
_MOST = 1500

Array = npt.NDArray[Any]


def render(plan: Plan, cells: Sequence[Cell], folder: Path) -> list[Path]:
    """Write the picture; see :mod:`gpbench.report.plan.renderers`."""
    picture = folder / f"{plan.item}.png"
    save_figure(panels(plan, cells), picture)
    return [picture]


def panels(plan: Plan, cells: Sequence[Cell]) -> Figure:
    """The picture.

    Raises
    ------
    UsageError
        No finished cells, data that are not two-dimensional, or options that name nothing.
    DataError
        The data set, or a posterior, cannot be had.
    """
    rows, titles = grid_of(plan, series_of(cells))
    known = [each for row in rows for each in row if each is not None]
    if not any(each.finished for each in known):
        raise UsageError("there are no finished cells to draw")
    first = next(each.finished[0] for each in known if each.finished)
    division = rows_of(plan, first)
    X = np.asarray(division.X)
    if X.shape[1] != 2:
        raise UsageError(f"panels show data of two dimensions; {known[0].dataset} has {X.shape[1]}")
    low, high = X.min(axis=0), X.max(axis=0)
    room = 0.06 * (high - low)
    box = (low - room, high + room)
    with mpl.rc_context(STYLE):
        drawn = new_figure(len(titles), len(rows), width=1.75, height=1.85)
        for place, row in enumerate(rows):
            for column, each in enumerate(row):
                ax = drawn.add_subplot(len(rows), len(titles), place * len(titles) + column + 1)
                _frame(ax, box)
                if place == 0:
                    ax.set_title(printable(titles[column]))
                if column == 0:
                    ax.set_ylabel(_row_title(row))
                if each is not None:
                    _panel(ax, each, division, box)
                    if column == len(row) - 1 and each.label != _row_title(row):  # a full scheme beside a sparse one
                        ax.text(0.03, 0.97, printable(each.label), transform=ax.transAxes, va="top", fontsize=7)
        handles = _handles(division)
        notes = ["Training rows of the first split, as the methods see them. Below each panel: test NLL of this split."]
        return close(drawn, plan, handles, notes=notes + lost_cells(known))


def grid_of(plan: Plan, series: Sequence[Series]) -> tuple[list[list[Series | None]], list[str]]:
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
        for place, row in enumerate(rows):
            row.append(known.get((last[place], None)) if place < len(last) else None)
    return rows, titles


def _row_title(row: Sequence[Series | None]) -> str:
    return next((printable(each.label) for each in row if each is not None), "")


def _frame(ax: Axes, box: tuple[Array, Array]) -> None:
    ax.set_xlim(box[0][0], box[1][0])
    ax.set_ylim(box[0][1], box[1][1])
    ax.set_xticks([])
    ax.set_yticks([])
    for side in ax.spines.values():
        side.set_visible(True)


def _panel(ax: Axes, series: Series, division: Division, box: tuple[Array, Array]) -> None:
    X, y = np.asarray(division.X)[:_MOST], division.y[:_MOST]
    for label in np.unique(division.y):
        mine = y == label
        color = CLASS_COLORS[int(label) % len(CLASS_COLORS)]
        ax.plot(X[mine, 0], X[mine, 1], ".", color=color, markersize=2.4, alpha=0.55, markeredgewidth=0)
    if not series.finished:
        ax.text(
            0.5, 0.5, "failed", transform=ax.transAxes, ha="center", va="center", color="#a33c00", fontweight="bold"
        )
        return
    cell = series.finished[0]
    posterior = posterior_of(cell)
    axes = [np.linspace(box[0][side], box[1][side], _STEPS) for side in (0, 1)]
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    p = posterior.predict(grid.reshape(-1, 2)).values.reshape(_STEPS, _STEPS, -1)
    _boundaries(ax, axes, p)
    if shown := _inducing(posterior, cell, len(division.X)):
        for Z in shown:
            ax.plot(
                Z[:, 0], Z[:, 1], "o", markersize=3.4, markerfacecolor="black", markeredgecolor="white",
                markeredgewidth=0.5, linestyle="none", zorder=4,
            )  # fmt: skip
    nll = cell["metrics"]["nll"]
    ax.set_xlabel(f"NLL {nll:.3f}" if nll is not None else "NLL not finite", fontsize=7.5, labelpad=2)


def _boundaries(ax: Axes, axes: Sequence[Array], p: Array) -> None:
    """Lines where one class's probability rises above all others'."""
    for label in range(p.shape[2] - (p.shape[2] == 2)):  # two classes share their line
        margin = p[:, :, label] - np.delete(p, label, axis=2).max(axis=2)
        if margin.min() < 0.0 < margin.max():
            ax.contour(axes[0], axes[1], margin, levels=[0.0], colors="black", linewidths=1.3)


def _inducing(posterior: object, cell: Cell, n: int) -> list[Array]:
    """The inducing inputs, once where the latent functions share them; none of a full scheme."""
    found: list[Array] = []
    for latent in getattr(posterior, "latents", ()):
        Z = np.asarray(latent.Z)
        if len(Z) < n and not any(Z.shape == other.shape and np.array_equal(Z, other) for other in found):
            found.append(Z)
    return [] if cell["settings"].get("inducing") == "all" else found


def _handles(division: Division) -> list[Line2D]:
    labels = [int(label) for label in np.unique(division.y)]
    classes = [
        Line2D([], [], linestyle="none", marker="o", markersize=5, label=f"class {label + 1}",
               color=CLASS_COLORS[label % len(CLASS_COLORS)])
        for label in labels
    ]  # fmt: skip
    inducing = Line2D([], [], linestyle="none", marker="o", markersize=5, color="black", label="inducing inputs")
    return [*classes, inducing, Line2D([], [], color="black", label="decision boundary")]
