"""``render = "factors"``: EP and SEP on one unknown: each factor with its site, and the posterior (villacampa2017).

Above EP, below SEP; left the factors and their sites as functions of the unknown, scaled to their largest values, right
the exact posterior beside the approximation. No cells are needed. ``ITEM.csv`` holds means and variances.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.lines import Line2D

from gpbench.errors import UsageError
from gpbench.report.figures.axes import STYLE
from gpbench.report.figures.palette import CLASS_COLORS
from gpbench.report.figures.pictures import save_figure
from gpbench.report.files import write_atomically
from gpbench.report.plan.figure import close, new_figure
from gpbench.schemes.scalable_ep.toy import Sites, exact_density, factor_values, settle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from gpbench.bench.plan.plan import Plan
    from gpbench.report.groups import Cell

__all__ = ["render"]

_DEFAULTS: dict[str, Any] = {
    "prior_variance": 4.0,
    "centres": [-2.0, -0.5, 1.0, 3.0],
    "widths": [0.4, 1.0, 0.3, -0.8],
}

Array = npt.NDArray[np.float64]


def render(plan: Plan, cells: Sequence[Cell], folder: Path) -> list[Path]:  # noqa: ARG001  # it has no cells
    """Write the picture and the moments; see :mod:`gpbench.report.plan.renderers`.

    Raises
    ------
    UsageError
        [figure] holds numbers that make no factors.
    """
    chosen = {**_DEFAULTS, **plan.figure}
    prior, b, w = chosen["prior_variance"], np.asarray(chosen["centres"]), np.asarray(chosen["widths"])
    try:
        found = {name: settle(b, w, prior_variance=prior, tied=name == "SEP") for name in ("EP", "SEP")}
    except (UsageError, TypeError, ValueError) as error:
        raise UsageError(f"{plan.path}: [figure]: {error}") from None
    reach = 3.2 * float(np.sqrt(prior))
    theta = np.linspace(-reach, reach, 1601)
    exact = exact_density(theta, b, w, prior_variance=prior)
    with mpl.rc_context(STYLE):
        drawn = new_figure(2, 2, width=3.4, height=2.2)
        for row, (name, sites) in enumerate(found.items()):
            _factors(drawn.add_subplot(2, 2, 2 * row + 1), name, sites, theta=theta, b=b, w=w)
            _posterior(drawn.add_subplot(2, 2, 2 * row + 2), name, sites, theta=theta, exact=exact)
        handles = [
            Line2D([], [], color="#595959", linestyle="-", label="exact"),
            Line2D([], [], color="#595959", linestyle="--", label="approximation"),
        ]
        notes = ["SEP's sites are all the same: the n-th root of the product that it keeps."]
        close(drawn, plan, handles, notes=notes)
    picture, numbers = folder / f"{plan.item}.png", folder / f"{plan.item}.csv"
    save_figure(drawn, picture)
    write_atomically(numbers, _csv(found, theta, exact))
    return [picture, numbers]


def _factors(ax: Axes, name: str, sites: Sites, *, theta: Array, b: Array, w: Array) -> None:
    tied = len(b) > 1 and not np.ptp(sites.tau)
    for number, (centre, width, tau, nu) in enumerate(zip(b, w, sites.tau, sites.nu, strict=True)):
        color = CLASS_COLORS[number % len(CLASS_COLORS)]
        ax.plot(theta, factor_values(theta, float(centre), float(width)), color=color, linewidth=1.3)
        if number == 0 or not tied:
            log = -0.5 * tau * theta**2 + nu * theta
            ax.plot(theta, np.exp(log - log.max()), "--", color="#404040" if tied else color, linewidth=1.2)
    ax.set_title(f"{name}: factors and sites", loc="left")
    ax.set_ylim(-0.03, 1.08)
    ax.set_xlabel("θ")
    ax.set_ylabel("relative to the largest")


def _posterior(ax: Axes, name: str, sites: Sites, *, theta: Array, exact: Array) -> None:
    density = np.exp(-0.5 * (theta - sites.mean) ** 2 / sites.variance) / np.sqrt(2.0 * np.pi * sites.variance)
    ax.fill_between(theta, exact, color="#d9d9d9", linewidth=0)
    ax.plot(theta, exact, color="#595959", linewidth=1.3)
    ax.plot(theta, density, "--", color="#0072b2", linewidth=1.5)
    ax.set_title(f"{name}: posterior", loc="left")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("θ")
    ax.set_ylabel("density")


def _csv(found: dict[str, Sites], theta: Array, exact: Array) -> str:
    step = float(theta[1] - theta[0])
    mean = float((theta * exact).sum() * step)
    rows = [("exact", mean, float(((theta - mean) ** 2 * exact).sum() * step))]
    rows += [(name, sites.mean, sites.variance) for name, sites in found.items()]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["posterior", "mean", "variance"])
    writer.writerows(rows)
    return file.getvalue()
