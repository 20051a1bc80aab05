"""A text file as blocks of whole lines, with line numbers.

One row is one line, but for quoted values that run over a line's end (RFC 4180): :func:`joined` makes one line of
theirs, in which :data:`BREAK` stands for the line's end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.data.formats.source import Source

__all__ = ["BLOCK_BYTES", "BREAK", "MAX_LINE_BYTES", "Block", "blocks", "joined", "row_lines"]

BREAK = b"\x1e"
"""The end of a line inside quotes (ASCII's record separator)."""

BLOCK_BYTES = 8 << 20
"""Bytes of text in a block: large enough that the cost of a block vanishes, small against memory."""

MAX_LINE_BYTES = 64 << 20
"""A longer line is no table's row; the limit keeps memory bounded on binary files."""


@dataclass(frozen=True)
class Block:
    r"""Whole lines.

    Attributes
    ----------
    data : bytes
        Each line ends in ``\n`` (added after the last line of the file if it lacks one); no ``\r``, no NUL.
    first : int
        Number of the first line, from 1.
    name : str
        The file, for messages.
    read, total : int
        Bytes of the file on disk read so far, and its size.
    wrapped : bool
        Some lines are several of the file's, see :data:`BREAK`.
    """

    data: bytes
    first: int
    name: str
    read: int
    total: int
    wrapped: bool = False

    @cached_property
    def count(self) -> int:
        """Number of lines."""
        return self.data.count(b"\n")

    @property
    def blank(self) -> bool:
        """Whether no line holds anything."""
        return not self.data or self.data.isspace()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Line numbers and lines, those that are blank left out."""
        number = self.first
        for line in self.data.split(b"\n"):
            if line.strip():
                yield number, line
            number += 1 + (line.count(BREAK) if self.wrapped else 0)

    def after(self, line: int) -> Block:
        """The part of this block after a line."""
        start, number = 0, self.first
        while number <= line:
            end = self.data.index(b"\n", start) + 1
            number += 1 + (self.data.count(BREAK, start, end) if self.wrapped else 0)
            start = end
        return Block(self.data[start:], number, self.name, self.read, self.total, self.wrapped)


def blocks(source: Source, *, size: int | None = None) -> Iterator[Block]:
    """Read a text file block by block.

    Raises
    ------
    DataError
        Damaged, binary, UTF-16, or a line beyond :data:`MAX_LINE_BYTES`; the message names the line.
    """
    size = BLOCK_BYTES if size is None else size
    first = 1
    rest = b""
    ended = False
    while not ended:
        try:
            chunk = source.read(size)
        except DataError as error:
            raise DataError(f"{error}; line {first} or after") from error
        ended = len(chunk) < size
        if first == 1 and not rest:
            if chunk.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise DataError(f"{source.name}, line 1: the text is UTF-16; save it as UTF-8")
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
        data = rest + chunk
        if b"\0" in chunk:
            line = first + data[: data.index(b"\0")].count(b"\n")
            raise DataError(f"{source.name}, line {line}: expected text; got binary data (a NUL byte)")
        if b"\r" in data:
            # A carriage return at the very end may be half of a CRLF.
            held = b"\r" if data.endswith(b"\r") and not ended else b""
            data = data[: len(data) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n") + held
        if ended and data and not data.endswith(b"\n"):
            data += b"\n"
        end = data.rfind(b"\n") + 1
        data, rest = data[:end], data[end:]
        if len(rest) > MAX_LINE_BYTES:
            line = first + data.count(b"\n")
            raise DataError(f"{source.name}, line {line}: longer than {MAX_LINE_BYTES >> 20} MiB; not a table")
        if data:
            block = Block(data, first, source.name, source.position, source.total)
            yield block
            first += block.count


def row_lines(block: Block, rows: int) -> npt.NDArray[np.int64] | range:
    """Line number of each row of a block, whose blank lines hold no row.

    Raises
    ------
    DataError
        The number of rows is not that of lines: a quoted value runs over a line's end.
    """
    if rows == block.count and not block.wrapped:
        return range(block.first, block.first + rows)
    numbers = np.fromiter((number for number, _ in block.lines()), dtype=np.int64)
    if len(numbers) != rows:
        raise DataError(f"{block.name}: {len(numbers)} lines of text but {rows} rows from line {block.first} on")
    return numbers


_QUOTE = re.compile(rb'"')
_MAX_JOINED = 1 << 20  # bytes of a row that runs over several lines; a quote that never closes is refused so far on


def joined(parts: Iterator[Block], delimiters: bytes) -> Iterator[Block]:
    """Blocks in which a quoted value that runs over line ends is one line, with :data:`BREAK` inside.

    A quote that is not closed within a megabyte stays as it is, for the reader to refuse.

    Parameters
    ----------
    parts : iterator of Block
        Of one file.
    delimiters : bytes
        What may stand before the quote that opens a value, each byte one.
    """
    held, first = b"", 0
    for block in parts:
        if not held and not _may_wrap(block.data):
            yield block
            continue
        first = first if held else block.first
        data, held, wrapped = _join(held + block.data, delimiters)
        if data:
            yield Block(data, first, block.name, block.read, block.total, wrapped)
            first += data.count(b"\n") + (data.count(BREAK) if wrapped else 0)
        last = block
    if held:
        yield Block(held, first, last.name, last.read, last.total)


def _may_wrap(data: bytes) -> bool:
    return b'"' in data and any(line.count(b'"') % 2 for line in data.split(b"\n"))


def _join(data: bytes, delimiters: bytes) -> tuple[bytes, bytes, bool]:
    """Lines with their continuations, what must wait for the next block, and whether any line was joined."""
    lines = data.split(b"\n")
    done: list[bytes] = []
    wrapped = False
    k = 0
    while k < len(lines):
        inside = _open_after(lines[k], delimiters, inside=False)
        end, size = k, len(lines[k])
        while inside and end + 1 < len(lines) - 1 and size <= _MAX_JOINED:
            end += 1
            size += len(lines[end]) + 1
            inside = _open_after(lines[end], delimiters, inside=True)
        if inside and size <= _MAX_JOINED:
            return b"".join(line + b"\n" for line in done), b"\n".join(lines[k:]), wrapped
        if inside:
            end = k
        wrapped = wrapped or end > k
        done.append(BREAK.join(lines[k : end + 1]))
        k = end + 1
    return b"\n".join(done), b"", wrapped


def _open_after(line: bytes, delimiters: bytes, *, inside: bool) -> bool:
    """Whether a quoted value is open at the end of a line, given whether one was at its beginning."""
    if b'"' not in line:
        return inside
    position = 0
    for match in _QUOTE.finditer(line):
        at = match.start()
        if at < position:
            continue  # the second of a doubled quote
        if inside:
            if line[at + 1 : at + 2] == b'"':
                position = at + 2
            else:
                inside = False
        elif at == 0 or line[at - 1 : at] in [bytes([each]) for each in delimiters]:
            inside = True
    return inside
