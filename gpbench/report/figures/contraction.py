"""``render = "contraction"``: how far apart random covariances are before and after sheth2015's fixed-point operator.

A row of panels for each kernel, a column for each likelihood, a colour for each size of the active set; what lies below
the dashed line has come closer. No cells are needed: the experiment is done here, on random inputs of the unit cube, by
:mod:`gpbench.schemes.general.contraction`. ``ITEM.csv`` holds the ratios of the distances.
"""

from __future__ import annotations

import csv
import io
import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from gpbench.errors import UsageError
from gpbench.model.kernels import make_kernel
from gpbench.model.likelihoods import Logit, Ordinal, Poisson
from gpbench.report.figures.axes import STYLE
from gpbench.report.figures.pictures import save_figure
from gpbench.report.files import write_atomically
from gpbench.report.plan.figure import close, new_figure
from gpbench.schemes.general.contraction import Distances, contraction_distances

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpbench.bench.plan.plan import Plan
    from gpbench.report.groups import Cell

__all__ = ["contraction", "render"]

#: As the paper: what [figure] may change.
_DEFAULTS: dict[str, Any] = {
    "sizes": [10, 25, 50, 100],
    "rows": 1000,
    "inputs": 10,
    "repeats": 500,
    "kernels": ["se"],
    "slopes": [1.0],
}
#: Repeats of a plan that is cut short.
_QUICK_REPEATS = 3
_EDGES = (-1.0, 0.0, 1.0)
_NAMES = {"se": "SE", "matern12": "Matérn-1/2", "matern32": "Matérn-3/2", "quadratic": "quadratic"}

_Found = dict[str, dict[tuple[str, int], Distances]]


def render(plan: Plan, cells: Sequence[Cell], folder: Path) -> list[Path]:  # noqa: ARG001  # it has no cells
    """Write the picture and the ratios; see :mod:`gpbench.report.plan.renderers`."""
    found = _experiment(plan)
    picture, numbers = folder / f"{plan.item}.png", folder / f"{plan.item}.csv"
    save_figure(contraction(plan, found), picture)
    write_atomically(numbers, _csv(found))
    return [picture, numbers]


def contraction(plan: Plan, found: _Found) -> Figure:
    """The picture of distances, by kernel, likelihood and size."""
    sizes = sorted({size for own in found.values() for _, size in own})
    names = list(dict.fromkeys(name for own in found.values() for name, _ in own))
    colors = {size: mpl.colormaps["viridis"](0.92 * place / max(len(sizes) - 1, 1)) for place, size in enumerate(sizes)}
    with mpl.rc_context(STYLE):
        drawn = new_figure(len(names), len(found), width=2.6, height=2.5)
        for row, (kernel, own) in enumerate(found.items()):
            for column, name in enumerate(names):
                ax = drawn.add_subplot(len(found), len(names), row * len(names) + column + 1)
                _panel(ax, {size: own[name, size] for size in sizes}, colors)
                ax.set_title(f"{_NAMES.get(kernel, kernel)}, {name}", loc="left", fontsize=8.5)
                if column == 0:
                    ax.set_ylabel("‖T(U) − T(V)‖₂")
                if row == len(found) - 1:
                    ax.set_xlabel("‖U − V‖₂")
        handles = [
            Line2D([], [], linestyle="none", marker="o", markersize=4.5, color=color, label=f"M = {size}")
            for size, color in colors.items()
        ]
        handles.append(Line2D([], [], linestyle="--", color="#404040", label="equal distances"))
        return close(drawn, plan, handles, notes=_notes(plan, found))


def _experiment(plan: Plan) -> _Found:
    chosen = {**_DEFAULTS, **plan.figure}
    if plan.reduction.words:
        chosen["repeats"] = min(int(chosen["repeats"]), _QUICK_REPEATS)
    d = int(chosen["inputs"])
    slopes = [float(slope) for slope in chosen["slopes"]]
    likelihoods: dict[str, Poisson | Logit | Ordinal] = {"count (Poisson)": Poisson(), "binary (logit)": Logit(20)}
    likelihoods |= {f"ordinal, slope {slope:g}": Ordinal(_EDGES, slope=slope) for slope in slopes}
    found: _Found = {}
    for name in chosen["kernels"]:
        kernel = make_kernel(str(name), d, variance=1.0, lengthscale=math.sqrt(d) / 3.0, noise=0.0)
        try:
            found[str(name)] = contraction_distances(
                kernel,
                likelihoods,
                sizes=[int(size) for size in chosen["sizes"]],
                rows=int(chosen["rows"]),
                inputs=d,
                repeats=int(chosen["repeats"]),
                seed=plan.seed,
            )
        except UsageError as error:
            raise UsageError(f"{plan.path}: [figure]: {error}") from None
    return found


def _panel(ax: Axes, distances: Mapping[int, Distances], colors: Mapping[int, Any]) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):  # matplotlib's own labels are formulas, which STYLE does not set
        axis.set_major_locator(LogLocator(numticks=6))
        axis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
        axis.set_minor_formatter(NullFormatter())
    for size, own in distances.items():
        ax.plot(own.before, own.after, ".", color=colors[size], markersize=2.6, alpha=0.6, markeredgewidth=0)
    low = min(float(own.before.min()) for own in distances.values())
    high = max(float(own.before.max()) for own in distances.values())
    ax.plot([low, high], [low, high], "--", color="#404040", linewidth=1.0)


def _notes(plan: Plan, found: _Found) -> list[str]:
    ratios = [own.ratios for each in found.values() for own in each.values()]
    above = sum(int((each > 1.0).sum()) for each in ratios)
    pairs = sum(len(each) for each in ratios)
    rows = plan.figure.get("rows", _DEFAULTS["rows"])
    return [
        f"{len(ratios[0])} random pairs 0 ≼ U, V ≼ K for each size; active set: the first M of {rows} random inputs.",
        f"Of all {pairs:,} pairs {above:,} came no closer; the largest ratio is {max(map(np.max, ratios)):.3g}.",
    ]


def _csv(found: _Found) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["kernel", "likelihood", "M", "pairs", "median_ratio", "largest_ratio", "pairs_above_1"])
    for kernel, own in found.items():
        for (name, size), distances in own.items():
            ratios = distances.ratios
            numbers = (len(ratios), float(np.median(ratios)), float(ratios.max()), int((ratios > 1.0).sum()))
            writer.writerow([kernel, name, size, *numbers])
    return file.getvalue()
