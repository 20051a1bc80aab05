"""What stands on a page beside the cells' own tables and curves: a plan's tables with verdicts, and its pictures."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpbench.errors import StoreError, reason
from gpbench.report.page.markup import Markup, element, join
from gpbench.report.page.tables import display_table, note_list

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from gpbench.report.tables.display import Display

__all__ = ["Part", "Picture", "part_section", "pictures_of"]

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
    return join(note_list(part.notes), *map(_figure, part.pictures), *tables)


def _figure(picture: Picture) -> Markup:
    address = f"data:{picture.kind};base64,{base64.b64encode(picture.content).decode('ascii')}"
    return element("figure", element("img", src=address, alt=picture.caption), element("figcaption", picture.caption))
