"""Less than the whole plan: some data sets, methods and splits, limits from the command line, the quick form."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpbench.bench.cell import Limits
from gpbench.bench.plan.blocks import runnable
from gpbench.bench.plan.plan import Reduction
from gpbench.data.splits import Protocol
from gpbench.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.blocks import Block
    from gpbench.bench.plan.plan import Plan

__all__ = ["asked_for", "quick_form", "restricted"]


def asked_for(
    plan: Plan,
    *,
    datasets: str | None = None,
    methods: str | None = None,
    splits: int | None = None,
    seconds: float | None = None,
    quick: bool = False,
) -> Plan:
    """The plan that the options of a command ask for; the plan itself where none is given.

    Parameters
    ----------
    plan : Plan
    datasets, methods : str or None
        Names with commas between.
    splits, seconds
        As for :func:`restricted`.
    quick : bool
        The quick form of what is left.

    Raises
    ------
    UsageError
        A name that the plan does not have, or a number out of range.
    """
    named = [[] if text is None else [name.strip() for name in text.split(",")] for text in (datasets, methods)]
    found = plan
    if any(named) or splits is not None or seconds is not None:
        found = restricted(plan, datasets=named[0], methods=named[1], splits=splits, seconds=seconds)
    return quick_form(found) if quick else found


def restricted(
    plan: Plan,
    *,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    splits: int | None = None,
    seconds: float | None = None,
) -> Plan:
    """The plan for some of its data sets and methods, with at most so many splits and training seconds.

    Parameters
    ----------
    plan : Plan
    datasets, methods : sequence of str
        Of the plan: data sets by their id or label, methods by their table, label or the method's id; all by default.
    splits : int or None
        The first so many of each data set.
    seconds : float or None
        A limit on the training time of each cell.

    Raises
    ------
    UsageError
        A name that the plan does not have, or a number out of range.
    """
    sets = {name: ({name}, {plan.dataset_label(name)}) for name in plan.datasets}
    known = {each.name: ({each.name, each.method.id}, {each.label, each.printed}) for each in plan.methods}
    datasets, methods = _named(plan, "data set", datasets, sets), _named(plan, "method", methods, known)
    if splits is not None:
        _check_splits(plan, splits)
    cut = splits is not None and not _covers(plan, splits)
    wanted = tuple(each for each in plan.datasets if not datasets or each in datasets)
    tables = tuple(each for each in plan.methods if not methods or each.name in methods)
    notes = [
        *([f"Only the first {splits} splits of each data set."] if cut else []),
        *([f"Training ends after {seconds:g} s at the latest."] if seconds is not None else []),
    ]
    return replace(
        _without(plan, {each.name for each in tables}),
        datasets=wanted,
        methods=tables,
        overrides={name: override for name, override in plan.overrides.items() if name in wanted},
        notes=(*plan.notes, *notes),
        reduction=replace(plan.reduction, splits=splits, caps=Limits(seconds=seconds)),
    )


def _named(plan: Plan, kind: str, names: Sequence[str], known: Mapping[str, tuple[set[str], set[str]]]) -> list[str]:
    """The plan's own names of what is asked for by name or by label; the nearest names are suggested, no labels."""
    bears = {own: ids | labels for own, (ids, labels) in known.items()}
    for name in names:
        if not any(name in each for each in bears.values()):
            raise unknown_name(f"{kind} of {plan.id}", name, {one for ids, _ in known.values() for one in ids})
    return [own for own, each in bears.items() if each.intersection(names)]


def _check_splits(plan: Plan, splits: int) -> None:
    """Refuse more splits than any data set of the plan has; a publisher's are not counted before the data are open."""
    if splits < 1:
        raise UsageError(f"--folds must be at least 1; got {splits}")
    known = [_count(block) for block in runnable(plan)]
    counts = [count for count in known if count is not None]
    if counts and len(counts) == len(known) and splits > max(counts):
        raise UsageError(f"--folds must be at most {max(counts)}, the splits of a data set of {plan.id}; got {splits}")


def _covers(plan: Plan, splits: int) -> bool:
    """Whether so many splits are known to be all there are."""
    counts = [_count(block) for block in runnable(plan)]
    return all(count is not None and count <= splits for count in counts)


def _count(block: Block) -> int | None:
    parts = Protocol.parse(block.split).parts
    return min(parts or block.planned or 0, block.planned or parts) or None


def quick_form(plan: Plan) -> Plan:
    """The plan with few splits, rows and iterations: to see that it runs, not for its numbers."""
    quick = plan.quick
    caps = Limits(
        seconds=min(quick.seconds, plan.reduction.caps.seconds or quick.seconds),
        iterations=quick.iterations,
        test_rows=quick.test_rows,
        train_rows=quick.train_rows,
    )
    splits = min(quick.splits, plan.reduction.splits or quick.splits)
    datasets = tuple(each for each in plan.datasets if quick.datasets is None or each in quick.datasets)
    datasets = datasets or plan.datasets  # others were asked for
    words = (
        f"QUICK FORM, not for its numbers: at most {splits} splits, {quick.train_rows:,} training rows, "
        f"{quick.test_rows:,} test rows, {quick.iterations:,} iterations and {caps.seconds:g} s a cell"
    )
    if len(datasets) < len(plan.datasets):
        words += f"; {len(datasets)} of {len(plan.datasets)} data sets"
    if quick.sweep:
        words += "; " + "; ".join(f"{name} {', '.join(map(str, values))}" for name, values in quick.sweep.items())
    if quick.settings:
        words += "; " + ", ".join(f"{name} = {value}" for name, value in quick.settings.items())
    return replace(
        plan,
        datasets=datasets,
        sweep={**plan.sweep, **quick.sweep},
        reduction=Reduction(words=words + ".", caps=caps, splits=splits, settings=quick.settings),
    )


def _without(plan: Plan, tables: set[str]) -> Plan:
    """The plan whose overrides name no method outside these."""
    overrides = {
        name: each if each.methods is None else replace(each, methods=tuple(m for m in each.methods if m in tables))
        for name, each in plan.overrides.items()
    }
    return replace(plan, overrides=overrides)
