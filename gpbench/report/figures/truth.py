"""``render = "truth"``: how far methods are from reference posteriors, as tables and as a picture.

A row of panels for each link, a column for each measure, a mark for each method and problem: filled where M = n or the
method has no inducing inputs, open for fewer. Beside ``ITEM.png`` stand the tables, and ``ITEM.csv`` with every number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.lines import Line2D

from gpbench.report.figures.series import finish, handle, new_figure, series_of, series_styles, write_picture
from gpbench.report.figures.style import RC, log_axis
from gpbench.report.tables.table import write_tables
from gpbench.report.tables.truth import rows_of, truth_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.report.figures.style import Style
    from gpbench.report.tables.truth import Row

__all__ = ["render"]

#: Measure -> label of its axis, and the least value that is drawn.
PANELS = {
    "kl": ("KL of marginals (nats)", 1e-6),
    "probability": ("largest |Δ probability|", 1e-5),
    "gap": ("|log evidence - bound| (nats)", 1e-3),
}


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write tables and picture; see :mod:`gpbench.report.plan.renderers`."""
    rows = rows_of(found)
    written = write_tables(folder, lambda form: truth_text(found, rows, form))
    numbers = truth_text(found, rows, "csv")
    return [*written, *write_picture(picture(found, rows), found, folder, numbers=numbers)]


def picture(found: PlanCells, rows: Sequence[Row]) -> Figure:
    """The picture."""
    links = sorted({row.link for row in rows})
    problems = list(dict.fromkeys(row.problem for row in rows))
    styles = series_styles(series_of(found.results))
    labels = list(dict.fromkeys(row.label for row in rows))
    with mpl.rc_context(RC):
        drawn = new_figure(len(PANELS), max(len(links), 1), width=3.6, height=2.5)
        for line, link in enumerate(links):
            for column, measure in enumerate(PANELS):
                ax = drawn.add_subplot(len(links), len(PANELS), line * len(PANELS) + column + 1)
                own = [row for row in rows if row.link == link]
                _panel(ax, own, measure, problems=problems, labels=labels, styles=styles)
                ax.set_title(link, loc="left")
        open_mark = Line2D(
            [], [], linestyle="none", marker="o", markerfacecolor="none", color="#595959", label="fewer inducing inputs"
        )
        handles = [handle(label, styles[label]) for label in labels]
        return finish(
            drawn, found.plan, [*handles, open_mark], notes=["Filled: M = n, or no inducing inputs. Test rows."]
        )


def _panel(
    ax: Axes,
    rows: Sequence[Row],
    measure: str,
    *,
    problems: Sequence[str],
    labels: Sequence[str],
    styles: Mapping[str, Style],
) -> None:
    name, least = PANELS[measure]
    for row in rows:
        value = getattr(row, measure)
        style = styles[row.label]
        if value is None:
            continue
        place = problems.index(row.problem) + 0.7 * ((labels.index(row.label) + 0.5) / len(labels) - 0.5)
        face = style.color if row.whole else "none"
        ax.plot(
            [place], [max(abs(value), least)], style.marker, color=style.color, markerfacecolor=face, markersize=4.0
        )
    log_axis(ax, "y")
    ax.set_ylabel(name)
    ax.set_xticks(range(len(problems)), problems, rotation=30, ha="right", fontsize=7)
    ax.set_xlim(-0.6, len(problems) - 0.4)
