"""What the pictures of plans have in common: their size, the legend below, the notes that must be read with them."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from gpbench.report.figures.axes import LEGEND_ROW, fit_legend
from gpbench.report.plan.words import head_notes, plan_notes
from gpbench.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from gpbench.bench.plan.plan import Plan
    from gpbench.report.figures.palette import Style

__all__ = ["axis_of_sizes", "close", "handle", "new_figure"]

#: Inches of a line of notes, and of a row of the legend.
_LINE, _ENTRY = 0.125, 0.2


def new_figure(columns: int, rows: int, *, width: float, height: float) -> Figure:
    """A figure of panels of a size in inches; :func:`close` makes room for legend and notes."""
    size = (max(width * columns + 0.3, 5.0), height * rows + 0.4)
    return Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.05, h_pad=0.05))


def handle(label: str, style: Style) -> Line2D:
    """A method in the legend."""
    return Line2D(
        [], [], color=style.color, linestyle=style.line, marker=style.marker, markersize=4.0, label=printable(label)
    )


def close(drawn: Figure, plan: Plan, handles: Sequence[Artist], *, notes: Sequence[str] = ()) -> Figure:
    """Put the plan's name above, the legend and all notes below."""
    head, *cut = head_notes(plan)
    drawn.suptitle(printable(head), x=0.01, ha="left", fontsize=10, fontweight="bold")
    lines = [*cut, *notes, *plan_notes(plan)]
    wide = max(40, int(drawn.get_figwidth() * 19))
    text = [line for note in lines for line in textwrap.wrap(printable(note), wide)]
    width = drawn.get_figwidth()
    blank = Line2D([], [], linestyle="none", label=" ")
    shown = list(handles) or [blank]
    columns, labels, high = fit_legend([str(one.get_label()) for one in shown], width, most=max(1, int(width / 1.7)))
    drawn.set_figheight(drawn.get_figheight() + _LINE * len(text) + _ENTRY / LEGEND_ROW * high)
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


def axis_of_sizes(ax: Axes, values: Sequence[float]) -> None:
    """Make the x axis logarithmic with a tick at each of the values that stand far enough apart."""
    ax.set_xscale("log")
    ticks: list[float] = []
    for value in sorted(set(values)):
        if not ticks or value / ticks[-1] >= (max(values) / min(values)) ** 0.08:
            ticks.append(value)
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())
