"""How every picture looks: a style for each method, axes that read well, the same file for the same picture.

One style a method, in every picture the same, told apart by colour-blind eyes and in grey print. The colours are Okabe
and Ito's, with Paul Tol's wine, olive, indigo and teal in place of the yellow that white paper swallows and the sky
that is a lighter blue. There are more methods than colours, so that a style is a colour, a line and a marker: methods
of one paper, which meet in its figures, differ in colour; variants of one idea share the colour and differ in line (the
subset-of-data schemes are the sparse schemes' colours, dashed). The built-in methods' styles are written down here;
another one's follows from its id, so that it is the same in every picture unless its colour is taken: then it takes the
next that is free. Where methods of several papers meet and two have colour and line in common, the later in the
alphabet changes its line. Methods that differ in settings alone share the colour and differ in lightness and line.

Time is logarithmic and labelled in plain numbers, and early spikes do not rule the limits of the other axis.
"""

from __future__ import annotations

import io
import math
import textwrap
import zlib
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.colors import to_hex, to_rgb
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from gpbench.errors import UsageError
from gpbench.report.files import PICTURES, write_atomically
from gpbench.report.groups import natural
from gpbench.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import Locator

    from gpbench.report.groups import Group
    from gpbench.report.traces import Curve

__all__ = [
    "AXIS_LABELS",
    "CLASS_COLORS",
    "LEGEND_ROW",
    "RC",
    "STYLES",
    "TITLE_ROW",
    "Style",
    "check_ending",
    "fit_legend",
    "log_axis",
    "log_ticks",
    "picture_bytes",
    "save_figure",
    "styles",
    "styles_of",
    "time_axis",
    "time_limits",
    "value_limits",
    "wrapped_title",
]

Array = npt.NDArray[np.float64]

#: matplotlib's settings while a figure is made and saved.
RC: Any = {  # the type that matplotlib wants lists every setting there is
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


#: Metric -> label of its axis.
AXIS_LABELS = {
    "nll": "test NLL (nats)",
    "error": "test error",
    "accuracy": "test accuracy",
    "brier": "Brier score",
    "ece": "calibration error",
    "overconfidence": "overconfidence",
    "auc": "area under the ROC curve",
    "average_precision": "average precision",
    "worst": "NLL of the worst test row (nats)",
    "train_seconds": "training time (s)",
    "cpu_seconds": "processor time (s)",
    "bound": "bound (nats)",
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


#: Ticks of a logarithmic axis at least.
_TICKS = 3


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis from low to high, both positive: round numbers, few, and at least three."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 5), (1, 2, 5), range(1, 10)):
        ticks = [factor * 10.0**decade for decade in decades for factor in factors]
        if len(shown := [tick for tick in ticks if low <= tick <= high]) >= _TICKS:
            return shown
    return [float(tick) for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]


def log_axis(ax: Axes, which: Literal["x", "y"], *, at: Locator | None = None) -> None:
    """Make an axis logarithmic and label it in plain numbers: formulas, as matplotlib has them, are not set.

    ``at`` is where major ticks stand, if not where matplotlib has them.
    """
    scale, axis = (ax.set_xscale, ax.xaxis) if which == "x" else (ax.set_yscale, ax.yaxis)
    scale("log")
    if at is not None:
        axis.set_major_locator(at)
    axis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    axis.set_minor_formatter(NullFormatter())


def time_axis(ax: Axes, limits: tuple[float, float]) -> None:
    """Make the x axis logarithmic, labelled in plain seconds: decades, and steps between where there are few."""
    log_axis(ax, "x")
    ax.set_xlim(*limits)
    low, high = (math.log10(limit) for limit in limits)
    decades = range(math.floor(low), math.ceil(high) + 1)
    step = max(1, round((high - low) / 6))
    factors = (1, 2, 5) if high - low < 2.0 else (1, 3) if high - low < 3.5 else (1,)
    ticks = [factor * 10.0**decade for decade in decades if decade % step == 0 for factor in factors]
    ax.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if limits[0] <= tick <= limits[1]]))
    minor = [factor * 10.0**decade for decade in decades for factor in range(1, 10)]
    shown = [tick for tick in minor if limits[0] <= tick <= limits[1]]
    ax.xaxis.set_minor_locator(FixedLocator(shown) if high - low < 6 else NullLocator())


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


BLUE, VERMILION, GREEN, PURPLE, ORANGE = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00"
WINE, OLIVE, INDIGO, TEAL, GREY, BLACK = "#882255", "#999933", "#332288", "#44aa99", "#595959", "#1a1a1a"

#: Of classes in pictures of data: the first two are told apart in grey print too.
CLASS_COLORS = (ORANGE, BLUE, GREEN, PURPLE, WINE, OLIVE, INDIGO, TEAL, VERMILION, GREY)

_Line = Literal["-"] | tuple[float, tuple[float, ...]]
_SOLID: _Line = "-"
_DASHED: _Line = (0.0, (5.0, 1.5))
_DOTTED: _Line = (0.0, (1.5, 1.5))
_DASHDOT: _Line = (0.0, (5.0, 1.5, 1.5, 1.5))
_LINES: tuple[_Line, ...] = (_SOLID, (0.0, (6.0, 1.5)), (0.0, (6.0, 1.5, 1.5, 1.5)), _DOTTED)


@dataclass(frozen=True)
class Style:
    """How a method is drawn: colour, line and marker, as matplotlib takes them."""

    color: str
    line: _Line
    marker: str


#: The built-in methods' styles.
STYLES: dict[str, Style] = {
    # wenzel2019
    "x-gpc": Style(BLUE, _SOLID, "o"),
    "x-gpc-z": Style(BLUE, _DASHED, "o"),
    "svgpc": Style(VERMILION, _SOLID, "s"),
    "svgpc-adam": Style(VERMILION, _DASHED, "s"),
    "epgpc": Style(TEAL, _SOLID, "D"),
    "gibbs": Style(BLACK, _SOLID, "X"),
    "linear": Style(GREY, _SOLID, "P"),
    "class-frequencies": Style(GREY, _DOTTED, "X"),
    "hgb": Style(GREY, _DASHED, "d"),
    "hgb-tuned": Style(GREY, _DOTTED, "h"),
    "rff": Style(GREY, _DASHDOT, "H"),
    "dirichlet-gpc": Style(PURPLE, _DASHDOT, "8"),
    # beyond the papers
    "pep": Style(WINE, _SOLID, "*"),
    # hensman2015
    "klsp": Style(INDIGO, _SOLID, "^"),
    "klsp-sgd": Style(PURPLE, _SOLID, "v"),
    "kl": Style(OLIVE, _SOLID, "<"),
    "mfsp": Style(ORANGE, _SOLID, "p"),
    "mfsp-joint": Style(ORANGE, _DASHED, "p"),
    "sparse-map": Style(OLIVE, _DASHED, ">"),
    "ep": Style(WINE, _SOLID, "h"),
    "gfitc": Style(GREEN, _SOLID, "d"),
    # villacampa2017
    "ep-mgpc": Style(WINE, _SOLID, "H"),
    "sep-mgpc": Style(ORANGE, _SOLID, "8"),
    "vi-mgpc": Style(BLUE, _SOLID, "v"),
    "vi-mgpc-learned": Style(BLUE, _DASHED, "^"),
    # izmailov2016
    "vi-jj": Style(GREEN, _DASHED, "o"),
    "vi-taylor": Style(ORANGE, _DOTTED, "s"),
    "vi-jj-hybrid": Style(BLUE, _DASHDOT, "D"),
    "vi-jj-full": Style(WINE, _DOTTED, "^"),
    "svi-adadelta": Style(VERMILION, _DASHED, "v"),
    "klsp-batch-z-fixed": Style(GREY, _DASHED, "P"),
    # sheth2015
    "gvi-fixed-point": Style(BLUE, _SOLID, "H"),
    "gvi-gradient": Style(VERMILION, _SOLID, "<"),
    "gvi-dual": Style(GREEN, _SOLID, ">"),
    "gvi-sgd": Style(PURPLE, _SOLID, "p"),
    "sod-fixed-point": Style(BLUE, _DASHED, "H"),
    "sod-gradient": Style(VERMILION, _DASHED, "<"),
    "sod-dual": Style(GREEN, _DASHED, ">"),
    "sod-laplace": Style(BLACK, _DASHED, "X"),
    # rivals
    "gpflow-svgp": Style(VERMILION, _DOTTED, "D"),
    "gpjax-dual": Style(ORANGE, _DOTTED, "v"),
    "gpytorch-svgp": Style(GREEN, _DOTTED, "o"),
    "gpytorch-pg": Style(BLUE, _DOTTED, "D"),
    "sklearn-gpc": Style(BLACK, _DOTTED, "s"),
}
#: Colours for every other method: vermilion, green, purple, orange, wine, olive, indigo, teal.
_OTHERS = (VERMILION, GREEN, PURPLE, ORANGE, WINE, OLIVE, INDIGO, TEAL)
_MARKERS = "osD^vPX"

#: How far the lightest of several settings goes towards white.
_LIGHTEST = 0.45


def styles_of(groups: Iterable[Group]) -> dict[str, Style]:
    """A style for each method label among the groups."""
    return styles((group.method, group.method_label) for group in groups)


def styles(names: Iterable[tuple[str, str]]) -> dict[str, Style]:
    """A style for each label.

    Parameters
    ----------
    names : iterable of (str, str)
        Method's id and label; a method has several labels where it stands there with several settings.
    """
    labels: dict[str, set[str]] = defaultdict(set)
    for method, label in names:
        labels[method].add(label)
    own = _method_styles(sorted(labels))
    found = {}
    for method, variants in labels.items():
        base = own[method]
        for rank, label in enumerate(sorted(variants, key=natural)):
            light = _LIGHTEST * rank / max(len(variants) - 1, 1)
            line = base.line if len(variants) == 1 else _LINES[rank % len(_LINES)]
            found[label] = Style(_lighter(base.color, light), line, base.marker)
    return found


def _method_styles(methods: Sequence[str]) -> dict[str, Style]:
    """A style for each method."""
    found = {method: STYLES[method] for method in methods if method in STYLES}
    taken = {style.color for style in found.values()}
    free = [color for color in _OTHERS if color not in taken]
    for method in methods:
        if method in found:
            continue
        number = zlib.crc32(method.encode())
        if not free:  # more methods than colours: they come round again
            free = list(_OTHERS)
        start = number % len(_OTHERS)
        color = next(each for each in _OTHERS[start:] + _OTHERS[:start] if each in free)
        free.remove(color)
        found[method] = Style(color, _SOLID, _MARKERS[number % len(_MARKERS)])
    return _told_apart(found)


def _told_apart(styles_of_methods: Mapping[str, Style]) -> dict[str, Style]:
    """The same styles, but for lines of methods that would have colour and line in common with an earlier one."""
    used: set[tuple[str, _Line]] = set()
    found = {}
    for method, own in sorted(styles_of_methods.items()):
        line = next((each for each in (own.line, *_LINES) if (own.color, each) not in used), own.line)
        used.add((own.color, line))
        found[method] = replace(own, line=line)
    return found


def _lighter(color: str, share: float) -> str:
    red, green, blue = (part + (1.0 - part) * share for part in to_rgb(color))
    return to_hex((red, green, blue))


#: No date in the file.
_UNDATED: dict[str, dict[str, Any]] = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}


def check_ending(path: Path) -> str:
    """The ending of a picture's name, in small letters.

    Raises
    ------
    UsageError
        It is none of :data:`gpbench.report.files.PICTURES`.
    """
    ending = path.suffix.lower()
    if ending not in PICTURES:
        raise UsageError(f"a picture's name must end in {', '.join(PICTURES)}; got {str(path)!r}")
    return ending


def picture_bytes(drawn: Figure, ending: str = ".png", *, dpi: int = 200) -> bytes:
    """A figure as the content of a file.

    Parameters
    ----------
    drawn : Figure
        Made within :data:`gpbench.report.figures.style.RC`.
    ending : str
        One of :data:`gpbench.report.files.PICTURES`.
    dpi : int
        Dots per inch, for png.
    """
    file = io.BytesIO()
    with mpl.rc_context(RC):
        drawn.savefig(file, format=ending[1:], dpi=dpi, metadata=_UNDATED[ending])
    return file.getvalue()


def save_figure(drawn: Figure, path: Path) -> None:
    """Write a figure to a png, pdf or svg file, whole or not at all.

    Raises
    ------
    UsageError
        An ending that is none of :data:`gpbench.report.files.PICTURES`.
    StoreError
        The file cannot be written.
    """
    write_atomically(path, picture_bytes(drawn, check_ending(path)))


#: Inches of a line of a figure's name.
TITLE_ROW = 0.2


def wrapped_title(head: str, width: float) -> list[str]:
    """A figure's name in lines that a figure of so many inches has room for."""
    return textwrap.wrap(printable(head), max(40, int(width * 10.5)))  # characters of its bold type in an inch
