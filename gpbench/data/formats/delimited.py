"""Text tables: comma, semicolon, tab or blanks between values, with or without a header, quoted or not.

Each block of lines goes through pyarrow's parser at once. What it refuses is read again slowly, line by line, to mend
what can be mended (blank lines of blanks, a trailing delimiter on some lines) or to name the line that is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from gpbench.data.formats.dialect import MISSING, Dialect, detect, split_line, squeeze
from gpbench.data.formats.frames import Frames, frame
from gpbench.data.formats.lines import Block, blocks, row_lines
from gpbench.data.formats.source import open_bytes
from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

__all__ = ["Parser", "read_delimited"]

_PIECE_BYTES = 1 << 20
"""What pyarrow parses at once. It fits the cache: 8 MiB at once take 2.7 times as long."""


def read_delimited(
    path: str | Path,
    *,
    member: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    text: Collection[str] = (),
    missing: Sequence[str] = MISSING,
    fill_short: bool = False,
    block_bytes: int | None = None,
) -> Frames:
    """Rows of a text table, in blocks.

    Parameters
    ----------
    path : path
        The file, plain or compressed.
    member : str, optional
        Name inside an archive.
    delimiter : str, optional
        ``","``, ``";"``, tab, or ``" "`` for runs of blanks; found from the first lines if not given.
    header : bool, optional
        Whether the first line names the columns; found likewise. Without one they are x1, x2, ...
    names : sequence of str, optional
        Names of the columns, instead of those in the file.
    text : names
        Columns that stay text even where they look like numbers (identifiers beyond 2^53).
    missing : sequence of str
        What stands for a missing value.
    fill_short : bool
        Lines with fewer values than columns are filled up with missing ones; otherwise they are an error.
    block_bytes : int, optional
        Size of a block.

    Yields
    ------
    pandas.DataFrame
        float64 or int64 columns where all values of the block are numbers (or missing: NaN), else text (missing: None).

    Raises
    ------
    DataError
        Naming file and line.
    """
    with open_bytes(path, member=member) as source:
        parser: Parser | None = None
        for block in blocks(source, size=block_bytes):
            if parser is None:
                if block.blank:
                    continue
                dialect = detect(block, delimiter=delimiter, header=header, names=names)
                strange = [name for name in text if name not in dialect.names]
                if strange:
                    raise UsageError(
                        f"{source.name}: no column {', '.join(strange)}; it has {', '.join(dialect.names)}"
                    )
                parser = Parser(dialect, text=text, missing=missing, fill_short=fill_short)
                body = block.after(dialect.header) if dialect.header else block
                yield from parser.frames(body)
            else:
                yield from parser.frames(block)
        if parser is None or not parser.rows:
            raise DataError(
                f"{source.name}, line 1: expected rows; the file {'holds a header only' if parser else 'is empty'}"
            )


class Parser:
    """Lines to columns, with the types found so far: integers widen to floats, floats to text."""

    def __init__(
        self,
        dialect: Dialect,
        *,
        text: Collection[str] = (),
        missing: Sequence[str] = MISSING,
        fill_short: bool = False,
    ) -> None:
        self.dialect = dialect
        self._fill_short = fill_short
        self.rows = 0
        self._missing = list(missing)
        # For pyarrow a line of blanks or tabs is a row here; elsewhere it has too few values.
        self._sees_blank_lines = dialect.delimiter == "\t" or len(dialect.names) == 1
        self._types: dict[str, Any] = dict.fromkeys(text, pa.string())

    def frames(self, block: Block) -> Iterator[pd.DataFrame]:
        """The block's rows; nothing if it has none."""
        if block.blank:
            return
        numbers, table = self._table(block)
        columns = {name: self._column(name, table.column(j), block) for j, name in enumerate(self.dialect.names)}
        self.rows += table.num_rows
        yield frame(
            pd.DataFrame(columns, copy=False),
            numbers=numbers,
            source=block.name,
            read=block.read,
            total=block.total,
        )

    def _table(self, block: Block) -> tuple[Any, Any]:
        data = squeeze(block.data) if self.dialect.delimiter == " " else block.data
        if self.dialect.trailing:
            data = data.replace(self.dialect.delimiter.encode() + b"\n", b"\n")
        try:
            if not (self._sees_blank_lines and any(line.isspace() for line in data.split(b"\n"))):
                table = self._parse(data)
                return row_lines(block, table.num_rows), table
        except (pa.ArrowInvalid, DataError):
            pass  # read again slowly
        kept, mended = self._mend(block)
        try:
            table = self._parse(mended)
        except pa.ArrowInvalid as error:
            raise DataError(f"{block.name}, line {kept[0]} or after: {error}") from error
        if table.num_rows != len(kept):
            raise DataError(f"{block.name}, line {kept[0]} or after: lines and rows do not agree")
        return pd.Index(kept).to_numpy(), table

    def _parse(self, data: bytes) -> Any:
        try:
            table = self._parse_as(data, self._types, piece=_PIECE_BYTES)
        except pa.ArrowInvalid:
            # A value that does not fit its column's type, or broken lines: types of this block are found anew.
            # Or a line longer than a piece.
            texts = {name: kind for name, kind in self._types.items() if kind == pa.string()}
            table = self._parse_as(data, texts)
        dates = [field.name for field in table.schema if pa.types.is_temporal(field.type)]
        if dates:  # pyarrow knows dates and times of day; here they are text, as written
            self._types.update(dict.fromkeys(dates, pa.string()))
            table = self._parse_as(data, self._types)
        return table

    def _parse_as(self, data: bytes, types: dict[str, Any], *, piece: int | None = None) -> Any:
        return pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(
                column_names=list(self.dialect.names), use_threads=False, block_size=piece or max(len(data), 1)
            ),
            parse_options=pacsv.ParseOptions(delimiter=self.dialect.delimiter, newlines_in_values=False),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                null_values=self._missing,
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
                true_values=[],
                false_values=[],
                timestamp_parsers=["none"],
            ),
        )

    def _mend(self, block: Block) -> tuple[list[int], bytes]:
        """Line numbers and text of the block's rows, each checked.

        Raises
        ------
        DataError
            A line with too few or too many values.
        """
        kept, lines = [], []
        expected = len(self.dialect.names)
        delimiter = self.dialect.delimiter
        for number, line in block.lines():
            where = f"{block.name}, line {number}"
            fields = split_line(line, self.dialect, where=where)
            if len(fields) == expected + 1 and not fields[-1].strip():
                fields.pop()
            if self._fill_short:
                fields += [""] * (expected - len(fields))
            if len(fields) != expected:
                raise DataError(f"{where}: expected {expected} values; got {len(fields)}")
            kept.append(number)
            quoted = ('"' + value.replace('"', '""') + '"' for value in fields)
            lines.append(delimiter.join(quoted))
        return kept, ("\n".join(lines) + "\n").encode()

    def _column(self, name: str, column: Any, block: Block) -> pd.Series | Any:
        """A pandas column; text that holds numbers only after trimming becomes numbers."""
        kind = column.type
        if pa.types.is_null(kind):
            return pd.Series([float("nan")] * len(column), dtype="float64")
        if pa.types.is_integer(kind) and not column.null_count:
            self._types.setdefault(name, pa.int64())
            return column.to_numpy()
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            if name not in self._types or self._types[name] == pa.int64():
                self._types[name] = pa.float64()
            return column.cast(pa.float64()).to_numpy()
        return self._text(name, column, block)

    def _text(self, name: str, column: Any, block: Block) -> Any:
        if not pa.types.is_string(column.type):
            self._mend(block)  # names the line that is not UTF-8
            raise DataError(f"{block.name}, line {block.first} or after: column {name} is not UTF-8 text")
        trimmed = pc.utf8_trim_whitespace(column)
        gone = pc.is_in(trimmed, value_set=pa.array(self._missing, type=pa.string()))
        trimmed = pc.if_else(gone, pa.scalar(None, type=pa.string()), trimmed)
        if self._types.get(name) != pa.string():
            try:
                return trimmed.cast(pa.float64()).to_numpy()
            except pa.ArrowInvalid:
                self._types[name] = pa.string()
        return trimmed.to_pandas()
