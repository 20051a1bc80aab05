"""Pictures of NLL and error over training time: a panel for each data set, a colour for each method, bands over splits.

A plan's ``render = "curves"`` draws them in its order and labels, and writes the kernels that training ended with
beside them where [figure] asks for it: what a paper says in words about variances and length scales.

matplotlib's object interface is used throughout, without pyplot and its global state.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator

from gpbench.bench.derived.stored import stored_arrays
from gpbench.bench.methods import methods
from gpbench.bench.plan.blocks import swept_words
from gpbench.data.catalogue import entries
from gpbench.errors import UsageError, unknown_name
from gpbench.report.figures.style import (
    AXIS_LABELS,
    LEGEND_ROW,
    RC,
    TITLE_ROW,
    Style,
    check_ending,
    fit_legend,
    log_axis,
    log_ticks,
    picture_bytes,
    save_figure,
    styles_of,
    time_axis,
    time_limits,
    value_limits,
    wrapped_title,
)
from gpbench.report.files import write_atomically
from gpbench.report.groups import Group, disturbed_words, group_cells, is_cut_short
from gpbench.report.notes import head_notes, plan_notes
from gpbench.report.tables.table import NONE, RENDERERS, Display, Line, Number
from gpbench.report.text import DRAWN, csv_text, printable
from gpbench.report.timed import comparable, where_taken
from gpbench.report.traces import SPREADS, Curve, curve_of, in_digits

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from gpbench.bench.cell import Limits
    from gpbench.bench.derived.stored import Arrays
    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.bench.result import Result

__all__ = ["METRICS", "curves_csv", "figure", "hyperparameter_table", "render", "save_curves"]

#: Metric -> label of its axis.
METRICS = {name: AXIS_LABELS[name] for name in ("nll", "error", "accuracy", "bound")}
#: Metrics of which more is better, and what they are measured from: what runs off the scale does so at the bottom.
_MORE = {"accuracy": 1.0, "bound": 0.0}

_DASHED = (0.0, (3.0, 1.5))
#: Beyond so many entries a legend names methods, and how many settings each stands for: variants share its colour.
_ENTRIES = 24
#: Ends of curves that differ by more than this factor are drawn on a logarithmic axis.
_FACTORS = 4.0
#: Markers along a curve stand a share of the panel apart; each method's begin elsewhere, so that lines on one another
#: are told apart, in grey print too.
_APART, _SHIFT = 0.24, 0.06


def figure(
    cells: Iterable[Result],
    metric: str | Sequence[str] = "nll",
    *,
    spread: str = "2se",
    head: str = "",
    notes: Sequence[str] = (),
    paper: Limits | None = None,
    together: Mapping[str, str] | None = None,
) -> Figure:
    """Draw one or several metrics over training time.

    Parameters
    ----------
    cells : iterable of Result
        Stored results; those that have not ended well are left out, and the panel says how many are left.
    metric : str or sequence of str
        Of :data:`METRICS`; several stand side by side.
    spread : str
        Half width of the band: ``"sd"``, ``"2sd"``, ``"se"`` or ``"2se"``.
    head : str
        Above the panels, which then do not name their split.
    notes : sequence of str
        Below the legend.
    paper : Limits, optional
        What a paper's own runs ended by; a curve of which a cell was cut short of that ends in a hollow mark.
    together : mapping, optional
        Panel -> what it belongs to: panels of one share their range of values.

    Raises
    ------
    UsageError
        No finished cells; a panel with times of different processors, which cannot share an axis; an unknown metric or
        spread.
    """
    metrics = (metric,) if isinstance(metric, str) else tuple(metric)
    for each in metrics:
        if each not in METRICS:
            raise UsageError(f"metric must be one of {', '.join(METRICS)}; got {each!r}")
    if spread not in SPREADS:
        raise UsageError(f"spread must be one of {', '.join(SPREADS)}; got {spread!r}")
    groups = [group for group in group_cells(cells) if group.finished]
    if not groups:
        raise UsageError("there are no finished cells to draw")
    panels: dict[tuple[str, str], list[Group]] = defaultdict(list)
    for group in groups:
        panels[group.dataset_label, group.split].append(group)
    alone = len({split for _, split in panels}) == 1
    taken = where_taken(
        {
            dataset if alone else f"{dataset}, {split}": [cell for group in own for cell in group.finished]
            for (dataset, split), own in panels.items()
        }
    )
    with mpl.rc_context(RC):
        finished = [cell for group in groups for cell in group.finished]
        times = "; ".join([taken, *disturbed_words(finished)])
        words = [*notes, f"{times}."]
        return _draw(panels, metrics, spread, words, head=head, paper=paper, together=together or {})


def save_curves(
    cells: Iterable[Result], path: Path, *, metric: str | Sequence[str] = ("nll", "error"), spread: str = "2se"
) -> None:
    """Write the picture of :func:`figure` to a png, pdf or svg file, whole or not at all.

    Raises
    ------
    UsageError
        As :func:`figure`, or the file's ending is none of :data:`gpbench.report.files.PICTURES`.
    StoreError
        The file cannot be written.
    """
    check_ending(path)  # before anything is drawn
    save_figure(figure(cells, metric, spread=spread), path)


def curves_csv(cells: Iterable[Result], metric: str | Sequence[str] = ("nll", "error"), *, spread: str = "2se") -> str:
    """What :func:`figure` draws, as csv: a row a point, with the band's half width; nothing where it is not known."""
    metrics = (metric,) if isinstance(metric, str) else tuple(metric)
    rows: list[list[object]] = [
        ["dataset", "split", "metric", "method", "splits", "train_seconds", "mean", f"band_{spread}"]
    ]
    for group in group_cells(cells):
        for name in metrics if group.finished else ():
            curve = curve_of(group, name, spread=spread)
            what = (group.dataset_label, group.split, name, group.method_label, curve.splits)
            bands = [np.nan] * len(curve.mean) if curve.band is None else curve.band
            points = zip(curve.seconds, curve.mean, bands, strict=True)
            rows += [[*what, *(float(each) if np.isfinite(each) else None for each in point)] for point in points]
    return csv_text(rows, digits=DRAWN)


def _draw(
    panels: Mapping[tuple[str, str], Sequence[Group]],
    metrics: Sequence[str],
    spread: str,
    words: Sequence[str],
    *,
    head: str,
    paper: Limits | None,
    together: Mapping[str, str],
) -> Figure:
    groups = [group for own in panels.values() for group in own]
    across = _across(len(panels), len(metrics))
    columns, rows = across * len(metrics), -(-len(panels) // across)
    width, height = (5.6, 4.0) if rows == columns == 1 else (3.4 * columns + 0.3, 2.6 * rows + 0.9)
    shown = {
        (place, metric): [(group, curve_of(group, metric, spread=spread)) for group in members]
        for place, members in panels.items()
        for metric in metrics
    }
    everything = [pair for own in shown.values() for pair in own]
    cut = {id(group) for group in groups if paper is not None and any(is_cut_short(c, paper) for c in group.finished)}
    banded = any(curve.band is not None for _, curve in everything)
    words = [*words, *([f"Bands: mean ± {in_digits(spread)} over splits."] if banded else [])]
    words = [*words, *(["A hollow mark at the end: cells were cut short by a clock or a count."] if cut else [])]
    words = [*words, *(["Shaded: rates of a grid are tried."] if any(map(_tried, groups)) else [])]
    broken = [line for note in words for line in textwrap.wrap(printable(note), max(40, int(width * 19)))]
    title = wrapped_title(head, width)
    size = (width, height + 0.13 * (len(broken) - 1) + TITLE_ROW * len(title))
    drawn = Figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.07, h_pad=0.06))
    styles = styles_of(groups)
    for index, (dataset, split) in enumerate(panels):
        alike = [
            place
            for place in panels
            if place == (dataset, split) or together.get(place[0], "") == together.get(dataset)
        ]
        for offset, metric in enumerate(metrics):
            ax = drawn.add_subplot(rows, columns, index * len(metrics) + offset + 1)
            _axes(ax, shown[(dataset, split), metric], [c for place in alike for _, c in shown[place, metric]], metric)
            _panel(ax, shown[(dataset, split), metric], styles, more=metric in _MORE, cut=cut)
            ax.set_title(printable(dataset), loc="left")
            if not head:
                ax.set_title(printable(split), loc="right", fontsize=7.5, fontweight="normal", color="#737373")
            if len(metrics) > 1 or index % across == 0:
                ax.set_ylabel(_axis_label(metric, groups))
            if index + across >= len(panels):
                ax.set_xlabel("training time (s)")
    _legend(drawn, everything, styles, words="\n".join(broken))
    if title:
        drawn.suptitle("\n".join(title), x=0.01, ha="left", fontsize=10, fontweight="bold")
    return drawn


def _axis_label(metric: str, groups: Sequence[Group]) -> str:
    """What a metric is called: an objective is a bound, or an estimate of the evidence, or now this and now that."""
    if metric != "bound":
        return METRICS[metric]
    known = methods()
    estimates = {group.method in known and known[group.method].objective == "evidence" for group in groups}
    return "objective (nats)" if len(estimates) > 1 else "log Z_q (nats)" if estimates == {True} else METRICS[metric]


def _tried(group: Group) -> float | None:
    """Seconds (median over splits) until the rates of a grid had been tried; None where there is no grid."""
    seconds = []
    for cell in group.finished:
        rates = int(cell.settings.get("rate_grid") or 0)
        if not rates:
            return None
        most = int(cell.settings["max_iterations"]) // (2 * rates)
        last = rates * min(int(cell.settings["grid_iterations"]), max(1, most))
        seconds += [
            s for s, t in zip(cell.trace["seconds"], cell.trace["iteration"], strict=True) if t >= last
        ][:1]  # fmt: skip
    return median(seconds) if seconds else None


def _axes(ax: Axes, own: Sequence[tuple[Group, Curve]], alike: Sequence[Curve], metric: str) -> None:
    """The axes of a panel: its own times, and the values of all panels that it is compared with."""
    time_axis(ax, time_limits([curve for _, curve in own]))
    low, high = _limits(alike, top=_MORE.get(metric))
    ends = [float(curve.mean[-1]) for curve in alike if np.isfinite(curve.mean[-1])]
    least = min((float(np.nanmin(curve.mean)) for curve in alike if np.isfinite(curve.mean).any()), default=0.0)
    if metric not in _MORE and metric != "bound" and least > 0.0 and max(ends) > _FACTORS * min(ends):
        log_axis(ax, "y", at=FixedLocator(log_ticks(0.85 * least, high)))
        ax.set_ylim(0.85 * least, high)
        return
    ax.set_ylim(low, high)
    ax.yaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 2.5, 5, 10]))


def _panel(
    ax: Axes, curves: Sequence[tuple[Group, Curve]], styles: dict[str, Style], *, more: bool, cut: Container[int]
) -> None:
    """Draw the curves of one metric on one data set; where ``more`` is better what is off the scale is below."""
    until, values = ax.get_xlim()[1], ax.get_ylim()
    notes = []
    most = max(len(group.cells) for group, _ in curves)
    for rank, (group, curve) in enumerate(curves):
        style = styles[group.method_label]
        if curve.band is not None and not curve.is_point:
            low, high = curve.mean - curve.band, curve.mean + curve.band
            ax.fill_between(curve.seconds, low, high, color=style.color, alpha=0.16, linewidth=0)
        if (tried := _tried(group)) is not None:
            ax.axvspan(ax.get_xlim()[0], tried, color=style.color, alpha=0.08, linewidth=0, zorder=0)
        if curve.is_point:
            _point(ax, curve, style, group.method_label, until=until)
        else:
            ax.plot(
                curve.seconds, curve.mean, color=style.color, linestyle=style.line, label=group.method_label,
                marker=style.marker, markersize=3.4, markevery=(_SHIFT * (rank % 4), _APART), markeredgewidth=0.4,
                markeredgecolor="white",
            )  # fmt: skip
            end: Any = {"markerfacecolor": "white", "zorder": 3} if id(group) in cut else {}
            ax.plot(curve.seconds[-1:], curve.mean[-1:], style.marker, color=style.color, markersize=4.2, **end)
        if len(group.finished) < most:
            notes.append(f"{group.method_label}: {len(group.finished)} of {most} splits")
        if not np.isfinite(curve.mean).any():
            notes.append(f"{group.method_label}: not measured")
        elif not ((curve.mean >= values[0]) if more else (curve.mean <= values[1])).any():
            notes.append(f"{group.method_label}: off scale ({curve.mean[-1]:.3g})")
    if notes:
        ax.text(
            0.99,
            0.02 if more else 0.98,
            "\n".join(map(printable, notes)),
            transform=ax.transAxes,
            ha="right",
            va="bottom" if more else "top",
            fontsize=7,
            color="#595959",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0},
        )


def _limits(curves: Sequence[Curve], *, top: float | None) -> tuple[float, float]:
    """Lowest and highest value shown, so that the better end is seen whole.

    Where more is better, values are measured from ``top``: what an accuracy lacks of one is an error, whose scale
    tells an early spike from what is worth seeing.
    """
    if top is None:
        return value_limits(curves)
    low, high = value_limits([replace(curve, mean=top - curve.mean) for curve in curves])
    return top - high, top - low


def _point(ax: Axes, curve: Curve, style: Style, label: str, *, until: float) -> None:
    """A method that is there at once: a marker at its time, and a dashed line from then on."""
    ax.plot([curve.seconds[0], until], [curve.mean[0]] * 2, color=style.color, linestyle=_DASHED, label=label)
    ax.errorbar(
        curve.seconds,
        curve.mean,
        curve.band,
        fmt="D",
        color=style.color,
        markersize=4.2,
        elinewidth=1.0,
        capsize=2.0,
        zorder=3,
    )


def _legend(drawn: Figure, shown: Sequence[tuple[Group, Curve]], styles: dict[str, Style], *, words: str) -> None:
    """Below the panels, never over the data: what must be said, and the methods."""
    moving = {group.method_label for group, curve in shown if not curve.is_point}
    named = {label: (label, style) for label, style in styles.items()}
    if len(named) > _ENTRIES:
        variants: dict[str, list[str]] = defaultdict(list)
        for label, method in {group.method_label: group.method for group, _ in shown}.items():
            variants[method].append(label)
        named = {
            own[0]: (own[0] if len(own) == 1 else f"{method}, {len(own)} settings", styles[own[0]])
            for method, own in variants.items()
        }
    handles = [
        Line2D(
            [], [], color=style.color, linestyle=style.line, marker=style.marker, markersize=3.8, label=printable(text)
        )
        if first in moving
        else Line2D([], [], color=style.color, linestyle=_DASHED, marker="D", markersize=4.2, label=printable(text))
        for first, (text, style) in named.items()
    ]
    width = drawn.get_figwidth()
    columns, labels, high = fit_legend([str(one.get_label()) for one in handles], width, most=max(3, int(width / 2.2)))
    drawn.set_figheight(drawn.get_figheight() + max(0.0, high - 2 * LEGEND_ROW))  # two rows are in the panels' height
    legend = drawn.legend(
        handles=handles,
        labels=labels,
        loc="outside lower center",
        ncols=columns,
        title=words,
        title_fontsize=7,
    )
    legend.get_title().set_color("#737373")


def _across(panels: int, metrics: int) -> int:
    """Data sets side by side."""
    if metrics > 1:
        return 1 if panels <= 3 else 2
    return 2 if panels == 4 else min(panels, 3)


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Draw ``curves.png``, write ``curves.csv`` beside it, and ``hyperparameters.md`` where the plan says so.

    See the registry of renderers.

    Raises
    ------
    UsageError
        No finished cells; a metric that has no curve.
    NotComputed
        The hyper-parameters are not stored.
    """
    plan = found.plan
    metrics = [name for name in plan.metrics if name != "train_seconds"]
    for name in metrics:
        if name not in METRICS:
            raise UsageError(f"{plan.path}: render = 'curves' draws {', '.join(METRICS)}; got {name}")
    panels = plan.figure.get("panels")
    if panels is not None and panels not in plan.sweep:
        raise UsageError(f"{plan.path}: [figure]: panels: {unknown_name('swept name', str(panels), plan.sweep)}")
    labelled = [_labelled(cell, panels, plan.figure.get("title")) for cell in found.results]
    head, *cut = head_notes(plan)
    absent = {cell.shown.dataset for cell in labelled if not cell.finished}
    absent -= {cell.shown.dataset for cell in labelled if cell.finished}
    lost = [f"{name}: no cell ended well" for name in sorted(absent)]
    both = zip(found.results, labelled, strict=True)
    alike = {} if panels is None else {b.shown.dataset: a.shown.dataset for a, b in both}
    labelled, apart = comparable(labelled)
    drawn = figure(
        labelled, metrics, spread=plan.spread, head=head, notes=[*cut, *lost, *apart, *plan_notes(plan)],
        paper=plan.paper_limits, together=alike,
    )  # fmt: skip
    table = folder / "hyperparameters.md"
    written = {folder / f"curves{ending}": picture_bytes(drawn, ending) for ending in found.pictures}
    written[folder / "curves.csv"] = curves_csv(labelled, metrics, spread=plan.spread).encode()
    if plan.figure.get("hyperparameters", False):
        written[table] = RENDERERS["markdown"](hyperparameter_table(found.results, stored_arrays(found))).encode()
    for path, content in written.items():
        write_atomically(path, content)
    return list(written)


def _labelled(cell: PlanResult, panels: str | None, title: str | None) -> PlanResult:
    """The cell with the panel's title as its data set, and without what that says in its method's label."""
    dataset, method, sweep = cell.shown.dataset, cell.shown.method, cell.shown.sweep
    if panels is not None and panels in sweep:
        rest = {name: value for name, value in sweep.items() if name != panels}
        dataset += f", {swept_words({panels: sweep[panels]})}"
        method = f"{cell.shown.variant}, {swept_words(rest)}" if rest else cell.shown.variant
    if title is not None:
        entry = entries().get(cell.dataset)
        dataset = title.format(
            dataset=dataset,
            n=cell.provenance.get("data", {}).get("rows", "?"),
            d="?" if entry is None else entry.d,
            m=cell.settings.get("inducing", "?"),
        )
    return replace(cell, shown=replace(cell.shown, dataset=dataset, method=method))


def hyperparameter_table(cells: Sequence[PlanResult], arrays: Arrays) -> Display:
    """A row for each hyper-parameter, method and data set: its median over splits, and the least and largest value.

    Parameters
    ----------
    cells : sequence of Result
        As renderers get them; models without kernels have no rows.
    arrays : mapping
        Of :func:`gpbench.bench.derived.steps.hyperparameters`.
    """
    known: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for key, latent, name, value in zip(*(arrays[each] for each in ("cell", "latent", "name", "value")), strict=True):
        known[key].append((f"f{latent + 1} {name}" if latent else str(name), float(value)))
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for cell in cells:
        for name, value in known.get(cell.key, ()):
            found[cell.shown.dataset, cell.shown.method, name].append(value)
    lines = [
        Line(
            (dataset, method, name, str(len(values))),
            (Number(f"{median(values):.4g}"), Number(_range(values))),
        )
        for (dataset, method, name), values in found.items()
    ]
    return Display(
        word_heads=("data set", "method", "hyper-parameter", "splits"),
        number_heads=("median", "range"),
        lines=tuple(lines),
        best="",
        notes=("Length scales are of the scaled inputs.",),
    )


def _range(values: Sequence[float]) -> str:
    return NONE if len(values) == 1 else f"{min(values):.4g} to {max(values):.4g}"
