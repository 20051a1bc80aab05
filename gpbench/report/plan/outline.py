"""``render = "outline"``: what a paper's descriptive tables say, from the catalogue and from the methods' settings.

``of = "datasets"``: task, rows, inputs and classes of each data set, as the catalogue has them and checks when it
prepares them. ``of = "methods"``: for each method the texts that the plan gives under ``text`` in columns of the names
under ``heads``, and the settings under ``settings`` that decide how it runs here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpbench.bench.plan.blocks import blocks
from gpbench.data import generators
from gpbench.data.catalogue import entry
from gpbench.errors import UsageError
from gpbench.report.notes import head_notes, plan_notes
from gpbench.report.tables.table import NONE, RENDERERS, Display, Line, write_tables

if TYPE_CHECKING:
    from pathlib import Path

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.bench.plan.plan import Plan

__all__ = ["outline", "render"]

_KINDS = ("datasets", "methods")


def render(found: PlanCells, folder: Path) -> list[Path]:
    """Write ``table.txt``, ``table.md`` and ``table.tex``; see :mod:`gpbench.report.plan.renderers`."""
    shown = outline(found.plan)

    def words(form: str) -> str:
        mark = "% " if form == "latex" else ""
        head = "\n".join(f"{mark}{line}" for line in head_notes(found.plan))
        return f"{head}\n\n{RENDERERS[form](shown)}"

    return write_tables(folder, words)


def outline(plan: Plan) -> Display:
    """The table.

    Raises
    ------
    UsageError
        The plan does not say of what, or a method lacks a setting that it names.
    """
    kind = plan.figure.get("of")
    if kind not in _KINDS:
        raise UsageError(f"{plan.path}: [figure]: of must be one of {', '.join(_KINDS)}; got {kind!r}")
    heads, lines = _datasets(plan) if kind == "datasets" else _methods(plan)
    return Display(
        word_heads=heads,
        number_heads=(),
        lines=tuple(Line(line, ()) for line in lines),
        best="",
        notes=tuple(plan_notes(plan)),
    )


def _datasets(plan: Plan) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    lines: list[tuple[str, ...]] = []
    for name in plan.datasets:
        base, rows = generators.parse(name)
        one = entry(base)
        n = rows or one.n
        lines.append(
            (
                *(plan.dataset_label(name), name, one.task, NONE if n is None else f"{n:,}"),
                *(NONE if one.d is None else str(one.d), str(len(one.classes)) if one.classes else NONE),
            )
        )
    return ("data set", "id", "task", "n", "d", "classes"), lines


def _methods(plan: Plan) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    heads = tuple(plan.figure.get("heads", ()))
    wanted = tuple(plan.figure.get("settings", ()))
    texts = plan.figure.get("text", {})
    lines: list[tuple[str, ...]] = []
    for block in blocks(plan):
        if block.position[0]:
            continue
        own = texts.get(block.table.name, [])
        if len(own) != len(heads):
            raise UsageError(
                f"{plan.path}: [figure]: text: expected {len(heads)} texts for {block.table.name}; got {len(own)}"
            )
        settings = [_word(block.settings[name]) if name in block.settings else NONE for name in wanted]
        lines.append((block.label, block.table.method.id, *own, *settings))
    return ("method", "id", *heads, *wanted), lines


def _word(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
