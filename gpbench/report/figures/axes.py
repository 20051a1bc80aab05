"""Axes that read well: a logarithmic time axis in plain numbers, and limits that early spikes do not rule."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from gpbench.report.traces import Curve

__all__ = ["LEGEND_ROW", "STYLE", "fit_legend", "time_axis", "time_limits", "value_limits"]

Array = npt.NDArray[np.float64]

#: matplotlib's settings while a figure is made and saved.
STYLE: Any = {  # the type that matplotlib wants lists every setting there is
    "font.family": "DejaVu Sans",  # comes with matplotlib, so that pictures are the same everywhere
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.8,
    "axes.edgecolor": "#4d4d4d",
    "axes.labelcolor": "#262626",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "xtick.color": "#4d4d4d",
    "ytick.color": "#4d4d4d",
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "legend.handlelength": 2.8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "text.parse_math": False,  # a $ in a name is a $
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "gpbench",  # the same picture gives the same file
    "pdf.fonttype": 42,
}


#: Inches of a line of text in a legend.
LEGEND_ROW = 0.16
#: Inches of a character there, and of an entry's line and the gap after it.
_CHARACTER, _HANDLE = 0.072, 0.72


def fit_legend(labels: Sequence[str], width: float, *, most: int) -> tuple[int, list[str], float]:
    """Lay a legend out so that nothing runs over the edges of a figure.

    Parameters
    ----------
    labels : sequence of str
        What the entries say, made safe already.
    width : float
        Of the figure, in inches.
    most : int
        Columns at most.

    Returns
    -------
    int
        Columns.
    list of str
        The labels; one that is longer than the figure is wide is broken into lines.
    float
        Height of the legend in inches.
    """
    longest = max((len(label) for label in labels), default=1)
    columns = max(1, min(most, len(labels), int((width - 0.2) / (longest * _CHARACTER + _HANDLE))))
    room = max(20, int((width - 0.2 - _HANDLE) / _CHARACTER))
    broken = ["\n".join(textwrap.wrap(label, room)) or label for label in labels]
    per_column = -(-len(broken) // columns)  # matplotlib fills column after column
    starts = range(0, len(broken), per_column) if broken else ()
    lines = max((sum(one.count("\n") + 1 for one in broken[k : k + per_column]) for k in starts), default=0)
    return columns, broken, LEGEND_ROW * lines


def time_limits(curves: Sequence[Curve]) -> tuple[float, float]:
    """First and last second shown: all curves with a little room, and a decade at the least."""
    first = min(float(curve.seconds[0]) for curve in curves)
    last = max(float(curve.seconds[-1]) for curve in curves)
    room = max(0.04 * math.log10(last / first), 0.5 - 0.5 * math.log10(last / first))
    return first * 10**-room, last * 10**room


def time_axis(ax: Axes, limits: tuple[float, float]) -> None:
    """Make the x axis logarithmic, labelled in plain seconds: decades, and steps between where there are few."""
    ax.set_xscale("log")
    ax.set_xlim(*limits)
    low, high = (math.log10(limit) for limit in limits)
    decades = range(math.floor(low), math.ceil(high) + 1)
    step = max(1, round((high - low) / 6))
    factors = (1, 2, 5) if high - low < 2.0 else (1, 3) if high - low < 3.5 else (1,)
    ticks = [factor * 10.0**decade for decade in decades if decade % step == 0 for factor in factors]
    ax.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if limits[0] <= tick <= limits[1]]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    minor = [factor * 10.0**decade for decade in decades for factor in range(1, 10)]
    shown = [tick for tick in minor if limits[0] <= tick <= limits[1]]
    ax.xaxis.set_minor_locator(FixedLocator(shown) if high - low < 6 else NullLocator())
    ax.xaxis.set_minor_formatter(NullFormatter())


def value_limits(curves: Sequence[Curve]) -> tuple[float, float]:
    """Lowest and highest value shown.

    Every mean is above the lower limit. The upper one follows the lowest of the curves: it is seen whole unless its
    start is a spike, and of the others what lies within four times its range. What is higher, a spike at the start or
    a method that came to nothing, runs off the top instead of flattening all the rest. Bands are seen at their ends.
    """
    known = [(curve, curve.mean[np.isfinite(curve.mean)]) for curve in curves]
    known = [(curve, values) for curve, values in known if len(values)]
    if not known:
        return 0.0, 1.0
    low = min(float(values.min()) for _, values in known)
    scale = abs(low) or 0.01
    moving = [values for curve, values in known if not curve.is_point] or [values for _, values in known]
    best = min(moving, key=lambda values: float(values.min()))
    reach = low + 4.0 * max(_top(best) - low, 0.5 * scale)
    seen = [(curve, values) for curve, values in known if float(values.min()) <= reach]
    high = max(min(_top(values), reach) for _, values in seen)
    ends = [(curve.mean[-1], curve.band[-1]) for curve, _ in seen if curve.band is not None]
    high = max([high, *(min(float(mean + band), reach) for mean, band in ends if np.isfinite(mean))])
    low = min([low, *(float(mean - band) for mean, band in ends if np.isfinite(mean))])
    least = 0.05 * scale  # a range to be seen, where all values are nearly one
    if high - low < least:
        return low - least, high + least
    room = 0.06 * (high - low)
    edge = low - room
    return (max(edge, 0.0) if low >= 0.0 else edge), high + room


def _top(values: Array) -> float:
    """The highest value, or where that is a spike the one below which nine tenths of the curve lie."""
    low, most, top = float(values.min()), float(np.quantile(values, 0.9)), float(values.max())
    return top if top - low <= max(2.5 * (most - low), 1.5 * abs(low)) else most
