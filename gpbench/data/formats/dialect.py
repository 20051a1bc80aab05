"""What separates the values of a text table, and whether its first line names the columns."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpbench.data.formats.frames import column_names, unique_names
from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.data.formats.lines import Block

__all__ = ["MISSING", "Dialect", "detect", "is_number", "split_line"]

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "-nan", "null", "NULL", "\\N")
"""What stands for a missing value unless the caller says otherwise."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
_SAMPLE_LINES = 100
_BLANKS = re.compile(rb'("[^"\n]*")|[ \t]+')


@dataclass(frozen=True)
class Dialect:
    """How lines become values.

    Attributes
    ----------
    delimiter : str
        ``,`` ``;`` tab, or a blank, which stands for any run of blanks and tabs.
    names : tuple of str
        The columns.
    header : int
        Number of the line that names them, 0 if none does.
    trailing : bool
        Each line ends in one more delimiter.
    """

    delimiter: str
    names: tuple[str, ...] = ()
    header: int = 0
    trailing: bool = False


def is_number(text: str) -> bool:
    """Whether a text is a number (underscores and hexadecimal digits are no part of one)."""
    return _NUMBER.fullmatch(text.strip()) is not None


def split_line(line: bytes, dialect: Dialect, *, where: str) -> list[str]:
    """Values of one line, slowly and strictly.

    Raises
    ------
    DataError
        Not UTF-8, or a quote that is not closed on the line.
    """
    try:
        text = squeeze(line).decode() if dialect.delimiter == " " else line.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: the text is not UTF-8 ({error.reason} at byte {error.start + 1})") from None
    try:
        fields = next(csv.reader([text], delimiter=dialect.delimiter, strict=False), [])
    except csv.Error as error:
        raise DataError(f"{where}: {error}") from None
    if any("\n" in value for value in fields[-1:]) or ('"' in text and _open_quote(text, dialect.delimiter)):
        raise DataError(f"{where}: a quoted value is not closed on its line")
    if dialect.trailing and len(fields) > 1 and not fields[-1].strip():
        fields.pop()
    return fields


def squeeze(data: bytes) -> bytes:
    r"""Runs of blanks and tabs outside quotes made one blank, and none at either end of a line.

    >>> squeeze(b"  1.0   2\t-3 \n")
    b'1.0 2 -3\n'
    """
    if b'"' in data:
        data = _BLANKS.sub(lambda match: match.group(1) or b" ", data)
    else:
        data = data.replace(b"\t", b" ")
        while b"  " in data:
            data = data.replace(b"  ", b" ")
    data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n")
    return data.removeprefix(b" ").removesuffix(b" ")


def detect(block: Block, *, delimiter: str | None, header: bool | None, names: Sequence[str] | None) -> Dialect:
    """Dialect from a file's first block; what is not None is taken as given.

    Raises
    ------
    DataError
        No rows, a line without a delimiter's trace, or column names that repeat.
    """
    sample = []
    for number, line in block.lines():
        sample.append((number, line))
        if len(sample) > _SAMPLE_LINES:
            break
    if not sample:
        raise DataError(f"{block.name}, line {block.first}: expected rows; the file is empty")
    dialect = Dialect(delimiter or _delimiter([line for _, line in sample]))
    rows = [split_line(line, dialect, where=f"{block.name}, line {number}") for number, line in sample]
    named = header if header is not None else names is None and _first_names(rows)
    body = rows[1:] if named and len(rows) > 1 else rows
    if dialect.delimiter != " " and all(len(row) > 1 and not row[-1].strip() for row in body):
        longer = named and len(rows[0]) < len(body[0])
        if not named or longer or not rows[0][-1].strip():
            dialect = replace(dialect, trailing=True)
            rows = [row[:-1] if len(row) == len(body[0]) else row for row in rows]
    if names is not None:
        found = unique_names([str(name) for name in names], source=block.name)
    elif named:
        found = [value.strip() or f"Unnamed: {j}" for j, value in enumerate(rows[0])]
        found = unique_names(found, source=block.name)
    else:
        found = column_names(len(rows[0]))
    return replace(dialect, names=tuple(found), header=sample[0][0] if named else 0)


def _delimiter(lines: list[bytes]) -> str:
    """The separator that splits every line of the sample, into equally many values if one does."""
    best, quality = ",", (False, False, 0)
    for candidate in (",", ";", "\t", " "):
        counts = [_count(line, candidate) for line in lines]
        if candidate == " " and quality[0]:
            break  # blanks may also stand inside values
        here = (min(counts) > 0, len(set(counts[1:] or counts)) == 1, min(counts))
        if here > quality and here[0]:
            best, quality = candidate, here
    return best


def _count(line: bytes, delimiter: str) -> int:
    if delimiter == " ":
        return squeeze(line).count(b" ")
    if b'"' in line:
        line = re.sub(rb'"[^"]*"', b"", line)
    return line.count(delimiter.encode())


def _first_names(rows: list[list[str]]) -> bool:
    """Whether the first line names columns, judged by the lines after it."""
    first, rest = [value.strip() for value in rows[0]], rows[1:]
    if not rest:  # a header and no rows, or a single row of numbers
        return len(first) > 1 and "" not in first and not any(is_number(value) for value in first)
    numeric = [
        [is_number(row[j]) or row[j].strip() in MISSING for row in rest if j < len(row)] for j in range(len(first))
    ]
    for value, column in zip(first, numeric, strict=True):
        if value and value not in MISSING and not is_number(value) and column and all(column):
            return True
    if any(is_number(value) for value in first) or len(set(first)) < len(first) or "" in first:
        return False
    # All text: a header's words do not come again as values of their column.
    return (
        len(rest) > 1
        and not any(any(column) for column in numeric)
        and all(row[j].strip() != value for j, value in enumerate(first) for row in rest if j < len(row))
    )


def _open_quote(text: str, delimiter: str) -> bool:
    """Whether the last value starts with a quote that is never closed."""
    inside = False
    start = True
    position = 0
    while position < len(text):
        char = text[position]
        if inside:
            if char == '"':
                if text[position + 1 : position + 2] == '"':
                    position += 1
                else:
                    inside = False
        elif char == '"' and start:
            inside = True
        start = not inside and char == delimiter
        position += 1
    return inside
