"""What separates the values of a text table, and whether its first line names the columns."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpbench.data.formats.frames import column_names, too_wide, unique_names
from gpbench.data.formats.lines import BREAK
from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpbench.data.formats.lines import Block

__all__ = ["MISSING", "Dialect", "detect", "is_number", "split_line"]

MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-nan", "null", "NULL", "\\N")
"""What stands for a missing value unless the caller says otherwise."""

# Each character belongs to one part of the pattern alone, so that a long text is answered in linear time.
_AROUND = " \t\n\r\v\f\u00a0\u2009\u202f\u3000"
"""What `float` leaves out around a number; `str.strip` would take separators such as 0x1e, too."""
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL_COMMA = re.compile(r"[+-]?([0-9]{1,3}([.'\u00a0\u202f][0-9]{3})+|[0-9]*),[0-9]+(e[+-]?[0-9]+)?", re.IGNORECASE)
_SAMPLE_LINES = 100
_SAMPLE_VALUES = 50_000
"""A wide table shows itself in few lines."""
_FEW_CLASSES = 20
_LEAST_LINES = 10
_SEPARATOR = re.compile(rb'"?sep=([,;\t| ])"?', re.IGNORECASE)
_BREAK = BREAK.decode()
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
    skip : int
        Number of a line before them that says ``sep=;``; 0 if none does.
    trailing : bool
        Each line ends in one more delimiter.
    doubt : str
        Why the first line was taken for names, or for a row, where it could be either; else empty.
    """

    delimiter: str
    names: tuple[str, ...] = ()
    header: int = 0
    skip: int = 0
    trailing: bool = False
    doubt: str = ""


def is_number(text: str) -> bool:
    """Whether a text is a number (underscores and hexadecimal digits are no part of one)."""
    return _NUMBER.fullmatch(text.strip(_AROUND)) is not None


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
        raise DataError(
            f"{where}: the text is not UTF-8 ({error.reason} at byte {error.start + 1}); save it as UTF-8"
        ) from None
    if '"' not in text:
        fields = text.split(dialect.delimiter)
        if dialect.trailing and len(fields) > 1 and not fields[-1].strip():
            fields.pop()
        return fields
    try:
        fields = next(csv.reader([text], delimiter=dialect.delimiter, strict=False), [])
    except csv.Error as error:
        raise DataError(f"{where}: {error}") from None
    if any("\n" in value for value in fields[-1:]) or ('"' in text and _open_quote(text, dialect.delimiter)):
        raise DataError(f"{where}: a quoted value is not closed")
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


def detect(
    block: Block,
    *,
    delimiter: str | None,
    header: bool | None,
    names: Sequence[str] | None,
    needed: Collection[str] | None = None,
) -> Dialect:
    """Dialect from a file's first block; what is not None is taken as given.

    ``needed`` is as for :func:`~gpbench.data.formats.frames.unique_names`.

    Raises
    ------
    DataError
        No rows, a line without a delimiter's trace, or column names that repeat.
    """
    sample: list[tuple[int, bytes]] = []
    size = 0
    for number, line in block.lines():
        sample.append((number, line))
        size += line.count(b",") + line.count(b" ") + line.count(b"\t") + line.count(b";") + 1
        if len(sample) > _SAMPLE_LINES or (size > _SAMPLE_VALUES and len(sample) > _LEAST_LINES):
            break
    if not sample:
        raise DataError(f"{block.name}, line {block.first}: expected rows; the file is empty")
    _refuse_other(sample[0], block.name)
    asked = _SEPARATOR.fullmatch(sample[0][1].strip())
    if asked is not None:  # Excel's own way to say it
        rest = block.after(sample[0][0])
        inner = detect(rest, delimiter=delimiter or asked[1].decode(), header=header, names=names, needed=needed)
        return inner if inner.header else replace(inner, skip=sample[0][0])
    dialect = Dialect(delimiter or _delimiter([line for _, line in sample]))
    for number, line in sample:
        if b'"' not in line:
            too_wide(line.count(dialect.delimiter.encode()) + 1, where=f"{block.name}, line {number}")
    rows = [split_line(line, dialect, where=f"{block.name}, line {number}") for number, line in sample]
    for (number, _), row in zip(sample, rows, strict=True):
        too_wide(len(row), where=f"{block.name}, line {number}")
    _refuse_comment(sample[0], rows, block.name)
    named, doubt = (header, "") if header is not None else (False, "") if names is not None else _first_names(rows)
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
        if not dialect.trailing and body and all(len(row) == len(found) + 1 for row in rows[1:]) and len(rows) > 1:
            found = ["Unnamed: 0", *found]  # R's write.table: the names of rows have none of their own
        found = unique_names([name.replace(_BREAK, " ") for name in found], source=block.name, needed=needed)
    else:
        found = column_names(len(rows[0]))
    return replace(
        dialect,
        names=tuple(found),
        header=sample[0][0] if named else 0,
        doubt=doubt and f"line {sample[0][0]} {doubt}",
    )


def _refuse_other(line: tuple[int, bytes], name: str) -> None:
    """Refuse what is evidently no table, at its first line and not where the columns come to differ."""
    head = line[1].lstrip()[:15].lower()
    if head.startswith((b"<!doctype", b"<html", b"<?xml", b"<head", b"<body")):
        kind = "an XML" if head.startswith(b"<?xml") else "an HTML"
        raise DataError(f"{name}, line {line[0]}: expected a table; got {kind} page; download the file itself")


def _refuse_comment(line: tuple[int, bytes], rows: list[list[str]], name: str) -> None:
    """A line that begins with # and has other columns than those after it is a comment, which tables have none of."""
    if line[1].lstrip().startswith(b"#") and any(len(row) != len(rows[0]) for row in rows[1:]):
        raise DataError(
            f"{name}, line {line[0]}: expected names or values; got a comment, "
            f"{line[1].decode(errors='replace')[:40]!r}; remove such lines"
        )


def _delimiter(lines: list[bytes]) -> str:
    """The separator that splits every line of the sample, into equally many values if one does.

    A comma is none where another does and commas are those of decimals: ``0,1;-0,5;1``.
    """
    best, quality = ",", (False, False, 0)
    for candidate in (",", ";", "\t", " "):
        counts = [_count(line, candidate) for line in lines]
        if candidate == " " and quality[0]:
            break  # blanks may also stand inside values
        here = (min(counts) > 0, len(set(counts[1:] or counts)) == 1, min(counts))
        if here > quality and here[0]:
            best, quality = candidate, here
    if best == ",":
        return next((other for other in (";", "\t", " ") if _has_decimal_commas(lines, other)), best)
    return best


def _has_decimal_commas(lines: list[bytes], delimiter: str) -> bool:
    """Whether a separator splits every line into equally many values, and commas stand in numbers as points may.

    Blanks separate numbers alone: among texts they stand inside values.
    """
    counts = {_count(line, delimiter) for line in lines}
    if len(counts) != 1 or 0 in counts:
        return False
    some = False
    for line in lines if delimiter == " " else lines[1:] or lines:  # the first may hold names
        text = (squeeze(line) if delimiter == " " else line).decode(errors="replace").replace('"', "")
        values = [value.strip(_AROUND) for value in text.split(delimiter)]
        commas = [value for value in values if "," in value]
        some = some or bool(commas)
        if not all(map(_DECIMAL_COMMA.fullmatch, commas)):
            return False
        if delimiter == " " and not all(value in commas or is_number(value) for value in values):
            return False
    return some


def _count(line: bytes, delimiter: str) -> int:
    if delimiter == " ":
        return squeeze(line).count(b" ")
    if b'"' in line:
        line = re.sub(rb'"[^"]*"', b"", line)
    return line.count(delimiter.encode())


def _first_names(rows: list[list[str]]) -> tuple[bool, str]:
    """Whether the first line names columns, judged by the lines after it; and why, where it is not plain.

    A line of names differs from the rows: in a column of numbers it holds a word, or in one of decimals a whole number;
    or its last value is none of the few that the last column holds. Names differ from one another, and none is empty
    but the first, where pandas leaves its index without one.
    """
    first, rest = [value.strip() for value in rows[0]], rows[1:]
    numbers = [is_number(value) for value in first]
    if not rest:  # a header and no rows, or a single row of numbers
        return len(first) > 1 and "" not in first and not any(numbers), ""
    for j, value in enumerate(first):
        if value and value not in MISSING and not numbers[j] and _all_numbers(rest, j):
            return True, ""
    if len(set(first)) < len(first) or any(value in MISSING for value in first[1:]):
        return False, ""
    if strange := _strange_last(first[-1], rest, len(first) - 1):
        return True, f"was read as column names, since {strange}; --header no reads it as a row"
    if all(_INTEGER.fullmatch(value) for value in first):
        for j in range(len(first)):
            if _all_decimals(rest, j):
                why = f"its values are whole and differ, and column {j + 1} holds decimals"
                return True, f"was read as column names, since {why}; --header no reads it as a row"
    if any(numbers) or "" in first:
        return False, ""
    # All text: a header's words do not come again as values of their column.
    columns = range(len(first))
    words = (
        len(rest) > 1
        and not any(is_number(row[j]) or row[j].strip() in MISSING for row in rest for j in columns if j < len(row))
        and all(row[j].strip() != value for j, value in enumerate(first) for row in rest if j < len(row))
    )
    read, other = ("column names", "--header no reads it as a row") if words else ("a row", "--header yes as names")
    return words, f"was read as {read}, which text alone cannot tell; {other}"


def _all_numbers(rows: list[list[str]], j: int) -> bool:
    """Whether a column holds numbers alone, or nothing, in these rows."""
    values = [row[j].strip() for row in rows if j < len(row)]
    return bool(values) and all(value in MISSING or is_number(value) for value in values)


def _all_decimals(rows: list[list[str]], j: int) -> bool:
    values = [row[j].strip() for row in rows if j < len(row)]
    return len(values) >= _LEAST_LINES and all(
        is_number(value) and not _INTEGER.fullmatch(value) for value in values if value not in MISSING
    )


def _strange_last(value: str, rows: list[list[str]], j: int) -> str:
    """In words, that a value is none of the few that a column holds again and again; else empty."""
    values = [row[j].strip() for row in rows if j < len(row)]
    seen = {float(text) if is_number(text) else text for text in values if text not in MISSING}
    if not 2 <= len(seen) <= _FEW_CLASSES or len(values) < max(3 * len(seen), _LEAST_LINES):
        return ""
    if value in MISSING or (float(value) if is_number(value) else value) in seen:
        return ""
    return f"its last value, {value[:40]!r}, is none of the last column's"


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
