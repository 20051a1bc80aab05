"""The measures that decide the papers' claims from a picture's arrays (:mod:`gpbench.bench.derived.steps`)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpbench.bench.derived.stored import stored_arrays
from gpbench.bench.truth.measures import Distance
from gpbench.errors import NotComputed, UsageError
from gpbench.report.plan.checks import Check, each_group, missing, shared_splits, shown, told, unusable
from gpbench.report.plan.numbers import entries_of
from gpbench.report.tables.summary import statistics, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gpbench.bench.derived.stored import Arrays
    from gpbench.bench.plan.cells import PlanCells, PlanResult
    from gpbench.report.plan.checks import Group
    from gpbench.report.tables.summary import Statistics

__all__ = [
    "agrees_with",
    "contracts",
    "distance",
    "logged_as_printed",
    "moves_to_boundary",
    "nearer_boundary",
    "nearer_truth",
    "negligible",
    "on_top",
]


def _arrays(found: PlanCells) -> Arrays | None:
    """The arrays of a plan's picture; None where they have not been computed."""
    try:
        return stored_arrays(found)
    except NotComputed:
        return None


def _absent(found: PlanCells) -> list[Check]:
    return [Check(f"{found.plan.id}: its arrays are not computed", None, measured=False)]


def moves_to_boundary(
    found: PlanCells, *, method: str, others: Sequence[str], at: Mapping[str, Any] | None = None
) -> list[Check]:
    """A method's inducing inputs end nearer to the boundary than they began, and have come nearer than others' have.

    Nearness is the mean of |p - 1/2| of the trained posterior at the inducing inputs.
    """
    arrays = _arrays(found)
    if arrays is None:
        return _absent(found)
    checks = []
    for group in each_group(found, (method, *others), at=at):
        if gap := missing(group):
            checks.append(gap)
            continue
        ways = {
            name: (_lead(arrays, own[0], "lead_start"), _lead(arrays, own[0], "lead"))
            for name, own in group.cells.items()
        }
        words = ", ".join(f"{name} {shown(start / 2)} to {shown(end / 2)}" for name, (start, end) in ways.items())
        nearer = {name: start - end for name, (start, end) in ways.items()}
        holds = nearer[method] > max(0.0, *(nearer[name] for name in others))
        checks.append(_told(group, f"{group.label}: |p - 1/2| {words}", *nearer.values(), holds=holds))
    return checks


def nearer_boundary(
    found: PlanCells, *, method: str, others: Sequence[str], at: Mapping[str, Any] | None = None
) -> list[Check]:
    """A method's inducing inputs lie nearer to the boundaries than each other's, by the lead of the likeliest class."""
    arrays = _arrays(found)
    if arrays is None:
        return _absent(found)
    checks = []
    for group in each_group(found, (method, *others), at=at):
        if gap := missing(group):
            checks.append(gap)
            continue
        leads = {name: _lead(arrays, own[0], "lead") for name, own in group.cells.items()}
        words = ", ".join(f"{name} {shown(lead)}" for name, lead in leads.items())
        holds = all(leads[method] < leads[name] for name in others)
        checks.append(_told(group, f"{group.label}: lead at the inducing inputs {words}", *leads.values(), holds=holds))
    return checks


def on_top(
    found: PlanCells, *, methods: Sequence[str], other: str, factor: float = 2.0, at: Mapping[str, Any] | None = None
) -> list[Check]:
    """Each of some methods lays its inducing inputs ``factor`` times as close to one another as another method does.

    Closeness is the median distance of an inducing input to the nearest other one of any class, in scaled inputs.
    """
    arrays = _arrays(found)
    if arrays is None:
        return _absent(found)
    checks = []
    for group in each_group(found, (*methods, other), at=at):
        if gap := missing(group):
            checks.append(gap)
            continue
        near = {name: _closeness(arrays, own[0]) for name, own in group.cells.items()}
        words = ", ".join(f"{name} {shown(each)}" for name, each in near.items())
        holds = all(near[name] * factor <= near[other] for name in methods)
        checks.append(_told(group, f"{group.label}: distance to the nearest {words}", *near.values(), holds=holds))
    return checks


def _sets(arrays: Arrays, cell: PlanResult, what: str) -> Iterator[np.ndarray[Any, np.dtype[np.float64]]]:
    number = 0
    while (one := arrays.get(f"{cell.key}/{what}/{number}")) is not None:
        yield one
        number += 1


def _lead(arrays: Arrays, cell: PlanResult, what: str) -> float:
    return float(np.mean(np.concatenate([np.empty(0), *_sets(arrays, cell, what)])))


def _closeness(arrays: Arrays, cell: PlanResult) -> float:
    Z = np.concatenate([np.empty((0, 2)), *_sets(arrays, cell, "inducing")])
    if len(Z) < 2:
        return float("nan")
    distance = np.sqrt(((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    np.fill_diagonal(distance, np.inf)
    return float(np.median(distance.min(axis=1)))


def _told(group: Group, words: str, *numbers: float, holds: bool) -> Check:
    """What numbers of the panels say, which show the first split of each method."""
    return told(
        replace(group, cells={name: own[:1] for name, own in group.cells.items()}), words, *numbers, holds=holds
    )


def agrees_with(
    found: PlanCells, *, method: str, truth: str, correlation: float = 0.99, difference: float = 0.05
) -> list[Check]:
    """Latent means and variances correlate with the truth's, and no probability differs by more than ``difference``."""
    arrays = _arrays(found)
    if arrays is None:
        return _absent(found)
    checks = []
    for group in each_group(found, (method, truth)):
        pairs = shared_splits(group.cells[method], group.cells[truth])
        if gap := unusable(group, pairs):
            checks.append(gap)
            continue
        for name in ("mean", "variance"):
            ours, theirs = _joined(arrays, pairs, name)
            found_r = float(np.corrcoef(ours, theirs)[0, 1])
            words = f"{group.label}: correlation of {method}'s {name}s {found_r:.4f}"
            checks.append(told(group, words, found_r, holds=found_r >= correlation))
        ours, theirs = _joined(arrays, pairs, "probability")
        largest = float(np.abs(ours - theirs).max())
        words = f"{group.label}: largest difference of {method}'s probabilities {shown(largest)}"
        checks.append(told(group, words, largest, holds=largest <= difference))
    return checks


def _joined(
    arrays: Arrays, pairs: Sequence[tuple[PlanResult, ...]], name: str
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], ...]:
    return tuple(np.concatenate([arrays[f"{cell.key}/{name}"] for cell in cells]) for cells in zip(*pairs, strict=True))


def distance(
    found: PlanCells,
    *,
    method: str,
    quantity: str,
    at_least: float = 0.0,
    at_most: float = math.inf,
    at: Mapping[str, Any] | None = None,
) -> list[Check]:
    """A method's median distance from the reference posteriors of the test rows, on each problem, within two bounds."""
    _check_quantity(quantity)
    arrays = _arrays(found)
    if arrays is None:
        return _absent(found)
    checks = []
    for group in each_group(found, (method,), at=at):
        if gap := missing(group):
            checks.append(gap)
            continue
        value = float(np.median([_distance(arrays, cell, quantity) for cell in group.cells[method]]))
        words = f"{group.label}: {method} {quantity} {shown(value)}"
        checks.append(told(group, words, value, holds=at_least <= value <= at_most))
    return checks


def nearer_truth(
    found: PlanCells, *, first: str, second: str, quantity: str = "kl", at: Mapping[str, Any] | None = None
) -> list[Check]:
    """The first is nearer to the reference posteriors of the test rows than the second, by medians of common splits.

    Raises
    ------
    UsageError
        The two have other reference posteriors, or the quantity is none.
    """
    _check_quantity(quantity)
    arrays = _arrays(found)
    if arrays is None:
        return _absent(found)
    checks = []
    for group in each_group(found, (first, second), at=at):
        pairs = shared_splits(group.cells[first], group.cells[second])
        if gap := unusable(group, pairs):
            checks.append(gap)
            continue
        for pair in pairs:
            one, other = (str(arrays["link"][_row(arrays, cell)]) for cell in pair)
            if one != other:
                raise UsageError(f"{found.plan.id}: {first} has reference posteriors of {one}, {second} of {other}")
        ours, theirs = (float(np.median([_distance(arrays, pair[k], quantity) for pair in pairs])) for k in (0, 1))
        nearer = abs(math.log(ours)) < abs(math.log(theirs)) if quantity == "sd" else ours < theirs
        words = f"{group.label}: {quantity} {first} {shown(ours)}, {second} {shown(theirs)}"
        checks.append(told(group, words, ours, theirs, holds=nearer))
    return checks


def _check_quantity(quantity: str) -> None:
    if quantity not in Distance._fields:
        raise UsageError(f"quantity must be one of {', '.join(Distance._fields)}; got {quantity!r}")


def _row(arrays: Arrays, cell: PlanResult) -> int:
    (index,) = np.flatnonzero(arrays["cell"] == cell.key)
    return int(index)


def _distance(arrays: Arrays, cell: PlanResult, quantity: str) -> float:
    return float(arrays[quantity][_row(arrays, cell), 1])


def logged_as_printed(
    found: PlanCells, *, method: str, metric: str = "nll", datasets: Sequence[str] | None = None
) -> list[Check]:
    """Mean and standard deviation over folds lie nearer to the printed ones as they are logged than of all rows.

    Logged as :func:`gpbench.bench.derived.steps.logged` says. Asked of what that changes by half a unit of the printed
    number's last digit; where it changes neither, or ours may not be set beside it, nothing is decided.
    """
    arrays = _arrays(found)
    if arrays is None:
        return _absent(found)
    entries = {each.block.position: each.entries.get(metric) for each in entries_of(found.plan, found.results)}
    checks = []
    for group in each_group(found, (method,), datasets=datasets):
        if gap := missing(group):
            checks.append(gap)
            continue
        cells = group.cells[method]
        entry, logged = entries[cells[0].shown.position], logged_of(arrays, cells, metric)
        if entry is None or entry.printed is None or entry.printed.value is None or entry.printed.spread is None:
            continue
        every, some = logged.of_all, logged.of_logged
        words = f"{group.label_of(metric)}: {shown(every['mean'])} ± {shown(every['sd'])}"
        words += f", as logged {shown(some['mean'])} ± {shown(some['sd'])}"
        pairs = [(some["mean"], every["mean"], entry.beside), (some["sd"], every["sd"], entry.printed.spread)]
        known = [
            (one, other, value)
            for one, other, value in pairs
            if one is not None and other is not None and value is not None
        ]
        nearer = [
            abs(one - value) < abs(other - value)
            for one, other, value in known
            if abs(one - other) >= 0.5 * entry.printed.unit
        ]
        holds = all(nearer) if nearer and len(known) == len(pairs) else None
        checks.append(Check(f"{words}, printed {entry.printed.text}", holds, cells))
    return checks


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Logged(NamedTuple):
    """Statistics over folds of a metric of all rows and of what is logged; in how many folds both are the same."""

    of_all: Statistics
    of_logged: Statistics
    same: int


def logged_of(arrays: Arrays, cells: Sequence[PlanResult], metric: str) -> Logged:
    """What some finished cells and the arrays of ``render = "logged"`` say of ``nll`` or ``error``."""
    return Logged(
        statistics([value_of(cell, metric) for cell in cells]),
        statistics([_finite(float(arrays[f"{cell.key}/{metric}"])) for cell in cells]),
        sum(bool(arrays[f"{cell.key}/{metric}/same"]) for cell in cells),
    )


def contracts(found: PlanCells, *, always: Sequence[str], not_always: Sequence[str]) -> list[Check]:
    """Under the operator all pairs come closer for likelihoods ``always``, and some do not for those of ``not_always``.

    A likelihood is named by the first word of its label.
    """
    arrays = _arrays(found)
    if arrays is None:
        return _absent(found)
    ratios = arrays["after"] / arrays["before"]
    checks = []
    for name in (*always, *not_always):
        own = [index for index, label in enumerate(arrays["likelihoods"]) if str(label).startswith(name)]
        if not own:
            checks.append(Check(f"{name}: not computed", None, measured=False))
            continue
        largest, above = float(ratios[:, own].max()), int((ratios[:, own] > 1.0).sum())
        words = f"{name}: {above} of {ratios[:, own].size} pairs came no closer, the largest ratio is {shown(largest)}"
        checks.append(Check(words, (above == 0) if name in always else above > 0))
    return checks


def negligible(
    found: PlanCells, *, method: str, part: str, most: float, shortest: Sequence[str] = (), scales: str = "",
    datasets: Sequence[str] | None = None,
) -> list[Check]:  # fmt: skip
    """The variances of one part of the kernel end below ``most``; the shortest length scales are those of some inputs.

    Parameters
    ----------
    found : PlanCells
    method : str
    part, scales : str
        Beginnings of the names of the variances, and of the length scales.
    most : float
    shortest : sequence of str
        Names of the inputs that are to have the shortest length scales; numbers from 0 where inputs have no names.
    datasets : sequence of str, optional
    """
    arrays = _arrays(found)
    if arrays is None:
        return _absent(found)
    checks = []
    for group in each_group(found, (method,), datasets=datasets):
        if gap := missing(group):
            checks.append(gap)
            continue
        keys = {cell.key for cell in group.cells[method]}
        rows = [
            (str(name), float(value))
            for key, name, value in zip(arrays["cell"], arrays["name"], arrays["value"], strict=True)
            if str(key) in keys
        ]
        largest = max((value for name, value in rows if name.startswith(part)), default=float("nan"))
        words = f"{group.label}: largest variance of the part {shown(largest)}"
        checks.append(told(group, words, largest, holds=largest <= most))
        if shortest:
            lengths = sorted((value, _input_of(name)) for name, value in rows if name.startswith(scales))
            first = [name for _, name in lengths[: len(shortest)]]
            words = f"{group.label}: shortest length scales of {', '.join(first) or 'none'}"
            checks.append(told(group, words, holds=set(first) == set(shortest) if first else None))
    return checks


def _input_of(name: str) -> str:
    """The input whose hyper-parameter it is: ``lengthscales of month``, or ``lengthscales[3]`` where it has no name."""
    return name.partition(" of ")[2] or name.rpartition("[")[2].rstrip("]")
