"""``render = "factors"``: EP and SEP on one unknown: each factor with its site, and the posterior (villacampa2017).

Above EP, below SEP; left the factors and their sites as functions of the unknown, scaled to their largest values, right
the exact posterior beside the approximation. No cells are needed: the functions are those of
:func:`gpbench.bench.derived.steps.factors`. ``ITEM.csv`` holds means and variances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.lines import Line2D

from gpbench.bench.derived.stored import stored_arrays
from gpbench.report.figures.series import finish, new_figure, write_picture
from gpbench.report.figures.style import CLASS_COLORS, RC
from gpbench.report.text import DRAWN, csv_text

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from gpbench.bench.derived.stored import Arrays
    from gpbench.bench.plan.cells import PlanCells

__all__ = ["render"]


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write the picture and the moments; see :mod:`gpbench.report.plan.renderers`."""
    arrays = stored_arrays(found)
    with mpl.rc_context(RC):
        drawn = new_figure(2, 2, width=3.4, height=2.2)
        for row in range(len(arrays["names"])):
            _factors(drawn.add_subplot(2, 2, 2 * row + 1), arrays, row)
            _posterior(drawn.add_subplot(2, 2, 2 * row + 2), arrays, row)
        handles = [
            Line2D([], [], color="#595959", linestyle="-", label="exact"),
            Line2D([], [], color="#595959", linestyle="--", label="approximation"),
        ]
        notes = ["SEP's sites are all the same: the n-th root of the product that it keeps."]
        finish(drawn, found.plan, handles, notes=notes)
    moments = zip(["exact", *arrays["names"]], arrays["moments"].tolist(), strict=True)
    numbers = csv_text([("posterior", "mean", "variance"), *((name, *both) for name, both in moments)], digits=DRAWN)
    return write_picture(drawn, found, folder, numbers=numbers)


def _factors(ax: Axes, arrays: Arrays, row: int) -> None:
    tied = bool(arrays["tied"][row])
    for number, (factor, site) in enumerate(zip(arrays["factors"], arrays["sites"][row], strict=True)):
        color = CLASS_COLORS[number % len(CLASS_COLORS)]
        ax.plot(arrays["theta"], factor, color=color, linewidth=1.3)
        if number == 0 or not tied:
            ax.plot(arrays["theta"], site, "--", color="#404040" if tied else color, linewidth=1.2)
    ax.set_title(f"{arrays['names'][row]}: factors and sites", loc="left")
    ax.set_ylim(-0.03, 1.08)
    ax.set_xlabel("θ")
    ax.set_ylabel("relative to the largest")


def _posterior(ax: Axes, arrays: Arrays, row: int) -> None:
    theta, exact = arrays["theta"], arrays["exact"]
    ax.fill_between(theta, exact, color="#d9d9d9", linewidth=0)
    ax.plot(theta, exact, color="#595959", linewidth=1.3)
    ax.plot(theta, arrays["density"][row], "--", color="#0072b2", linewidth=1.5)
    ax.set_title(f"{arrays['names'][row]}: posterior", loc="left")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("θ")
    ax.set_ylabel("density")
