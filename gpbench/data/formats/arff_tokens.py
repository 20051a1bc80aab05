"""ARFF's lines in pieces: values between commas, quoted by ' or ", escaped by a backslash; in linear time."""

from __future__ import annotations

from gpbench.errors import DataError

__all__ = ["name_and_rest", "split_pairs", "split_values", "without_comment"]

_QUOTES = ("'", '"')


def without_comment(line: str) -> str:
    """A line up to the first % outside quotes, which begins a comment; quotes open where a value begins.

    >>> without_comment("1, 'a % b' % c")
    "1, 'a % b' "
    """
    if "%" not in line:
        return line
    position, starts = 0, True
    while position < len(line):
        char = line[position]
        if char == "%":
            return line[:position]
        if char in _QUOTES and starts:
            try:
                _, position = _quoted(line, position, "")
            except DataError:
                return line  # a quote that is not closed; its reader says so
            starts = False
            continue
        starts = char in ",{ \t"
        position += 1
    return line


def split_values(line: str, *, where: str) -> list[str | None]:
    r"""Values of a dense row; None for an unquoted ``?``.

    >>> split_values("1, 'it\\'s', ?", where="")
    ['1', "it's", None]

    Raises
    ------
    DataError
        A quote that is not closed, or text after one.
    """
    if "," not in line and not any(quote in line for quote in _QUOTES):
        return [None if word == "?" else word for word in line.split()]  # Weka takes blanks for commas
    values: list[str | None] = []
    position = 0
    while True:
        value, position = _value(line, position, where)
        values.append(value)
        if position >= len(line):
            return values
        position += 1


def split_pairs(inner: str, *, where: str) -> list[tuple[int, str | None]]:
    """Index and value of each entry of a sparse row, given without its braces.

    Raises
    ------
    DataError
        No ``index value``.
    """
    pairs: list[tuple[int, str | None]] = []
    position = 0
    if not inner.strip():
        return pairs
    while True:
        position = _skip(inner, position)
        if position == len(inner) and pairs:
            return pairs  # a comma after the last pair
        start = position
        while position < len(inner) and inner[position] in "0123456789":
            position += 1
        digits = inner[start:position]
        if not digits or len(digits) > 9 or inner[position : position + 1] not in (" ", "\t"):
            raise DataError(f"{where}: expected 'index value' in a sparse row; got {inner[start : start + 40]!r}")
        value, position = _value(inner, position, where)
        if value == "":
            raise DataError(f"{where}: expected a value after index {digits}")
        pairs.append((int(digits), value))
        if position >= len(inner):
            return pairs
        position += 1


def name_and_rest(text: str, *, where: str) -> tuple[str, str]:
    """A name, quoted or not, and what follows it.

    Raises
    ------
    DataError
        No name, or a quote that is not closed.
    """
    text = text.strip()
    if text[:1] in _QUOTES:
        name, end = _quoted(text, 0, where)
        return name, text[end:].strip()
    name, _, rest = text.replace("\t", " ").partition(" ")
    if "{" in name:  # no blank before the categories
        name, _, _ = name.partition("{")
        rest = text[len(name) :]
    if not name:
        raise DataError(f"{where}: expected a name; got {text[:40]!r}")
    return name, rest.strip()


def _skip(line: str, position: int) -> int:
    while position < len(line) and line[position] in " \t":
        position += 1
    return position


def _value(line: str, position: int, where: str) -> tuple[str | None, int]:
    """The value that starts here, and the position of the comma after it (or the end)."""
    position = _skip(line, position)
    if line[position : position + 1] in _QUOTES:
        value, end = _quoted(line, position, where)
        end = _skip(line, end)
        if end < len(line) and line[end] != ",":
            raise DataError(f"{where}: expected a comma after a quoted value; got {line[end : end + 40]!r}")
        return value, end
    end = line.find(",", position)
    end = len(line) if end < 0 else end
    text = line[position:end].strip()
    return (None if text == "?" else text), end


def _quoted(line: str, start: int, where: str) -> tuple[str, int]:
    """The text of the quote that opens at ``start``, and the position after it."""
    pieces: list[str] = []
    position = start + 1
    while position < len(line):
        char = line[position]
        if char == line[start]:
            return "".join(pieces), position + 1
        if char == "\\" and position + 1 < len(line):
            position += 1
            char = line[position]
        pieces.append(char)
        position += 1
    raise DataError(f"{where}: a quote is not closed: {line[start : start + 40]!r}")
