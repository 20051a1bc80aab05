"""What stands above and beneath whatever is made of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpbench.bench.plan.plan import Plan

__all__ = ["head_notes", "plan_notes"]


def head_notes(plan: Plan) -> list[str]:
    """The head of a plan's output: what it is, and first of all whether it is the whole plan."""
    name = f"{plan.paper}, {plan.title}" if plan.paper else plan.title
    return [name, *([plan.reduction.words] if plan.reduction.words else [])]


def plan_notes(plan: Plan) -> list[str]:
    """What a reader must know of the plan: its own notes, and which data could not be had."""
    missing = [f"{plan.dataset_label(name)}: {why}" for name, why in plan.missing.items()]
    return [*plan.notes, *(f"{one}." for one in missing)]
