"""A comparison's pictures, average ranks and performance profiles, and the folder that it is written to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from gpbench.errors import UsageError
from gpbench.report.compare.attainment import FACTOR
from gpbench.report.figures.style import LEGEND_ROW, RC, fit_legend, save_figure, styles, time_axis
from gpbench.report.files import write_atomically
from gpbench.report.tables.table import ENDINGS
from gpbench.report.tables.table import METRICS as HEADS
from gpbench.report.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from gpbench.report.compare.comparison import Comparison
    from gpbench.report.compare.significance import Ranking
    from gpbench.report.figures.style import Style

__all__ = ["profile_figure", "rank_figure", "write_comparison"]


def rank_figure(found: Comparison, *, metric: str = "nll") -> Figure:
    """Demšar's picture: methods along an axis of average ranks; bars join those that do not differ.

    Raises
    ------
    UsageError
        There is no data set where all methods meet.
    """
    ranking = found.rankings.get(metric)
    if ranking is None or not ranking.datasets:
        raise UsageError(f"there is no data set with the {HEADS[metric]} of all methods, so that there are no ranks")
    with mpl.rc_context(RC):
        return _ranks(ranking, styles([(each.method, each.label) for each in found.contenders]))


def profile_figure(found: Comparison) -> Figure:
    """Performance profiles of the time to the goal.

    Raises
    ------
    UsageError
        There is no data set where all methods meet and times compare.
    """
    if not found.profiles:
        raise UsageError("there is no data set where all methods meet and their times compare, so no profiles")
    style_of = styles([(each.method, each.label) for each in found.contenders])
    with mpl.rc_context(RC):
        drawn = Figure(figsize=(5.6, 3.9), layout=ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.06))
        ax = drawn.add_subplot()
        highest = max(2.0, *(float(each.ratio[-1]) for each in found.profiles))
        limits = (1.0, highest**1.06)
        time_axis(ax, limits)
        for order, each in enumerate(found.profiles):
            style = style_of[each.label]
            ratio, share = np.append(each.ratio, limits[1]), np.append(each.share, each.share[-1])
            ax.step(ratio, share, where="post", color=style.color, linestyle=style.line, label=printable(each.label))
            ax.plot(limits[1:], share[-1:], ">", color=style.color, markersize=4, clip_on=False, zorder=3 + order)
        ax.set_ylim(-0.02, 1.03)
        ax.set_xlabel("time, as a multiple of the fastest method's")
        ax.set_ylabel("share of splits, data sets weighing alike")
        sets = ", ".join(found.profiled)
        ax.set_title(f"Time to {FACTOR:g} times the best NLL", loc="left")
        handles, names = ax.get_legend_handles_labels()
        columns, names, high = fit_legend(names, drawn.get_figwidth(), most=3)
        drawn.set_figheight(drawn.get_figheight() + max(0.0, high - 2 * LEGEND_ROW))
        drawn.legend(handles, names, loc="outside lower center", ncols=columns, title=_short(sets), title_fontsize=7)
        return drawn


def _ranks(ranking: Ranking, style_of: dict[str, Style]) -> Figure:
    count = len(ranking.labels)
    half = (count + 1) // 2
    cliques = ranking.cliques()
    top = 0.62 + 0.16 * len(cliques)
    drawn = Figure(figsize=(6.8, 1.1 + 0.16 * len(cliques) + 0.24 * half), layout=ConstrainedLayoutEngine())
    ax = drawn.add_subplot()
    ax.set_axis_off()
    low, high = 1.0, float(max(count, 2))
    reach = high - low
    depth = top + 0.42 * half
    ax.set_xlim(low - 0.34 * reach, max(high + 0.34 * reach, low + 0.05 + (ranking.difference or 0.0)))
    ax.set_ylim(-depth, 0.85 if ranking.difference is not None else 0.5)
    ax.plot([low, high], [0, 0], color="#262626", linewidth=1.0)
    for tick in range(1, int(high) + 1):
        ax.plot([tick, tick], [0, 0.1], color="#262626", linewidth=1.0)
        ax.text(tick, 0.15, str(tick), ha="center", va="bottom")
    for order, (label, rank) in enumerate(zip(ranking.labels, ranking.ranks, strict=True)):
        left = order < half
        height = -top - 0.42 * (order if left else count - 1 - order)
        _label(
            ax, label, rank, end=low - 0.03 * reach if left else high + 0.03 * reach, y=height, style=style_of[label]
        )
    for row, (first, last) in enumerate(cliques):
        ends = [ranking.ranks[first] - 0.008 * reach, ranking.ranks[last] + 0.008 * reach]
        ax.plot(ends, [-0.3 - 0.16 * row] * 2, color="#262626", linewidth=3.0, solid_capstyle="butt")
    if ranking.difference is not None:
        _ruler(ax, low, ranking.difference)
    sets = f"{len(ranking.datasets)} famil{'ies' if len(ranking.datasets) > 1 else 'y'} of data sets"
    ax.set_title(f"Average rank by {HEADS[ranking.metric]} on {sets} (1 is best)", loc="left")
    return drawn


def _label(ax: Axes, label: str, rank: float, *, end: float, y: float, style: Style) -> None:
    ax.plot([rank, rank, end], [0, y, y], color=style.color, linewidth=1.3)
    ax.plot([rank], [0], style.marker, color=style.color, markersize=4.5, zorder=3)
    left = end < rank
    text = f"{printable(label)}  {rank:.2f}" if left else f"{rank:.2f}  {printable(label)}"
    ax.annotate(
        text,
        (end, y),
        xytext=(-3 if left else 3, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        va="center",
    )


def _ruler(ax: Axes, start: float, length: float) -> None:
    """The critical difference, above the axis."""
    ax.plot([start, start + length], [0.58, 0.58], color="#737373", linewidth=1.2)
    for end in (start, start + length):
        ax.plot([end, end], [0.53, 0.63], color="#737373", linewidth=1.2)
    ax.text(start, 0.66, f"critical difference {length:.2f}", va="bottom", fontsize=7.5, color="#595959")


def _short(sets: str) -> str:
    return printable(sets if len(sets) <= 90 else f"{sets[:87]}...")


def write_comparison(
    found: Comparison,
    folder: Path,
    *,
    text: str,
    format: str,  # noqa: A002  # named as on the command line
) -> tuple[list[Path], list[str]]:
    """Write ``comparison`` in a format and as JSON, ``ranks.png`` and ``profiles.png``; with LaTeX as pdf, too.

    Parameters
    ----------
    found : Comparison
    folder : Path
    text : str
        The tables, see :func:`gpbench.report.compare.display.comparison_text`.
    format : str
        Theirs, which settles the ending.

    Returns
    -------
    list of Path
        What was written.
    list of str
        What could not be drawn, and why.

    Raises
    ------
    StoreError
        The path cannot be written.
    """
    tables, numbers = folder / f"comparison{ENDINGS[format]}", folder / "comparison.json"
    write_atomically(tables, text)
    write_atomically(numbers, json.dumps(found.json(), indent=1) + "\n")
    written, problems = [tables, numbers], []
    endings = (".png", ".pdf") if format == "latex" else (".png",)
    draws = (("ranks", rank_figure), ("profiles", profile_figure))
    for name, draw in ((f"{each}{ending}", draw) for each, draw in draws for ending in endings):
        try:
            save_figure(draw(found), folder / name)
            written.append(folder / name)
        except UsageError as error:  # the tables stand, whether or not there is anything to draw
            problems.append(f"{folder / name} is not drawn: {error}")
    return written, problems
