"""A plan's cells, added to the reference results of this checkout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpbench.bench.code import code
from gpbench.bench.derived.stored import publish_arrays
from gpbench.bench.plan.cells import described
from gpbench.bench.plan.read import read_plan, shipped
from gpbench.bench.reference import merged, read_reference, reference_file, write_reference
from gpbench.bench.store import Store
from gpbench.config import checkout
from gpbench.errors import StoreError, UsageError
from gpbench.report.scores import with_scores

if TYPE_CHECKING:
    from pathlib import Path

    from gpbench.bench.plan.cells import PlanCells

__all__ = ["add_to_reference", "check_addition"]


def check_addition(plan: str, *, quick: bool) -> None:
    """See that the cells of a plan may be added, before hours of them.

    Raises
    ------
    UsageError
        The plan is not one of gpbench's own, the form is the quick one, or this is no checkout, or one with changes.
    """
    if plan not in shipped():
        raise UsageError(f"--reference expects a plan that comes with gpbench, PAPER/ITEM; got {plan}")
    if quick:
        raise UsageError("--reference expects the plan itself, not its quick form")
    if checkout() is None:
        raise UsageError("--reference adds to results/reference of a checkout; this gpbench is installed as a wheel")
    if code()["dirty"]:
        raise UsageError(
            "--reference expects a checkout without changes, so that the commit says what ran; commit first"
        )


def add_to_reference(found: PlanCells) -> list[Path]:
    """Add a plan's cells, and the arrays that its picture needs, to the reference results.

    Earlier cells that the plan no longer describes, since a setting has changed, are dropped. Who adds to the same plan
    at the same time waits, so that each finds what the other has added.

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    UsageError
        A cell was made by code that is not committed.
    StoreError
        A file cannot be written, or a cell's arrays cannot be read.
    """
    path = reference_file(found.plan.id)
    scored, problems = with_scores(found.results, found.store)
    if problems:
        raise StoreError("; ".join(problems))
    with Store(path.parent).alone(path.name):
        earlier = described(read_plan(found.plan.path, id=found.plan.id), read_reference(path))
        write_reference(path, merged(earlier, (cell for cell in scored if cell.status != "interrupted")))
        return [path, *publish_arrays(found)]
