"""Where a plan's output goes and what is printed: the files of its renderer, with their provenance beside them.

The whole plan is written to ``results/reproduced/PLAN``, anything less (the quick form, some data sets or methods,
other limits) to ``results/partial/PLAN``, so that it never takes the place of the whole.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpbench.bench.metrics import metrics
from gpbench.errors import StoreError, UsageError, reason
from gpbench.report.files import PICTURES, write_atomically
from gpbench.report.notes import head_notes
from gpbench.report.plan.claims import judge_claims_of
from gpbench.report.plan.differences import differences
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.renderers import renderer_of
from gpbench.report.plan.table import hangs_on_rows, plan_csv, table_words
from gpbench.report.scores import SCORED, with_scores
from gpbench.report.tables.table import ENDINGS
from gpbench.terminal import duration, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.plan.estimate import Estimate, Outlook
    from gpbench.bench.plan.plan import Plan
    from gpbench.bench.result import Result
    from gpbench.config import Config

__all__ = ["check_place", "folder_of", "outlook_lines", "plan_text", "scored", "write_plan"]


def folder_of(plan: Plan, config: Config, *, whole: bool) -> Path:
    """Where the output of a plan goes unless the user says."""
    return config.results / ("reproduced" if whole else "partial") / plan.id


def check_place(plan: Plan, place: Path, *, files: bool) -> None:
    """See that a plan's output can be of the kind that a place's name says.

    Parameters
    ----------
    plan : Plan
    place : Path
        A folder, or a file of one table or page.
    files : bool
        Whether it may be a file.

    Raises
    ------
    UsageError
        It cannot.
    """
    ending = place.suffix.lower()
    tables, known = tuple(ENDINGS.values()), (*ENDINGS.values(), *PICTURES, ".html")
    can = (*(tables if plan.render == "table" else ()), ".html") if files else ()
    if place.is_dir() or ending not in known or ending in can:
        return
    what = "a table" if plan.render == "table" else f"a picture (render = {plan.render!r})"
    expected = f"a folder, or a file that ends in {', '.join(can)}" if can else "a folder"
    raise UsageError(f"--output of {plan.id}, which is {what}, expects {expected}; got {place}")


def scored(found: PlanCells) -> PlanCells:
    """The same with the scores of predictions in its cells, where the plan shows them or hangs a mean NLL on rows."""
    hanging = found.plan.render == "table" and hangs_on_rows(found.plan)
    if not hanging and (SCORED | metrics().keys()).isdisjoint(found.plan.metrics):
        return found
    return replace(found, results=with_scores(found.results, found.store)[0])


def write_plan(found: PlanCells, folder: Path, *, pictures: Sequence[str] = ()) -> list[Path]:
    """Render a plan into a folder.

    Parameters
    ----------
    found : PlanCells
    folder : Path
    pictures : sequence of str
        Endings of :data:`gpbench.report.files.PICTURES` that pictures are written with, beside png.

    Returns
    -------
    list of Path
        What was written; ``provenance.json`` comes last.

    Raises
    ------
    UsageError
        The plan cannot be rendered from these cells.
    NotComputed
        It needs arrays that are not stored.
    StoreError
        The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {reason(error)}") from error
    written = renderer_of(found.plan)(replace(found, pictures=(".png", *pictures)), folder)
    path = folder / "provenance.json"
    write_atomically(path, json.dumps(_provenance(found.plan, found.results), indent=1) + "\n")
    return [*written, path]


def plan_text(found: PlanCells, form: str, *, width: int | None = None) -> str:
    """A table plan in a format of tables; text within a width where one is given.

    Raises
    ------
    UsageError
        The plan is no table.
    """
    plan = found.plan
    if plan.render != "table":
        raise UsageError(
            f"{plan.id} is rendered as {plan.render}, not as a table: --output DIR says where its files go"
        )
    results = entries_of(plan, found.results)
    if form == "csv":
        return plan_csv(plan, results)
    paired, claims = differences(plan, results, found.results), judge_claims_of(found)
    return table_words(plan, results, form, paired=paired, claims=claims, width=width)


def outlook_lines(plan: Plan, outlook: Outlook, *, jobs: int = 1) -> list[str]:
    """What running a plan would mean, line by line: cells and time for each data set and method, and missing data."""
    lines = [printable(line) for line in head_notes(plan)]
    for name in plan.datasets:
        own = [each for each in outlook.estimates if each.block.dataset == name]
        where = f"  ({printable(outlook.files[name])})" if name in outlook.files else ""
        where = "  (data not here)" if name in outlook.absent else where
        lines.append(f"{printable(plan.dataset_label(name))}{where}")
        lines += [f"  {printable(each.block.label)}: {_words(each)}" for each in own]
    cells, stored = (sum(getattr(each, name) for each in outlook.estimates) for name in ("cells", "stored"))
    left = _total(outlook.estimates, jobs=jobs)
    lines.append(f"{cells} cells, {stored} of them stored; the others take about {left}, by estimate")
    if outlook.absent:
        names = " ".join(outlook.absent)
        lines.append(f"data not here: {names}; `gpbench fetch {names}` tries to bring them")
    return [*lines, *(f"will fail: {printable(fault)}" for fault in outlook.faults)]


def _total(estimates: Sequence[Estimate], *, jobs: int = 1) -> str:
    """The time of all that is left to do, in words."""
    known = [each.seconds for each in estimates if each.seconds is not None]
    unknown = len(estimates) - len(known)
    words = duration(sum(known) / jobs)
    return f"{words}, without {unknown} blocks on data that are not here and of no known size" if unknown else words


def _words(one: Estimate) -> str:
    block = one.block
    left = one.cells - one.stored
    words = f"{one.cells} cells of {block.split}"
    if limits := ", ".join(f"{name} {value:g}" for name, value in block.limits.description().items()):
        words += f" ({limits})"
    if one.stored:
        words += f", {one.stored} stored"
    if not left:
        return words
    return f"{words}, about {'?' if one.seconds is None else duration(one.seconds)} ({one.basis})"


def _provenance(plan: Plan, cells: Sequence[Result]) -> dict[str, Any]:
    def every(name: str) -> list[Any]:
        found = {json.dumps(cell.provenance.get(name), sort_keys=True) for cell in cells}
        return [json.loads(one) for one in sorted(found)]

    times = [str(cell.provenance[name]) for cell in cells for name in ("start", "end") if name in cell.provenance]
    return {
        "plan": plan.id,
        "title": plan.title,
        "reduced": plan.reduction.words,
        "cells": len(cells),
        "failed": sum(not cell.finished for cell in cells),
        "missing": dict(plan.missing),
        **{
            name: every(name) for name in ("gpbench", "commit", "dirty", "python", "packages", "cpu", "threads", "jobs")
        },
        "first": min(times, default=None),
        "last": max(times, default=None),
        "keys": sorted({cell.key for cell in cells}),
    }
