"""What stands on a page beside the cells' own tables and curves: a plan's tables with verdicts, and its pictures."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gpbench.errors import StoreError, reason
from gpbench.report.notes import head_notes
from gpbench.report.page.markup import Markup, display_table, element, join, note_list
from gpbench.report.plan import attaining, logged, rivals
from gpbench.report.plan.claims import judge_claims_of
from gpbench.report.plan.claims_shown import claim_display
from gpbench.report.plan.differences import differences
from gpbench.report.plan.numbers import entries_of
from gpbench.report.plan.outline import outline
from gpbench.report.plan.renderers import renderer_of
from gpbench.report.plan.table import plan_display

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpbench.bench.plan.cells import PlanCells
    from gpbench.report.tables.table import Display

__all__ = ["Part", "Picture", "part_section", "picture_element", "pictures_of", "plan_part"]

#: Ending -> type of an image that stands in the page. An svg is shown as an image too, so that nothing in it runs.
_KINDS = {".png": "image/png", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Picture:
    """An image: what it shows, its type and its bytes."""

    caption: str
    kind: str
    content: bytes


@dataclass(frozen=True, kw_only=True)
class Part:
    """A section of its own.

    Attributes
    ----------
    title : str
    notes : sequence of str
        What must be read first.
    tables : sequence of (str, Display)
        With their captions; they stand below the pictures.
    pictures : sequence of Picture
    """

    title: str
    notes: Sequence[str] = ()
    tables: Sequence[tuple[str, Display]] = ()
    pictures: Sequence[Picture] = ()


def pictures_of(paths: Sequence[Path]) -> list[Picture]:
    """The images among some files; their names are the captions.

    Raises
    ------
    StoreError
        One cannot be read.
    """
    found = []
    for path in paths:
        kind = _KINDS.get(path.suffix.lower())
        if kind is None:
            continue
        try:
            found.append(Picture(path.stem, kind, path.read_bytes()))
        except OSError as error:
            raise StoreError(f"cannot read {path}: {reason(error)}") from error
    return found


def part_section(part: Part) -> Markup:
    """The inside of a part's section."""
    tables = [display_table(shown, caption=caption) for caption, shown in part.tables]
    return join(note_list(part.notes), *map(picture_element, part.pictures), *tables)


def picture_element(picture: Picture) -> Markup:
    """An image that stands in the page itself, with its caption."""
    address = f"data:{picture.kind};base64,{base64.b64encode(picture.content).decode('ascii')}"
    return element("figure", element("img", src=address, alt=picture.caption), element("figcaption", picture.caption))


def plan_part(found: PlanCells) -> Part:
    """The section of one plan: its table with verdicts, or its pictures, and the claims that it decides.

    Raises
    ------
    GpbenchError
        What the plan's renderer raises.
    """
    plan = found.plan
    title = " ".join(part for part in (plan.paper, plan.title) if part)
    shown_claims = claim_display(judge_claims_of(found))
    claims = [] if shown_claims is None else [("Claims of the paper that this decides", shown_claims)]
    if (displays := _DISPLAYS.get(plan.render)) is not None:
        tables = [(plan.id, each) for each in displays(found)]
        return Part(title=title, notes=head_notes(plan)[1:], tables=[*tables, *claims])
    with TemporaryDirectory() as folder:
        pictures = pictures_of(renderer_of(plan)(found, Path(folder)))
    return Part(title=title, notes=head_notes(plan)[1:], tables=claims, pictures=pictures)


def _plan_displays(found: PlanCells) -> list[Display]:
    results = entries_of(found.plan, found.results)
    return [plan_display(found.plan, results, paired=differences(found.plan, results, found.results))]


#: Renderings that are tables.
_DISPLAYS: Mapping[str, Callable[[PlanCells], list[Display]]] = {
    "attainment": attaining.displays,
    "logged": logged.displays,
    "outline": lambda found: [outline(found.plan)],
    "rivals": rivals.displays,
    "table": _plan_displays,
}
