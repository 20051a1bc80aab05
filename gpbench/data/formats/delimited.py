"""Text tables: comma, semicolon, tab or blanks between values, with or without a header, quoted or not.

Each block of lines goes through pyarrow's parser at once. What it refuses is read again slowly, line by line, to mend
what can be mended (blank lines of blanks, a trailing delimiter on some lines) or to name the line that is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from gpbench.data.formats.dialect import MISSING, Dialect, detect, split_line, squeeze
from gpbench.data.formats.frames import Frames, frame
from gpbench.data.formats.lines import BREAK, Block, blocks, joined, row_lines
from gpbench.data.formats.source import open_bytes
from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

__all__ = ["Parser", "read_delimited"]

_DELIMITERS = b",;\t "
_EXACT = 2.0**53
_LOOKS = 300
"""So many large numbers of a block are looked at, for digits that are lost; no longer one is."""
_BREAK = BREAK.decode()

_PIECE_ROW_BYTES = 400
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
    needed: Collection[str] | None = None,
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
    needed : names, optional
        Names in the file that must differ, where not all must.
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
        before = delimiter.encode() if delimiter is not None else _DELIMITERS
        for block in joined(blocks(source, size=block_bytes), before):
            if parser is None:
                if block.blank:
                    continue
                dialect = detect(block, delimiter=delimiter, header=header, names=names, needed=needed)
                strange = [name for name in text if name not in dialect.names]
                if strange:
                    raise UsageError(
                        f"{source.name}: no column {', '.join(strange)}; it has {', '.join(dialect.names)}"
                    )
                parser = Parser(dialect, text=text, missing=missing, fill_short=fill_short)
                body = block.after(max(dialect.header, dialect.skip))
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
        self._wrapped = False
        self._words: dict[str, list[str]] = {}  # column -> words that stood for a missing value
        self._inexact: dict[str, int] = {}  # column -> row of the block whose integer loses digits

    def frames(self, block: Block) -> Iterator[pd.DataFrame]:
        """The block's rows; nothing if it has none."""
        if block.blank:
            return
        numbers, table, data = self._table(block)
        self._wrapped, self._words, self._inexact = block.wrapped, {}, {}
        columns = {name: self._column(name, table.column(j), block) for j, name in enumerate(self.dialect.names)}
        self.rows += table.num_rows
        made = frame(
            pd.DataFrame(columns, copy=False),
            numbers=numbers,
            source=block.name,
            read=block.read,
            total=block.total,
        )
        made.attrs |= {"header": self.dialect.header, "doubt": self.dialect.doubt, "delimiter": self.dialect.delimiter}
        made.attrs |= {"words": self._words, "inexact": self._inexact, "index": self._index()}
        made.attrs["written"] = self._written(data, made.index, wrapped=block.wrapped)
        yield made

    def _index(self) -> tuple[str, ...]:
        """A first column without a name, as pandas and R write their index or names of rows."""
        first = self.dialect.names[0]
        return (first,) if self.dialect.header and first == "Unnamed: 0" and len(self.dialect.names) > 1 else ()

    def _written(self, data: bytes, index: pd.Index, *, wrapped: bool) -> Callable[[str], pd.Series | None]:
        """What gives a column of parsed lines as text; parsed once more, and only when asked for."""

        def written(name: str) -> pd.Series | None:
            if name not in self.dialect.names:
                return None
            kind = {name: pa.string()}
            try:
                table = self._parse_as(data, kind, piece=self._piece, only=name)
            except pa.ArrowInvalid:  # a line longer than a piece
                table = self._parse_as(data, kind, only=name)
            text, _ = self._trimmed(table.column(0))
            return self._whole(text, wrapped=wrapped).set_axis(index)

        return written

    def _table(self, block: Block) -> tuple[Any, Any, bytes]:
        """Line numbers, columns, and the lines as they were parsed."""
        data = squeeze(block.data) if self.dialect.delimiter == " " else block.data
        if self.dialect.trailing:
            data = data.replace(self.dialect.delimiter.encode() + b"\n", b"\n")
        try:
            if not (self._sees_blank_lines and any(line.isspace() for line in data.split(b"\n"))):
                table = self._parse(data)
                return row_lines(block, table.num_rows), table, data
        except (pa.ArrowInvalid, DataError):
            pass  # read again slowly
        kept, mended = self._mend(block)
        try:
            table = self._parse(mended)
        except pa.ArrowInvalid as error:
            raise DataError(f"{block.name}, line {kept[0]} or after: {error}") from error
        if table.num_rows != len(kept):
            raise DataError(f"{block.name}, line {kept[0]} or after: lines and rows do not agree")
        return pd.Index(kept).to_numpy(), table, mended

    @property
    def _piece(self) -> int:
        return max(_PIECE_BYTES, _PIECE_ROW_BYTES * len(self.dialect.names))  # a piece of a wide table needs rows, too

    def _parse(self, data: bytes) -> Any:
        try:
            table = self._parse_as(data, self._types, piece=self._piece)
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

    def _parse_as(
        self, data: bytes, types: dict[str, Any], *, piece: int | None = None, only: str | None = None
    ) -> Any:
        return pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(
                column_names=list(self.dialect.names), use_threads=False, block_size=piece or max(len(data), 1)
            ),
            parse_options=pacsv.ParseOptions(delimiter=self.dialect.delimiter, newlines_in_values=False),
            convert_options=pacsv.ConvertOptions(
                column_types=types,
                include_columns=[] if only is None else [only],  # none stands for all
                null_values=self._missing,
                strings_can_be_null=False,  # so that texts tell which word stood for a missing value
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
            values = column.to_numpy()
            if len(values) and (values.max() > _EXACT or values.min() < -_EXACT):
                self._inexact[name] = int(np.argmax(np.abs(values.astype(np.float64)) > _EXACT))
            return values
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            if name not in self._types or self._types[name] == pa.int64():
                self._types[name] = pa.float64()
            values = (column if kind == pa.float64() else column.cast(pa.float64(), safe=False)).to_numpy()
            self._look_inexact(name, values, column, block)
            return values
        return self._text(name, column, block)

    def _look_inexact(self, name: str, values: Any, column: Any, block: Block) -> None:
        """Note whole numbers of so many digits that floating point loses some; 1e300 has lost none."""
        highest, lowest = np.fmax.reduce(values), np.fmin.reduce(values)
        if not (highest > _EXACT or lowest < -_EXACT):
            return
        large = np.abs(values) > _EXACT
        if np.isinf(values[large]).all():
            return
        if pa.types.is_integer(column.type):
            self._inexact[name] = int(np.argmax(large))
            return
        j, left = self.dialect.names.index(name), _LOOKS
        for k, (number, line) in enumerate(block.lines()):
            if k < len(large) and large[k] and left:
                left -= 1
                text = split_line(line, self.dialect, where=f"{block.name}, line {number}")[j].strip().lstrip("+-")
                if text.isdecimal() and len(text) < _LOOKS and float(text) != int(text):
                    self._inexact[name] = k
                    return

    def _text(self, name: str, column: Any, block: Block) -> Any:
        if not pa.types.is_string(column.type):
            self._mend(block)  # names the line that is not UTF-8
            raise DataError(f"{block.name}, line {block.first} or after: column {name} is not UTF-8 text")
        trimmed, words = self._trimmed(column)
        if words:
            self._words[name] = words
        if self._types.get(name) != pa.string():
            try:
                return trimmed.cast(pa.float64()).to_numpy()
            except pa.ArrowInvalid:
                self._types[name] = pa.string()
        return self._whole(trimmed, wrapped=self._wrapped)

    def _trimmed(self, column: Any) -> tuple[Any, list[str]]:
        """Text without blanks around it and without missing values, and the words that stood for these."""
        trimmed = pc.utf8_trim_whitespace(column)
        gone = pc.is_in(trimmed, value_set=pa.array(self._missing, type=pa.string()))
        words = sorted(word for word in trimmed.filter(gone).unique().to_pylist() if word)
        return pc.if_else(gone, pa.scalar(None, type=pa.string()), trimmed), words

    @staticmethod
    def _whole(text: Any, *, wrapped: bool) -> pd.Series:
        """Text as pandas has it, with the line ends that lie inside quotes."""
        made: pd.Series = (pc.replace_substring(text, _BREAK, "\n") if wrapped else text).to_pandas()
        return made
