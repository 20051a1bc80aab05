"""ARFF, the format of Weka and OpenML: declared columns, then dense or sparse rows.

Dense rows without quotes go through the text tables' parser; quoted and sparse rows are read one by one. What files of
the wild do is read all the same: a comma after the last value, CRLF, blank lines and comments among the rows, blanks
instead of commas. Nominal values come as text. In a sparse row a value left out is 0, or the first category.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gpbench.data.formats.arff_tokens import name_and_rest, split_pairs, split_values, without_comment
from gpbench.data.formats.delimited import Parser
from gpbench.data.formats.dialect import Dialect, is_number
from gpbench.data.formats.frames import Frames, frame, unique_names
from gpbench.data.formats.lines import Block, blocks
from gpbench.data.formats.source import open_bytes
from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

__all__ = ["Attribute", "read_arff"]

_BLOCK_BYTES = 4 << 20
_WEIGHT = re.compile(r"\{\s*[0-9.eE+-]{1,40}\s*\}")


@dataclass(frozen=True)
class Attribute:
    """A declared column; ``categories`` is None for numbers, empty for free text."""

    name: str
    categories: tuple[str, ...] | None


def read_arff(path: str | Path, *, member: str | None = None, needed: Collection[str] | None = None) -> Frames:
    """Rows of an ARFF file: float64 columns for numbers, text for the rest; ``?`` is missing.

    ``needed`` are the names of columns that must differ, where not all must.

    Raises
    ------
    DataError
        Naming file and line: a broken header, a value that its column does not allow, too few or too many values.
    """
    with open_bytes(path, member=member) as source:
        reader = _Reader(needed)
        line = 1
        for block in blocks(source, size=_BLOCK_BYTES):
            line = block.first
            rest = reader.header(block)
            if rest is not None:
                yield from reader.rows(rest)
        if reader.parser is None:
            raise DataError(f"{source.name}, line {line} or after: expected @data; the file ends before it")
        if not reader.found:
            raise DataError(f"{source.name}, line {line} or after: expected rows after @data; there are none")


class _Reader:
    def __init__(self, needed: Collection[str] | None) -> None:
        self._needed = needed
        self.attributes: list[Attribute] = []
        self.parser: Parser | None = None
        self.found = False
        self.declared: frozenset[str] = frozenset()

    def header(self, block: Block) -> Block | None:
        """Take in the header's lines of a block; the rest of it, if there is one."""
        if self.parser is not None:
            return block
        for number, raw in block.lines():
            where = f"{block.name}, line {number}"
            line = without_comment(_text(raw, where)).strip()
            word = line.split(None, 1)[0].lower() if line else "%"
            if word.startswith("%") or word == "@relation":
                continue
            if word == "@attribute":
                self.attributes.append(_attribute(line, where))
            elif word == "@data":
                if not self.attributes:
                    raise DataError(f"{where}: expected @attribute before @data")
                names = unique_names([item.name for item in self.attributes], source=block.name, needed=self._needed)
                self.attributes = [replace(item, name=own) for item, own in zip(self.attributes, names, strict=True)]
                self.declared = frozenset(item.name for item in self.attributes if item.categories)
                texts = [item.name for item in self.attributes if item.categories is not None]
                self.parser = Parser(Dialect(",", tuple(names)), text=texts, missing=("?",))
                return block.after(number)
            else:
                raise DataError(f"{where}: expected @relation, @attribute or @data; got {line[:40]!r}")
        return None

    def rows(self, block: Block) -> Iterator[pd.DataFrame]:
        """Rows of a block after ``@data``."""
        assert self.parser is not None
        if block.blank:
            return
        if any(char in block.data for char in (b"'", b'"', b"{", b"%", b"\\", b"\t", b"@")):
            made = self._slowly(block)
        else:
            try:
                made = next(self.parser.frames(block), None)
            except DataError:
                made = self._slowly(block)
            else:
                if made is not None and not self._allowed(made):
                    made = self._slowly(block)
        if made is not None:
            self.found = True
            made.attrs["declared"] = self.declared
            yield made

    def _allowed(self, made: pd.DataFrame) -> bool:
        """Whether numbers are numbers and categories were declared."""
        for item in self.attributes:
            column = made[item.name]
            if item.categories is None:
                if column.dtype.kind not in "if":
                    return False
            elif item.categories and not column.dropna().isin(item.categories).all():
                return False
        return True

    def _slowly(self, block: Block) -> pd.DataFrame | None:
        numbers: list[int] = []
        table: list[list[Any]] = []
        for number, raw in block.lines():
            where = f"{block.name}, line {number}"
            line = without_comment(_text(raw, where)).strip()
            if not line:
                continue
            values = self._sparse(line, where) if line.startswith("{") else self._dense(line, where)
            table.append([self._value(value, item, where) for value, item in zip(values, self.attributes, strict=True)])
            numbers.append(number)
        if not table:
            return None
        columns: dict[str, Any] = {}
        for item, column in zip(self.attributes, zip(*table, strict=True), strict=True):
            kind = "float64" if item.categories is None else "str"
            columns[item.name] = pd.Series(list(column), dtype=kind)
        return frame(
            pd.DataFrame(columns),
            numbers=np.array(numbers, dtype=np.int64),
            source=block.name,
            read=block.read,
            total=block.total,
        )

    def _dense(self, line: str, where: str) -> list[str | None]:
        values = split_values(line, where=where)
        if len(values) == len(self.attributes) + 1 and values[-1] == "":
            values.pop()  # a comma after the last value
        if len(values) == len(self.attributes) + 1 and _WEIGHT.fullmatch(values[-1] or ""):
            raise _weighted(where, values[-1])
        if len(values) != len(self.attributes):
            raise DataError(f"{where}: expected {len(self.attributes)} values; got {len(values)}")
        return values

    def _sparse(self, line: str, where: str) -> list[str | None]:
        pairs, brace, weight = line.rpartition("{")
        if pairs.rstrip().endswith(",") and pairs.rstrip(", \t").endswith("}") and _WEIGHT.fullmatch(brace + weight):
            raise _weighted(where, brace + weight)
        if not line.endswith("}"):
            raise DataError(f"{where}: expected a sparse row to end in '}}'")
        values: list[str | None] = [item.categories[0] if item.categories else "0" for item in self.attributes]
        last = -1
        for index, value in split_pairs(line[1:-1], where=where):
            if index >= len(values) or index <= last:
                raise DataError(f"{where}: expected rising indices below {len(values)}; got {index} after {last}")
            values[index] = value
            last = index
        return values

    def _value(self, text: str | None, item: Attribute, where: str) -> float | str | None:
        if text is None:
            return float("nan") if item.categories is None else None
        if item.categories is None:
            if not (is_number(text) and text.isascii()):
                raise DataError(f"{where}: column {item.name!r} holds numbers; got {text[:40]!r}")
            return float(text)
        if item.categories and text not in item.categories:
            known = ", ".join(item.categories[:8])
            raise DataError(f"{where}: column {item.name!r} allows {known}; got {text[:40]!r}")
        return text


def _weighted(where: str, weight: str | None) -> DataError:
    return DataError(f"{where}: the row has a weight, {weight}; rows count alike here, so remove the weights")


def _text(raw: bytes, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: the text is not UTF-8 ({error.reason} at byte {error.start + 1}); save it as UTF-8"
        ) from None


def _attribute(line: str, where: str) -> Attribute:
    name, kind = name_and_rest(line[len("@attribute") :], where=where)
    if kind.startswith("{"):
        if not kind.endswith("}"):
            raise DataError(f"{where}: expected the categories of {name!r} to end in '}}'")
        categories = [value or "" for value in split_values(kind[1:-1], where=where)]
        if categories and not categories[-1]:
            categories.pop()
        if not categories:
            raise DataError(f"{where}: attribute {name!r} has no categories")
        return Attribute(name, tuple(categories))
    word = kind.split(None, 1)[0].lower() if kind else "nothing"
    if word in {"numeric", "real", "integer"}:
        return Attribute(name, None)
    if word in {"string", "date"}:
        return Attribute(name, ())
    raise DataError(f"{where}: attribute {name!r} must be numeric, nominal, string or date; got {kind[:40]!r}")
