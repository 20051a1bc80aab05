"""From the files of an edition to rows: the readers that the catalogue names.

``tables`` reads parts with the readers of :mod:`gpbench.data.formats`; the others know one publisher's form. A reader
gives a function that reads the rows anew each time (preparation passes over them more than once), and the published
splits where these are no matter of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpbench.data import airline, ida
from gpbench.data.archives import matching
from gpbench.data.formats import Frames, beside, one_after_another, read_table
from gpbench.data.pedestrians import pedestrians
from gpbench.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from gpbench.data.catalogue import Edition, Part

__all__ = ["READERS", "Reading", "read_edition"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Reading:
    """Rows, and how the publisher splits them.

    Attributes
    ----------
    frames : callable
        Gives blocks of rows, anew at each call.
    given : tuple of (train, test)
        Row numbers, counted in the order of the rows; empty where the parts' roles tell, or nothing does.
    """

    frames: Callable[[], Frames]
    given: tuple[tuple[Ints, Ints], ...] = ()


def read_edition(edition: Edition, paths: Mapping[str, Path]) -> Reading:
    """Rows of an edition whose files are here.

    Parameters
    ----------
    edition : Edition
        From the catalogue.
    paths : mapping
        Path in the catalogue -> file here.

    Raises
    ------
    DataError
        A file is not what the edition says.
    UsageError
        The catalogue names an unknown reader.
    """
    if edition.reader not in READERS:
        raise unknown_name("reader", edition.reader, READERS)
    return READERS[edition.reader](edition, paths)


def _tables(edition: Edition, paths: Mapping[str, Path]) -> Reading:
    roles = any(part.role for part in edition.parts)
    pieces: list[tuple[int, Callable[[], Frames]]] = []
    for part in edition.parts:
        path = paths[part.file.path]
        members = matching(path, part.options["member"]) if "member" in part.options else [None]
        size = path.stat().st_size // len(members)
        pieces.extend((size, _opener(part, member, paths, roles=roles)) for member in members)
    return Reading(lambda: one_after_another(pieces))


def _opener(part: Part, member: str | None, paths: Mapping[str, Path], *, roles: bool) -> Callable[[], Frames]:
    def rows() -> Frames:
        for block in _rows(part, member, paths):
            yield _with_role(block, part.role or "train") if roles else block

    return rows


def _with_role(block: pd.DataFrame, role: str) -> pd.DataFrame:
    """The block with a column ``part``. It stands before the last, since recipes count from either end."""
    column = pd.DataFrame({"part": pd.Categorical([role]).repeat(len(block))}, index=block.index)
    joined = pd.concat([block.iloc[:, :-1], column, block.iloc[:, -1:]], axis=1)
    joined.attrs = block.attrs
    return joined


def _rows(part: Part, member: str | None, paths: Mapping[str, Path]) -> Frames:
    options: dict[str, Any] = dict(part.options)
    if member is not None:
        options["member"] = member
    table = read_table(paths[part.file.path], format=part.format, **options)
    return table if part.labels is None else beside(table, _rows(part.labels, None, paths))


def _whole(make: Callable[..., ida.Table]) -> Callable[[Edition, Mapping[str, Path]], Reading]:
    """A reader of one small file that gives all rows and the splits at once."""

    def read(edition: Edition, paths: Mapping[str, Path]) -> Reading:
        table, given = make(paths[edition.parts[0].file.path], **edition.options)
        return Reading(lambda: iter([table]), given)

    return read


def _flights(edition: Edition, paths: Mapping[str, Path]) -> Reading:
    *tables, planes = (paths[part.file.path] for part in edition.parts)
    return Reading(lambda: airline.flights(tables, planes, **edition.options))


READERS: dict[str, Callable[[Edition, Mapping[str, Path]], Reading]] = {
    "tables": _tables,
    "realisations": _whole(ida.realisations),
    "raetsch": _whole(ida.raetsch),
    "halves": _whole(ida.halves),
    "pedestrians": _whole(pedestrians),
    "flights": _flights,
}
"""Name in the catalogue -> reader."""
