"""Which experiments were run in full, cut short, in part or not at all, by their cells.

========================  =============================================================================================
state                     where
========================  =============================================================================================
full                      every cell that the plan states is there and ended well, by the paper's limits or its own rule
cut short                 every cell is there, and a clock or a count ended some sooner than the paper's
in part                   some cells are missing or failed
not run                   there are no cells
nothing to run            the plan describes, and needs none
========================  =============================================================================================

Cells of versions that are no longer current count, and are named.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpbench.bench.methods import outdated
from gpbench.bench.plan.cells import look_up
from gpbench.bench.plan.plan import DESCRIPTIVE, SELF_CONTAINED
from gpbench.bench.plan.read import find_plan, shipped
from gpbench.bench.reference import reference_file
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.verdicts import DECIDED, OTHERS, Headline, headline
from gpbench.report.text import csv_text, escape_markdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.store import Store

__all__ = [
    "STATES",
    "Experiment",
    "all_plans",
    "experiment",
    "experiments_csv",
    "experiments_table",
    "headlines",
    "headlines_table",
]

STATES = ("full", "cut short", "in part", "not run", "nothing to run")


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """How far a plan has come.

    Attributes
    ----------
    plan, title : str
    state : str
        Of :data:`STATES`.
    planned, finished, failed, cut : int
        Cells. Of a publisher's splits at least one is planned where none has been run.
    absent : tuple of str
        Data sets without a cell.
    stale : tuple of str
        Methods whose cells are of a version that is no longer current.
    """

    plan: str
    title: str
    state: str
    planned: int = 0
    finished: int = 0
    failed: int = 0
    cut: int = 0
    absent: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


def all_plans(store: Store) -> dict[str, PlanCells]:
    """Every plan that ships with its cells, by id; of the reference results alone where the store is empty.

    Raises
    ------
    StoreError
        The reference results, or the store, cannot be read.
    """
    results = store.results()
    return {name: look_up(find_plan(name), store, results=results) for name in shipped()}


def experiment(found: PlanCells) -> Experiment:
    """How far a plan has come.

    Parameters
    ----------
    found : PlanCells
    """
    plan = found.plan
    if plan.render in DESCRIPTIVE:
        state = "nothing to run"
        if plan.render in SELF_CONTAINED:
            state = "full" if reference_file(plan.id).with_suffix(".npz").exists() else "not run"
        return Experiment(plan=plan.id, title=plan.title, state=state)
    numbers = entries_of(plan, found.results)
    finished, failed, cut = (sum(getattr(each, name) for each in numbers) for name in ("finished", "failed", "cut"))
    planned = sum(max(each.expected, each.finished + each.failed, 1) for each in numbers)
    ran = {each.block.dataset for each in numbers if each.finished + each.failed}
    state = "not run"
    if finished + failed:
        state = "in part" if finished < planned else "cut short" if cut else "full"
    return Experiment(
        plan=plan.id,
        title=plan.title,
        state=state,
        planned=planned,
        finished=finished,
        failed=failed,
        cut=cut,
        absent=tuple(plan.dataset_label(name) for name in plan.datasets if name not in ran) if ran else (),
        stale=tuple(sorted(outdated(found.results))),
    )


def experiments_csv(found: Sequence[Experiment]) -> str:
    """The table for programs."""
    heads = list(Experiment.__dataclass_fields__)
    rows = [
        [value if not isinstance(value, tuple) else "; ".join(value) for value in vars(each).values()] for each in found
    ]
    return csv_text([heads, *rows])


def experiments_table(found: Sequence[Experiment]) -> str:
    """The table in Markdown; what was not run stands in a line below."""
    lines = ["| plan | state | cells | what is missing |", "|---|---|---:|---|"]
    for each in found:
        if each.state == "not run":
            continue
        cells = f"{each.finished:,} of {each.planned:,}" if each.planned else ""
        missing = [
            *([f"{each.failed} failed"] if each.failed else []),
            *([f"{each.cut} cut short"] if each.cut else []),
            *([f"no cells of {', '.join(each.absent)}"] if each.absent else []),
            *([f"earlier versions of {', '.join(each.stale)}"] if each.stale else []),
        ]
        lines.append(
            f"| {each.plan}: {escape_markdown(each.title)} | {each.state} | {cells} | "
            f"{escape_markdown('; '.join(missing))} |"
        )
    waiting = [each for each in found if each.state == "not run"]
    text = "\n".join(lines) + "\n"
    if waiting:
        left = sum(each.planned for each in waiting)
        text += f"\nNot run ({left:,} cells at least): {', '.join(each.plan for each in waiting)}.\n"
    return text


def headlines(plans: Mapping[str, PlanCells]) -> dict[str, Headline]:
    """The verdicts of every plan that is judged, counted, and of all under the name ``all``."""
    told = {}
    everything = []
    for name, found in plans.items():
        if not found.plan.published:
            continue
        counting = [each for each in entries_of(found.plan, found.results) if each.block.table.counted]
        own = [entry.verdict for each in counting for entry in each.entries.values()]
        everything += own
        told[name] = headline(own)
    return told | {"all": headline(everything)}


def headlines_table(told: Mapping[str, Headline]) -> str:
    """Every plan's verdicts as a table of Markdown."""
    columns = (*DECIDED, *OTHERS)
    lines = [
        "Printed numbers against ours, by the rule below each table; the share is agrees / (agrees + lower + higher).",
        "",
        "| plan | share | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * (len(columns) + 1),
    ]
    for name, found in told.items():
        if found.counts:
            share = "–" if found.share is None else f"{100 * found.share:.0f} %"
            lines.append(f"| {name} | {share} | " + " | ".join(str(found.counts[word]) for word in columns) + " |")
    return "\n".join(lines) + "\n"
