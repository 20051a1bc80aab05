"""A plan as a section of a page: its table with verdicts, or its pictures, and what must be said of it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gpbench.report.page.parts import Part, pictures_of
from gpbench.report.plan.claim_tables import claim_display
from gpbench.report.plan.renderers import renderer_of
from gpbench.report.plan.words import head_notes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.bench.plan.plan import Plan

__all__ = ["plan_part"]


def plan_part(plan: Plan, cells: Sequence[Mapping[str, Any]]) -> Part:
    """The section of one plan.

    Parameters
    ----------
    plan : Plan
    cells : sequence of mapping
        As a renderer is given them, see :mod:`gpbench.report.plan.renderers`.

    Raises
    ------
    GpbenchError
        What the plan's renderer raises.
    """
    title = " ".join(part for part in (plan.paper, plan.title) if part)
    shown_claims = claim_display(plan)
    claims = [] if shown_claims is None else [("Claims of the paper that this decides", shown_claims)]
    if plan.render == "table":
        from gpbench.report.plan.numbers import entries_of  # noqa: PLC0415  # pages of stored cells need no plans
        from gpbench.report.plan.table import plan_display  # noqa: PLC0415

        shown = plan_display(plan, entries_of(plan, cells))
        return Part(title=title, notes=head_notes(plan)[1:], tables=[(plan.id, shown), *claims])
    with TemporaryDirectory() as folder:
        pictures = pictures_of(renderer_of(plan)(plan, cells, Path(folder)))
    return Part(title=title, notes=head_notes(plan)[1:], tables=claims, pictures=pictures)
