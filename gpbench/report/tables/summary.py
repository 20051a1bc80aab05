"""Numbers over splits: mean and standard deviation of each group of cells, and what failed.

Nothing is imputed: a failed cell takes part in no mean and is counted instead, and a finished cell whose number is not
finite makes the mean not finite (null).
"""

from __future__ import annotations

import math
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, NotRequired, TypedDict

from gpbench.bench.metrics import metrics
from gpbench.report.groups import Group, group_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpbench.bench.result import Result

__all__ = ["Row", "Statistics", "middle", "over_splits", "processors", "statistics", "summarise", "value_of"]


class Statistics(TypedDict):
    """Mean and standard deviation (divisor n - 1) over splits; None where there is none."""

    mean: float | None
    sd: float | None


class Row(TypedDict):
    """One method on one data set.

    ``method_label`` and ``dataset_label`` are the ids with what tells rows of one id apart. ``splits`` has seed and
    index of each cell; ``cells`` counts the failed ones too; ``outcomes`` counts cells by status, ``problems`` by error
    message, ``stopped_by`` finished cells by what ended their training. ``brier``, ``ece``, ``auc`` and
    ``average_precision`` (two classes) are known for cells from :func:`gpbench.report.scores.with_scores`;
    ``one_class`` counts those whose test rows are of one class, where others have an AUC. ``processors`` and
    ``threads`` name what the times were taken on and with; times of several are not averaged. ``jobs`` is the largest
    number of cells that ran at once; ``disturbed`` says what the clocks have against the times; ``settings`` are those
    that have a value, ``details`` what differs from other rows of the method and is not in the label; ``decisions``
    what preparation decided about the data set by itself; ``more`` has third parties' metrics, where there are any.
    """

    dataset: str
    dataset_label: str
    method: str
    method_label: str
    settings: dict[str, str]
    details: list[str]
    split: str
    seeds: list[int]
    splits: list[tuple[int, int]]
    cells: int
    failed: int
    outcomes: dict[str, int]
    problems: dict[str, int]
    stopped_by: dict[str, int]
    nll: Statistics
    error: Statistics
    brier: Statistics
    ece: Statistics
    auc: Statistics
    one_class: int
    average_precision: Statistics
    train_seconds: Statistics
    processors: list[str]
    threads: list[int]
    jobs: int
    decisions: list[str]
    disturbed: list[str]
    more: NotRequired[dict[str, Statistics]]


def summarise(cells: Iterable[Result]) -> list[Row]:
    """A row for each data set and method-with-settings, in the order of their names.

    Parameters
    ----------
    cells : iterable of Result
        In any order.

    Returns
    -------
    list of dict
        NLL in nats, error as a fraction, training time in seconds.
    """
    return [_row(group) for group in group_cells(cells)]


def statistics(values: Sequence[float | None]) -> Statistics:
    """Mean and standard deviation over splits.

    The sums are exact before they are rounded (``math.fsum``), so that the order of the values plays no part. One value
    has no standard deviation; a value that is None (not finite) leaves neither.
    """
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return {"mean": None, "sd": None}
    mean = math.fsum(numbers) / len(numbers)
    if len(numbers) == 1:
        return {"mean": mean, "sd": None}
    return {"mean": mean, "sd": math.sqrt(math.fsum((value - mean) ** 2 for value in numbers) / (len(numbers) - 1))}


def over_splits(
    values: Sequence[float | None], *, centre: str, spread: str
) -> tuple[float | None, float | None, float | None]:
    """Centre, spread and standard error of the mean over splits.

    All None where there is no value, or one of them is None; the last two of a single one.

    Parameters
    ----------
    values : sequence of float or None
    centre : str
        ``mean`` or ``median``.
    spread : str
        ``sd``, ``2sd``, ``se`` or ``2se``: standard deviations, or standard errors of the mean.
    """
    known = statistics(values)
    if known["mean"] is None:
        return None, None, None
    place = middle([value for value in values if value is not None], centre)
    if known["sd"] is None:
        return place, None, None
    error = known["sd"] / math.sqrt(len(values))
    return place, (2.0 if spread.startswith("2") else 1.0) * (error if spread.endswith("se") else known["sd"]), error


def middle(values: Sequence[float], centre: str) -> float:
    """``mean`` or ``median`` of some numbers."""
    return median(values) if centre == "median" else math.fsum(values) / len(values)


def value_of(cell: Result, metric: str) -> float | None:
    """A cell's number; None where there is none. An accuracy is what an error lacks of one."""
    name = "error" if metric == "accuracy" else metric
    value = cell.metrics.get(name)
    return value if value is None or metric != "accuracy" else 1.0 - value


def processors(rows: Iterable[Row]) -> list[str]:
    """Every processor that times of these rows were taken on; more than one means that times do not compare."""
    return sorted({name for row in rows for name in row["processors"]})


def _row(group: Group) -> Row:
    finished = group.finished
    outcomes = Counter(cell.status for cell in group.cells)
    areas = [cell.metrics.get("auc") for cell in finished]
    timed = len(group.processors) == len(group.threads) == 1
    row: Row = {
        "dataset": group.dataset,
        "dataset_label": group.dataset_label,
        "method": group.method,
        "method_label": group.method_label,
        "settings": group.settings,
        "details": list(group.details),
        "split": group.split,
        "seeds": group.seeds,
        "splits": sorted((cell.split.seed, cell.split.index) for cell in group.cells),
        "cells": len(group.cells),
        "failed": len(group.cells) - outcomes["ok"],
        "outcomes": dict(sorted(outcomes.items())),
        "problems": dict(Counter(_problem(cell) for cell in group.cells if not cell.finished)),
        "stopped_by": dict(sorted(Counter(str(cell.stopped_by) for cell in finished).items())),
        "nll": statistics([cell.metrics["nll"] for cell in finished]),
        "error": statistics([cell.metrics["error"] for cell in finished]),
        "brier": statistics([cell.metrics.get("brier") for cell in finished]),
        "ece": statistics([cell.metrics.get("ece") for cell in finished]),
        "auc": statistics(areas),
        "one_class": areas.count(None) if any(area is not None for area in areas) else 0,
        "average_precision": statistics([cell.metrics.get("average_precision") for cell in finished]),
        "train_seconds": statistics([cell.metrics["train_seconds"] for cell in finished if timed]),
        "processors": group.processors,
        "threads": group.threads,
        "jobs": max((cell.jobs for cell in finished), default=1),
        "disturbed": group.disturbed,
        "decisions": list(dict.fromkeys(words for cell in group.cells for words in cell.decisions)),
    }
    if metrics():
        row["more"] = {name: statistics([cell.metrics.get(name) for cell in finished]) for name in metrics()}
    return row


def _problem(cell: Result) -> str:
    """Why a cell did not end well, in one line."""
    if cell.problem is None:
        return cell.status
    return " ".join(str(cell.problem).split())
