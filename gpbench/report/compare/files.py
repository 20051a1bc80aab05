"""A comparison written to a folder: its tables, its numbers and its pictures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gpbench.errors import UsageError
from gpbench.report.compare.pictures import profile_figure, rank_figure
from gpbench.report.figures.pictures import save_figure
from gpbench.report.files import write_atomically
from gpbench.report.tables.table import ENDINGS

if TYPE_CHECKING:
    from pathlib import Path

    from gpbench.report.compare.comparison import Comparison

__all__ = ["write_comparison"]


def write_comparison(
    found: Comparison,
    folder: Path,
    *,
    text: str,
    format: str,  # noqa: A002  # named as on the command line
) -> tuple[list[Path], list[str]]:
    """Write ``comparison`` in a format and as JSON, ``ranks.png`` and ``profiles.png``.

    Parameters
    ----------
    found : Comparison
    folder : Path
    text : str
        The tables, see :func:`gpbench.report.compare.display.comparison_text`.
    format : str
        Theirs, which settles the ending.

    Returns
    -------
    list of Path
        What was written.
    list of str
        What could not be drawn, and why.

    Raises
    ------
    StoreError
        The place cannot be written.
    """
    tables, numbers = folder / f"comparison{ENDINGS[format]}", folder / "comparison.json"
    write_atomically(tables, text)
    write_atomically(numbers, json.dumps(found.json(), indent=1) + "\n")
    written, problems = [tables, numbers], []
    for name, draw in (("ranks.png", rank_figure), ("profiles.png", profile_figure)):
        try:
            save_figure(draw(found), folder / name)
            written.append(folder / name)
        except UsageError as error:  # the tables stand, whether or not there is anything to draw
            problems.append(f"{folder / name} is not drawn: {error}")
    return written, problems
