"""``render = "contraction"``: how far apart random covariances are before and after sheth2015's fixed-point operator.

A row of panels for each kernel, a column for each likelihood, a colour for each size of the active set, a marker for
each slope of the ordinal likelihood; what lies above the dashed line has come no closer, and each panel counts it.
No cells are needed: the distances are those of :func:`gpbench.bench.derived.steps.contraction`. ``ITEM.csv`` holds
their ratios.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from gpbench.bench.derived.stored import stored_arrays
from gpbench.report.figures.series import finish, new_figure, write_picture
from gpbench.report.figures.style import RC, log_axis
from gpbench.report.text import DRAWN, csv_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpbench.bench.derived.stored import Arrays
    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.plan.plan import Plan

__all__ = ["contraction", "render"]

#: Of slopes, in their order.
_MARKERS = ("o", "^", "s", "D")
_NAMES = {"se": "SE", "matern12": "Matérn-1/2", "matern32": "Matérn-3/2", "quadratic": "quadratic"}

Array = npt.NDArray[np.float64]


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write the picture and the ratios; see :mod:`gpbench.report.plan.renderers`."""
    arrays = stored_arrays(found)
    return write_picture(contraction(found.plan, arrays), found, folder, numbers=_csv(arrays))


def contraction(plan: Plan, arrays: Arrays) -> Figure:
    """The picture of distances, by kernel, likelihood and size."""
    sizes = sorted(map(int, arrays["sizes"]))
    colors = {size: mpl.colormaps["viridis"](0.92 * rank / max(len(sizes) - 1, 1)) for rank, size in enumerate(sizes)}
    by_size = [(list(arrays["sizes"]).index(size), colors[size]) for size in sizes]
    kernels = arrays["kernels"]
    families: dict[str, list[tuple[int, str]]] = {}
    for column, name in enumerate(map(str, arrays["likelihoods"])):
        family, _, slope = name.partition(", slope ")
        families.setdefault(family, []).append((column, slope))
    slopes = list(dict.fromkeys(slope for own in families.values() for _, slope in own if slope))
    markers = {"": "o", **dict(zip(slopes, _MARKERS * len(slopes), strict=False))}
    with mpl.rc_context(RC):
        drawn = new_figure(len(families), len(kernels), width=2.45, height=2.3)
        for row, kernel in enumerate(kernels):
            for place, (family, own) in enumerate(families.items()):
                ax = drawn.add_subplot(len(kernels), len(families), row * len(families) + place + 1)
                pairs = [
                    (arrays["before"][row, column, k], arrays["after"][row, column, k], color, markers[slope])
                    for column, slope in own
                    for k, color in by_size
                ]
                _panel(ax, pairs)
                ax.set_title(f"{_NAMES.get(kernel, kernel)}, {family}", loc="left", fontsize=8)
                if place == 0:
                    ax.set_ylabel("‖T(U) − T(V)‖₂")
                if row == len(kernels) - 1:
                    ax.set_xlabel("‖U − V‖₂")
        handles = [
            Line2D([], [], linestyle="none", marker="o", markersize=4.5, color=color, label=f"M = {size}")
            for size, color in colors.items()
        ]
        handles += [
            Line2D([], [], linestyle="none", marker=markers[slope], markersize=4.5, color="#595959",
                   label=f"slope {slope}")
            for slope in slopes
        ]  # fmt: skip
        handles.append(Line2D([], [], linestyle="--", color="#404040", label="equal distances"))
        return finish(drawn, plan, handles, notes=_notes(arrays))


def _panel(ax: Axes, pairs: Sequence[tuple[Array, Array, Any, str]]) -> None:
    """Distances before and after, (R,) each, with colour and marker."""
    log_axis(ax, "x", at=LogLocator(numticks=6))
    log_axis(ax, "y", at=LogLocator(numticks=6))
    for before, after, color, marker in pairs:
        ax.plot(before, after, marker, color=color, markersize=1.9, alpha=0.6, markeredgewidth=0, rasterized=True)
    low = min(float(before.min()) for before, *_ in pairs)
    high = max(float(before.max()) for before, *_ in pairs)
    ax.plot([low, high], [low, high], "--", color="#404040", linewidth=1.0)
    above = sum(int((after > before).sum()) for before, after, *_ in pairs)
    largest = max(float((after / before).max()) for before, after, *_ in pairs)
    number = sum(len(before) for before, *_ in pairs)
    ax.text(
        0.97, 0.04, f"{above:,} of {number:,} no closer, ratio up to {largest:.2g}", transform=ax.transAxes, ha="right",
        va="bottom", fontsize=6.5, color="#595959",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1},
    )  # fmt: skip


def _ratios(arrays: Arrays) -> Iterator[tuple[tuple[str, str, int], Array]]:
    """Kernel, likelihood and size, and the distances after by those before (R,); above 1 nothing has contracted."""
    ratios = arrays["after"] / arrays["before"]
    for row, kernel in enumerate(arrays["kernels"]):
        for column, name in enumerate(arrays["likelihoods"]):
            for k, size in enumerate(arrays["sizes"]):
                yield (str(kernel), str(name), int(size)), ratios[row, column, k]


def _notes(arrays: Arrays) -> list[str]:
    ratios = [each for _, each in _ratios(arrays)]
    above = sum(int((each > 1.0).sum()) for each in ratios)
    pairs = sum(len(each) for each in ratios)
    rows = int(arrays["rows"])
    return [
        f"{len(ratios[0])} random pairs 0 ≼ U, V ≼ K for each size; active set: the first M of {rows} random inputs.",
        f"Of all {pairs:,} pairs {above:,} came no closer; the largest ratio is {max(map(np.max, ratios)):.3g}.",
    ]


def _csv(arrays: Arrays) -> str:
    rows: list[list[object]] = [
        ["kernel", "likelihood", "M", "pairs", "median_ratio", "largest_ratio", "pairs_above_1"]
    ]
    for what, ratios in _ratios(arrays):
        numbers = (len(ratios), float(np.median(ratios)), float(ratios.max()), int((ratios > 1.0).sum()))
        rows.append([*what, *numbers])
    return csv_text(rows, digits=DRAWN)
