"""The picture of everything that is judged: ours against the printed number, a point a number, both errors, by paper.

Points are hollow where cells were cut short or are too few. On the line ours is the printed one. Logarithmic axes, a
panel for NLL and one for errors; beside the picture ``summary.csv`` with its numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from gpbench.report.figures.style import BLUE, GREEN, PURPLE, RC, TEAL, VERMILION, log_axis, log_ticks
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.verdicts import printed_error
from gpbench.report.text import csv_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from gpbench.bench.plan.cells import PlanCells

__all__ = ["Point", "points", "points_csv", "summary_picture"]

#: Paper -> colour and marker, so that grey print tells them apart, too.
_STYLES = {
    "hensman2015": (BLUE, "o"),
    "wenzel2019": (VERMILION, "s"),
    "villacampa2017": (GREEN, "D"),
    "sheth2015": (PURPLE, "^"),
    "izmailov2016": (TEAL, "v"),
}
_KINDS = {"nll": "NLL (nats)", "error": "error"}
_LEAST = 1e-3


@dataclass(frozen=True, kw_only=True)
class Point:
    """A judged number.

    Attributes
    ----------
    plan, paper, dataset, method, metric : str
    printed, printed_se : float, float or None
    ours, ours_se : float, float or None
    verdict : str
    whole : bool
        All splits are there, and none was cut short.
    """

    plan: str
    paper: str
    dataset: str
    method: str
    metric: str
    printed: float
    printed_se: float | None
    ours: float
    ours_se: float | None
    verdict: str
    whole: bool


def points(plans: Iterable[PlanCells]) -> list[Point]:
    """Every counted number of some plans that stands beside a printed one and may be compared with it.

    An accuracy is shown as an error. What other data or splits make incomparable, and entries printed as ``large``, are
    left out.
    """
    found = []
    for plan_cells in plans:
        plan = plan_cells.plan
        if not plan.published:
            continue
        for each in entries_of(plan, plan_cells.results):
            for metric, entry in each.entries.items():
                printed, centre = entry.printed, entry.centre
                kind = "error" if metric == "accuracy" else metric
                if not each.block.table.counted or kind not in _KINDS or printed is None or printed.value is None:
                    continue
                if centre is None or entry.verdict.word in {"", "not comparable"}:
                    continue
                flip = metric == "accuracy"
                found.append(
                    Point(
                        plan=plan.id,
                        paper=plan.paper,
                        dataset=plan.dataset_label(each.block.dataset),
                        method=each.block.label,
                        metric=kind,
                        printed=1.0 - printed.value if flip else printed.value,
                        printed_se=printed_error(plan.paper, printed.spread),
                        ours=1.0 - centre if flip else centre,
                        ours_se=entry.error,
                        verdict=entry.verdict.word,
                        whole=not each.cut and not each.failed and each.finished >= each.expected,
                    )
                )
    return found


def points_csv(found: Sequence[Point]) -> str:
    """The numbers of the picture."""
    return csv_text([list(Point.__dataclass_fields__), *(vars(point).values() for point in found)])


def summary_picture(found: Sequence[Point]) -> Figure | None:
    """The picture; None where nothing is judged."""
    kinds = [kind for kind in _KINDS if any(point.metric == kind for point in found)]
    if not kinds:
        return None
    with mpl.rc_context(RC):
        drawn = Figure(figsize=(0.6 + 3.6 * len(kinds), 4.3))
        for number, kind in enumerate(kinds, start=1):
            ax = drawn.add_subplot(1, len(kinds), number)
            _panel(ax, [point for point in found if point.metric == kind])
            ax.set_title(_KINDS[kind], loc="left")
            ax.set_xlabel("printed")
            ax.set_ylabel("here")
        papers = [name for name in _STYLES if any(point.paper == name for point in found)]
        handles = [
            Line2D([], [], color=_STYLES[name][0], marker=_STYLES[name][1], linestyle="", label=name) for name in papers
        ]
        if not all(point.whole for point in found):
            hollow = {"markerfacecolor": "white", "markeredgecolor": "#4d4d4d"}
            label = "cut short or too few splits"
            handles.append(Line2D([], [], marker="o", linestyle="", label=label, **hollow))  # type: ignore[arg-type]
        drawn.legend(handles=handles, loc="lower center", ncols=min(3, len(handles)))
        drawn.tight_layout(rect=(0.0, 0.04 + 0.045 * -(-len(handles) // 3), 1.0, 1.0))
    return drawn


def _panel(ax: Axes, found: Sequence[Point]) -> None:
    values = [max(value, _LEAST) for point in found for value in (point.printed, point.ours)]
    low, high = min(values) / 1.3, max(values) * 1.3
    ax.plot([low, high], [low, high], color="#8c8c8c", linewidth=1.0, zorder=1)
    for point in found:
        color, marker = _STYLES.get(point.paper, ("#1a1a1a", "x"))
        x, y = max(point.printed, _LEAST), max(point.ours, _LEAST)
        # an error bar that reaches zero ends at the frame: a logarithmic axis has none
        bars = [
            None if error is None else [[min(error, value - 0.5 * low)], [error]]
            for value, error in ((x, point.printed_se), (y, point.ours_se))
        ]
        ax.errorbar(
            x, y, xerr=bars[0], yerr=bars[1], color=color, marker=marker, markersize=4.0, linewidth=0.0, elinewidth=0.6,
            markerfacecolor=color if point.whole else "white", markeredgewidth=0.8, zorder=2,
        )  # fmt: skip
    ticks = log_ticks(low, high)
    log_axis(ax, "x", at=FixedLocator(ticks))
    log_axis(ax, "y", at=FixedLocator(ticks))
    ax.set_xlim(low, high)
    ax.set_ylim(low, high)
    ax.set_aspect("equal")
