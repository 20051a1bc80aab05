"""``render = "rivals"``: methods against rivals, in time to the best rival's NLL and in the NLL at the end.

A method's end on a split is the median NLL of its last three looks. The goal is 1.02 times the lowest end of any
*rival* on that split: picked afterwards, which favours the rivals. A method arrives as
:func:`gpbench.report.compare.attainment.arrival` says, and stays from the look after which no median of three looks is
above the goal. Seconds are medians over splits, ends are means; a ratio is the seconds of the fastest rival over the
method's own. Beside the tables stands ``ITEM.csv``, a row for each method and split.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timedelta
from statistics import fmean, geometric_mean, median
from typing import TYPE_CHECKING

import numpy as np

from gpbench.errors import UsageError, unknown_name
from gpbench.report.compare.attainment import FACTOR, arrival, end_of, median_time, stays
from gpbench.report.files import write_atomically
from gpbench.report.groups import disturbed_words, processors_of
from gpbench.report.notes import plan_notes
from gpbench.report.tables.lines import head_words
from gpbench.report.tables.table import NONE, RENDERERS, Display, Line, Number, write_tables
from gpbench.report.text import csv_text
from gpbench.report.traces import trace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from gpbench.bench.plan.cells import PlanCells, PlanResult

__all__ = ["Run", "Standing", "displays", "render", "runs_of", "standings"]

_NOTES = (
    (
        "On the clock: training, the choice of inducing inputs included, in processor seconds of the process that "
        "trains. Not on it: loading, looks, and a rival's start-up and compilation, whose wall seconds have a column."
    ),
    (
        "Goal: 1.02 times the lowest end of any rival on each split, picked afterwards. End: median NLL of the last "
        "three looks. First: the look at the goal, alone and as the median of three; stays: from there no such median "
        "is above it."
    ),
    (
        "Times the fastest rival: its seconds over the method's, 0 where the method never arrives or stays, none where "
        "no rival stays. Falling: how far above its end the method was at half its time."
    ),
)

_APART = timedelta(minutes=10)
"""Cells of a split that are further apart do not share a busy minute."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished cell.

    Attributes
    ----------
    dataset, label : str
    rival : bool
    split : int
    goal : float
        Nats.
    first, stays : float
        Training seconds to the goal, and from which on it is kept; infinite where never.
    end, error : float
    falling : float
        End at half the time over the end, less 1.
    seconds : float
        Of training.
    step_us : float
        Seconds of a step, from the first look to the last; NaN where there is one look.
    apart : float
        Wall seconds of start-up and compilation.
    stopped_by, clock : str
    """

    dataset: str
    label: str
    rival: bool
    split: int
    goal: float
    first: float
    stays: float
    end: float
    error: float
    falling: float
    seconds: float
    step_us: float
    apart: float
    stopped_by: str
    clock: str


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A method on a data set, over splits.

    Attributes
    ----------
    dataset, label : str
    rival : bool
    splits : int
    first, stays, end, falling, seconds, step_us, apart : float
        As those of a run.
    times_first, times_stays : float
        How many times sooner than the fastest rival: 0 where it never is, NaN where no rival is.
    excess : float
        End over the lowest of a rival's, less 1.
    """

    dataset: str
    label: str
    rival: bool
    splits: int
    first: float
    stays: float
    end: float
    falling: float
    seconds: float
    step_us: float
    apart: float
    times_first: float
    times_stays: float
    excess: float


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write the tables; see :mod:`gpbench.report.plan.renderers`.

    Raises
    ------
    UsageError
        The plan names no rivals, or one that is no table of its methods.
    """
    runs, shown = runs_of(found), displays(found)
    written = write_tables(
        folder,
        lambda form: "\n".join([head_words(found.plan, form) + "\n", *(RENDERERS[form](each) for each in shown)]),
    )
    path = folder / f"{found.plan.item}.csv"
    heads = [each.name for each in fields(Run)]
    write_atomically(path, csv_text([heads, *(list(asdict(run).values()) for run in runs)]))
    return [*written, path]


def runs_of(found: PlanCells) -> list[Run]:
    """The finished cells of splits on which a rival has finished."""
    names = _rivals(found)
    runs = []
    for cells in _by_unit(found.results).values():
        finished = [cell for cell in cells if cell.finished]
        ends = [end_of(trace_of(cell, "nll").values) for cell in finished if cell.shown.name in names]
        lowest = min(ends, default=math.inf)
        if math.isfinite(lowest):
            runs += [_run(cell, rival=cell.shown.name in names, goal=FACTOR * lowest) for cell in finished]
    order = {label: place for place, label in enumerate(dict.fromkeys(cell.shown.method for cell in found.results))}
    sets = {label: place for place, label in enumerate(dict.fromkeys(cell.shown.dataset for cell in found.results))}
    return sorted(runs, key=lambda run: (sets[run.dataset], order[run.label], run.split))


def _by_unit(cells: Iterable[PlanResult]) -> dict[tuple[object, ...], list[PlanResult]]:
    """Cells that may be set beside one another: of one data set, with the same split and seeds."""
    groups: dict[tuple[object, ...], list[PlanResult]] = defaultdict(list)
    for cell in cells:
        groups[cell.dataset, *cell.unit].append(cell)
    return groups


def standings(runs: Sequence[Run]) -> list[Standing]:
    """Each method on each data set, in the runs' order; only on splits that all of them have."""
    found = []
    for dataset in dict.fromkeys(run.dataset for run in runs):
        own = [run for run in runs if run.dataset == dataset]
        labels = dict.fromkeys(run.label for run in own)
        common = set.intersection(*({run.split for run in own if run.label == label} for label in labels))
        groups = [(label, [run for run in own if run.label == label and run.split in common]) for label in labels]
        rivals = [group for _, group in groups if group and group[0].rival]
        if not rivals:
            continue
        best = {name: min(_median(group, name) for group in rivals) for name in ("first", "stays")}
        lowest = min(fmean(run.end for run in group) for group in rivals)
        for label, group in groups:
            first, stay, end = _median(group, "first"), _median(group, "stays"), fmean(run.end for run in group)
            found.append(
                Standing(
                    dataset=dataset,
                    label=label,
                    rival=group[0].rival,
                    splits=len(group),
                    first=first,
                    stays=stay,
                    end=end,
                    falling=fmean(run.falling for run in group),
                    seconds=median(run.seconds for run in group),
                    step_us=median(run.step_us for run in group),
                    apart=median(run.apart for run in group),
                    times_first=_times(best["first"], first),
                    times_stays=_times(best["stays"], stay),
                    excess=end / lowest - 1.0,
                )
            )
    return found


def _rivals(found: PlanCells) -> set[str]:
    plan = found.plan
    names = plan.figure.get("rivals")
    if not isinstance(names, list | tuple) or not names:
        raise UsageError(f'{plan.path}: [figure]: render = "rivals" expects rivals, a list of tables of [methods]')
    known = {table.name for table in plan.methods}
    declared = {str(name) for name in names}
    if not declared & known:  # some may be gone, of a plan that the command line has cut to some methods
        raise unknown_name("table of [methods]", min(declared), known)
    return declared & known


def _run(cell: PlanResult, *, rival: bool, goal: float) -> Run:
    trace = trace_of(cell, "nll")
    end = end_of(trace.values)
    seconds = float(trace.seconds[-1])
    iterations = cell.trace["iteration"]
    steps = iterations[-1] - iterations[0] if iterations else 0
    half = end_of(trace.values[trace.seconds <= 0.5 * seconds])
    apart = float(cell.metrics.get("startup_seconds") or 0.0) + float(cell.metrics.get("compile_seconds") or 0.0)
    error = cell.metrics.get("error")
    return Run(
        dataset=cell.shown.dataset,
        label=cell.shown.method,
        rival=rival,
        split=cell.split.index,
        goal=goal,
        first=arrival(trace, goal),
        stays=stays(trace, goal),
        end=end,
        error=math.nan if error is None else float(error),
        falling=half / end - 1.0,
        seconds=seconds,
        step_us=1e6 * float(trace.seconds[-1] - trace.seconds[0]) / steps if steps else math.nan,
        apart=apart,
        stopped_by=cell.stopped_by or "unknown",
        clock=cell.clock or "wall",
    )


def _median(group: Sequence[Run], name: str) -> float:
    return median_time(np.array([getattr(run, name) for run in group]))


def _times(best: float, own: float) -> float:
    if not math.isfinite(best):
        return math.nan
    return best / own if math.isfinite(own) and own > 0.0 else 0.0


def _untimed(row: Standing) -> Standing:
    """Without times."""
    gone = math.nan
    timeless = replace(row, first=gone, stays=gone, times_first=gone, times_stays=gone)
    return replace(timeless, seconds=gone, step_us=gone, apart=gone)


def displays(found: PlanCells) -> list[Display]:
    """The tables: over all data sets, and of each.

    Raises
    ------
    UsageError
        As :func:`render`.
    """
    rows = standings(runs_of(found))
    failed = [
        f"{cell.shown.method} on {cell.shown.dataset}, split {cell.split.index + 1}: "
        f"{cell.problem.message if cell.problem else cell.status}."
        for cell in found.results
        if not cell.finished
    ]
    finished = [cell for cell in found.results if cell.finished]
    cpus = processors_of(finished)
    if len(cpus) > 1:  # times of several do not compare
        rows = [_untimed(row) for row in rows]
        clocks = [f"No times are shown: the cells ran on different processors ({'; '.join(cpus)})."]
    else:
        clocks = [f"Times were taken on {cpus[0]}." for _ in cpus] + [f"{each}." for each in disturbed_words(finished)]
    notes = (
        *_NOTES,
        *(each[0].upper() + each[1:] for each in clocks),
        *_unpaired(found),
        *failed,
        *plan_notes(found.plan),
        *_not_run(found),
    )
    return [_summary(rows), _sets(rows, notes)]


def _unpaired(found: PlanCells) -> list[str]:
    """Methods that ran at another time than all rivals of their split: a machine is not equally fast all day."""
    names = _rivals(found)
    finished = [cell for cell in found.results if cell.finished and {"start", "end"} <= set(cell.provenance)]
    ran: dict[str, list[bool]] = defaultdict(list)
    for cells in _by_unit(finished).values():
        others = [_span(cell) for cell in cells if cell.shown.name in names]
        for start, end, label in ((*_span(cell), cell.shown.method) for cell in cells if others):
            ran[label].append(all(max(start - later, sooner - end) > _APART for sooner, later in others))
    return [
        f"On {sum(apart)} of {len(apart)} splits {label} ran more than {_APART.seconds // 60} minutes before or after "
        "all rivals: its × there compare different hours of the machine."
        for label, apart in ran.items()
        if any(apart)
    ]


def _span(cell: PlanResult) -> tuple[datetime, datetime]:
    start, end = (datetime.fromisoformat(str(cell.provenance[name])) for name in ("start", "end"))
    return start, end


def _not_run(found: PlanCells) -> list[str]:
    """Methods and data sets of the plan that have no cells or too few, in sentences."""
    plan = found.plan
    ran = {cell.shown.name for cell in found.results}
    splits = Counter((cell.shown.dataset, cell.shown.name) for cell in found.results)
    most = {label: max(n for (one, _), n in splits.items() if one == label) for label, _ in splits}
    labels = [table.label for table in plan.methods if table.name not in ran]
    labels += [label for label in map(plan.dataset_label, plan.datasets) if label not in most]
    said = [f"Planned and not run: {'; '.join(labels)}."] if labels else []
    for label, n in most.items():
        few = [(table.label, splits[label, table.name]) for table in plan.methods if table.name in ran]
        names = [name + f" ({k} of {n} splits run)" * bool(k) for name, k in few if k < n]
        said += [f"On {label} not run: {'; '.join(names)}."] if names else []
    return said


def _summary(rows: Sequence[Standing]) -> Display:
    """Over data sets."""
    lines = []
    for label in dict.fromkeys(row.label for row in rows if not row.rival):
        own = [row for row in rows if row.label == label]
        kept = [row.times_stays for row in own if not math.isnan(row.times_stays)]
        numbers = (
            *(_mean_ratio([getattr(row, name) for row in own]) for name in ("times_first", "times_stays")),
            f"{min(kept):.1f}" if kept else NONE,
            f"{sum(value > 0.0 for value in kept)} of {len(kept)}",
            f"{sum(row.excess <= 0.0 for row in own)} of {len(own)}",
            f"{100 * max(row.excess for row in own):+.1f}",
        )
        lines.append(Line((label, str(len(own))), tuple(Number(each) for each in numbers)))
    return Display(
        word_heads=("method", "sets"),
        number_heads=("× first", "× stays", "least", "stays on", "end ≤ best", "worst (%)"),
        lines=tuple(lines),
        best="",
        notes=(
            (
                "Over data sets, against the fastest and the best rival of each. × are geometric means over the sets "
                "where it arrives (stays); least is of × stays over all sets, 0 being never; worst: its end over the "
                "best rival's."
            ),
        ),
    )


def _sets(rows: Sequence[Standing], notes: tuple[str, ...]) -> Display:
    lines = []
    for row in rows:
        ratios = [
            NONE if row.rival or math.isnan(each) else f"{each:.1f}" for each in (row.times_first, row.times_stays)
        ]
        numbers = (
            *(_seconds(each) for each in (row.first, row.stays)),
            *ratios,
            f"{row.end:.4f}",
            f"{100 * row.excess:+.1f}",
            f"{100 * row.falling:.1f}",
            _seconds(row.seconds),
            NONE if math.isnan(row.step_us) else f"{row.step_us:.0f}",
            f"{row.apart:.1f}" if row.rival and not math.isnan(row.apart) else NONE,
        )
        lines.append(Line((row.dataset, row.label, str(row.splits)), tuple(Number(each) for each in numbers)))
    return Display(
        word_heads=("data set", "method", "splits"),
        number_heads=(
            "first (s)", "stays (s)", "× first", "× stays", "end NLL", "to best (%)", "falling (%)", "ran (s)",
            "step (µs)", "start, compile (s)",
        ),
        lines=tuple(lines),
        best="",
        notes=notes,
    )  # fmt: skip


def _mean_ratio(values: Sequence[float]) -> str:
    known = [value for value in values if value > 0.0]  # NaN is not
    return f"{geometric_mean(known):.1f}" if known else NONE


def _seconds(value: float) -> str:
    if math.isnan(value):
        return NONE
    return "never" if math.isinf(value) else f"{value:.3g}"
