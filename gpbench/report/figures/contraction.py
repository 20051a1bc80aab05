"""``render = "contraction"``: how far apart random covariances are before and after sheth2015's fixed-point operator.

A row of panels for each kernel, a column for each likelihood, a colour for each size of the active set; what lies below
the dashed line has come closer. No cells are needed: the distances are those of
:func:`gpbench.bench.derived.steps.contraction`. ``ITEM.csv`` holds their ratios.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gpbench.bench.derived.stored import stored_arrays
from gpbench.report.figures.series import finish, new_figure, write_picture
from gpbench.report.figures.style import RC
from gpbench.report.text import csv_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpbench.bench.derived.stored import Arrays
    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.plan.run import PlanCells

__all__ = ["contraction", "render"]

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
    kernels, names = arrays["kernels"], arrays["likelihoods"]
    with mpl.rc_context(RC):
        drawn = new_figure(len(names), len(kernels), width=2.6, height=2.5)
        for row, kernel in enumerate(kernels):
            for column, name in enumerate(names):
                ax = drawn.add_subplot(len(kernels), len(names), row * len(names) + column + 1)
                pairs = [(arrays["before"][row, column, k], arrays["after"][row, column, k]) for k, _ in by_size]
                _panel(ax, pairs, [color for _, color in by_size])
                ax.set_title(f"{_NAMES.get(kernel, kernel)}, {name}", loc="left", fontsize=8.5)
                if column == 0:
                    ax.set_ylabel("‖T(U) − T(V)‖₂")
                if row == len(kernels) - 1:
                    ax.set_xlabel("‖U − V‖₂")
        handles = [
            Line2D([], [], linestyle="none", marker="o", markersize=4.5, color=color, label=f"M = {size}")
            for size, color in colors.items()
        ]
        handles.append(Line2D([], [], linestyle="--", color="#404040", label="equal distances"))
        return finish(drawn, plan, handles, notes=_notes(arrays))


def _panel(ax: Axes, pairs: Sequence[tuple[Array, Array]], colors: Sequence[Any]) -> None:
    """Distances before and after, (R,) each, for each size."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):  # matplotlib's own labels are formulas, which RC does not set
        axis.set_major_locator(LogLocator(numticks=6))
        axis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
        axis.set_minor_formatter(NullFormatter())
    for (before, after), color in zip(pairs, colors, strict=True):
        ax.plot(before, after, ".", color=color, markersize=2.6, alpha=0.6, markeredgewidth=0)
    low = min(float(before.min()) for before, _ in pairs)
    high = max(float(before.max()) for before, _ in pairs)
    ax.plot([low, high], [low, high], "--", color="#404040", linewidth=1.0)


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
    return csv_text(rows)
