"""What predictions are worth on a data set: error against NLL, and whether the probabilities can be believed.

The reliability diagram (DeGroot and Fienberg 1983) sets how often something happened against how probable it was said
to be: the second class where there are two, else that the predicted class is right. Test rows of all splits are put
into bins by that probability; a mark stands at a bin's mean probability and share, and bins of fewer than :data:`LEAST`
rows, whose share says little, are left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from gpbench.report.figures.style import AXIS_LABELS, RC, Style, fit_legend, styles_of
from gpbench.report.tables.summary import statistics
from gpbench.report.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from gpbench.report.groups import Group
    from gpbench.report.scores import Calibration

__all__ = ["LEAST", "Reliability", "figure", "reliability"]

LEAST = 20
"""Rows that a bin must hold to be drawn: a share of 20 has a standard error of 0.11 at most."""


class Reliability(NamedTuple):
    """The marks of one method: mean probability and share of each bin, and the rows in it, each (k,)."""

    probability: list[float]
    share: list[float]
    rows: list[int]


def reliability(group: Group, found: Mapping[str, Calibration]) -> Reliability:
    """The marks of a method on a data set.

    Parameters
    ----------
    group : Group
    found : mapping
        Key of a cell -> its bins, see :func:`gpbench.report.scores.calibration`.
    """
    bins = [found[cell.key] for cell in group.finished if cell.key in found]
    if not bins:
        return Reliability([], [], [])
    rows, said, happened = (np.sum([getattr(each, name) for each in bins], axis=0) for name in bins[0]._fields)
    kept = rows >= LEAST
    return Reliability(
        (said[kept] / rows[kept]).tolist(), (happened[kept] / rows[kept]).tolist(), rows[kept].astype(int).tolist()
    )


def figure(groups: Sequence[Group], found: Mapping[str, Calibration]) -> Figure:
    """Error against NLL, and the reliability diagram where probabilities are stored, of one data set's methods.

    Parameters
    ----------
    groups : sequence of Group
        Of one data set, with at least one finished cell each.
    found : mapping
        Key of a cell -> its bins.
    """
    style = styles_of(groups)
    marks = {group.method_label: reliability(group, found) for group in groups}
    both = any(each.rows for each in marks.values())
    with mpl.rc_context(RC):
        width = 7.0 if both else 3.6
        columns, labels, legend = fit_legend([printable(group.method_label) for group in groups], width, most=4)
        drawn = Figure(figsize=(width, 3.0 + legend), layout="constrained")
        axes = drawn.subplots(1, 2 if both else 1, squeeze=False)[0]
        for group, label in zip(groups, labels, strict=True):
            _point(axes[0], group, style[group.method_label], label=label)
        axes[0].set_xlabel(AXIS_LABELS["error"])
        axes[0].set_ylabel(AXIS_LABELS["nll"])
        if both:
            _diagram(axes[1], marks, style)
        drawn.legend(handles=axes[0].get_legend_handles_labels()[0], loc="outside lower left", ncols=columns)
        return drawn


def _point(ax: Axes, group: Group, style: Style, *, label: str) -> None:
    """A method's means over splits, with a standard error each way."""
    error, nll = (statistics([cell.metrics.get(name) for cell in group.finished]) for name in ("error", "nll"))
    root = math.sqrt(len(group.finished))
    x, y = (math.nan if each["mean"] is None else each["mean"] for each in (error, nll))
    wide, high = (math.nan if each["sd"] is None else each["sd"] / root for each in (error, nll))
    ax.errorbar(
        [x],
        [y],
        xerr=[wide],
        yerr=[high],
        color=style.color,
        marker=style.marker,
        linestyle="none",
        elinewidth=0.9,
        label=label,
    )


def _diagram(ax: Axes, marks: Mapping[str, Reliability], style: Mapping[str, Style]) -> None:
    ax.plot([0, 1], [0, 1], color="#8c8c8c", linewidth=0.8)
    for label, each in marks.items():
        mine = style[label]
        ax.plot(
            each.probability,
            each.share,
            color=mine.color,
            linestyle=mine.line,
            marker=mine.marker,
            markersize=4,
            lw=1.1,
        )
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel("probability that was said")
    ax.set_ylabel("share that came true")
