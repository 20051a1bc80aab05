"""Names made safe for where they are printed, columns lined up, and rows as csv.

Names of data sets and settings come from files and plug-ins; none may break a table, or act on a terminal.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from gpbench.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["DRAWN", "columns", "csv_text", "escape_latex", "escape_markdown", "printable"]

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
    }
)
_MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|#~$&!"})


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return printable(text).translate(_LATEX)


def escape_markdown(text: str) -> str:
    """Text that Markdown, also inside a table, prints as it is."""
    return printable(text).translate(_MARKDOWN)


#: Significant digits of what is drawn: more than an eye needs, fewer than two processors' sums differ in.
DRAWN = 10


def csv_text(rows: Iterable[Iterable[object]], *, digits: int | None = None) -> str:
    """Rows as csv, a line each; None is an empty cell.

    Parameters
    ----------
    rows : iterable of iterables
    digits : int, optional
        Significant digits of numbers that are not whole; in full by default.
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for row in rows:
        writer.writerow([f"{value:.{digits}g}" if digits and isinstance(value, float) else value for value in row])
    return file.getvalue()


def columns(rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset()) -> list[str]:
    """Lines whose cells stand under one another, two blanks apart.

    Parameters
    ----------
    rows : sequence of sequences of str
        Of one length.
    right : frozenset of int
        Positions of the columns that are aligned on the right.
    """
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
