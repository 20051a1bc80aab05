"""``render = "curves"``: metrics over training time, a panel for each data set, in the plan's order and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpbench.bench.plan.blocks import swept_words
from gpbench.data.catalogue import entries
from gpbench.errors import UsageError, unknown_name
from gpbench.report.figures.curves import METRICS, figure
from gpbench.report.figures.pictures import save_figure
from gpbench.report.files import write_atomically
from gpbench.report.plan.words import head_notes, plan_notes
from gpbench.report.tables.hyperparameters import hyperparameter_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from gpbench.bench.plan.plan import Plan

__all__ = ["render"]


def render(plan: Plan, cells: Sequence[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Draw ``curves.png``, and write ``hyperparameters.md`` where the plan says so; see the registry of renderers.

    Raises
    ------
    UsageError
        No finished cells, or cells of several processors, whose times cannot share an axis; a metric that has no curve.
    """
    metrics = [name for name in plan.metrics if name != "train_seconds"]
    for name in metrics:
        if name not in METRICS:
            raise UsageError(f"{plan.path}: render = 'curves' draws {', '.join(METRICS)}; got {name}")
    panels = plan.figure.get("panels")
    if panels is not None and panels not in plan.sweep:
        raise UsageError(f"{plan.path}: [figure]: panels: {unknown_name('swept name', str(panels), plan.sweep)}")
    labelled = [_labelled(cell, panels, plan.figure.get("title")) for cell in cells]
    head, *cut = head_notes(plan)
    absent = {cell["shown"]["dataset"] for cell in labelled if cell["status"] != "ok"}
    absent -= {cell["shown"]["dataset"] for cell in labelled if cell["status"] == "ok"}
    lost = [f"{name}: no cell ended well" for name in sorted(absent)]
    drawn = figure(labelled, metrics, spread=plan.spread, head=head, notes=[*cut, *lost, *plan_notes(plan)])
    path = folder / "curves.png"
    save_figure(drawn, path)
    if not plan.figure.get("hyperparameters", False):
        return [path]
    words = folder / "hyperparameters.md"
    write_atomically(words, hyperparameter_text(cells))
    return [path, words]


def _labelled(cell: Mapping[str, Any], panels: str | None, title: str | None) -> dict[str, Any]:
    """The cell with the panel's title as its data set, and without what that says in its method's label."""
    shown = dict(cell["shown"])
    if panels is not None and panels in shown["sweep"]:
        rest = {name: value for name, value in shown["sweep"].items() if name != panels}
        shown["dataset"] += f", {swept_words({panels: shown['sweep'][panels]})}"
        shown["method"] = f"{shown['variant']}, {swept_words(rest)}" if rest else shown["variant"]
    if title is not None:
        data = cell["provenance"].get("data", {})
        entry = entries().get(str(cell["dataset"]))
        shown["dataset"] = title.format(
            dataset=shown["dataset"],
            n=data.get("rows", "?"),
            d="?" if entry is None else entry.d,
            m=cell["settings"].get("inducing", "?"),
        )
    return {**cell, "shown": shown}
