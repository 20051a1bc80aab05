"""A text file as blocks of whole lines, with line numbers. In all text formats here one row is one line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.data.formats.source import Source

__all__ = ["BLOCK_BYTES", "MAX_LINE_BYTES", "Block", "blocks", "row_lines"]

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
    """

    data: bytes
    first: int
    name: str
    read: int
    total: int

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
        for number, line in enumerate(self.data.split(b"\n"), self.first):
            if line.strip():
                yield number, line

    def after(self, line: int) -> Block:
        """The part of this block after a line."""
        start = 0
        for _ in range(line + 1 - self.first):
            start = self.data.index(b"\n", start) + 1
        return Block(self.data[start:], line + 1, self.name, self.read, self.total)


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
    if rows == block.count:
        return range(block.first, block.first + rows)
    numbers = np.fromiter((number for number, _ in block.lines()), dtype=np.int64)
    if len(numbers) != rows:
        raise DataError(f"{block.name}: {len(numbers)} lines of text but {rows} rows from line {block.first} on")
    return numbers
