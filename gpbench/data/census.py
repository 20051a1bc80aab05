"""What the values of a column say that it holds: numbers, categories, dates, or numbers with something beside them.

A column holds numbers unless most of its values are none. A few that are none are a mistake of the file, or stand for a
missing value, and never a reason to make every number a category. Dates are no numbers and no categories either.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gpbench.data.formats.frames import as_written, bare, place
from gpbench.data.labels import factor, plain
from gpbench.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["MAX_CATEGORIES", "Census", "word"]

MAX_CATEGORIES = 1000
"""More different values are an identifier or free text."""

_FEW = 20
_FEW_UNITS = 5
"""Up to so many different values such as 4wd are words that begin with a digit."""
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_TIME = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?( ?[ap]m)?( ?(z|utc|gmt|[+-][0-9]{2}:?[0-9]{2}))?"
_DATE = re.compile(
    rf"([0-9]{{4}}[-/.][0-9]{{1,2}}([-/.][0-9]{{1,2}})?|[0-9]{{1,2}}[-/.][0-9]{{1,2}}[-/.]([0-9]{{4}}|[0-9]{{2}})"
    rf"|([0-9]{{1,2}}[ .-]{{1,2}})?{_MONTH}[ -]?([0-9]{{1,2}},? ?)?'?([0-9]{{4}}|[0-9]{{2}}))([ t]{{1,2}}{_TIME})?"
    rf"|{_TIME}|-?[0-9]{{1,9}} days?,?( [+-]?{_TIME})?",
    re.IGNORECASE,
)
_AFFIXED = re.compile(
    r"([<>~=\u2248\u2264\u2265$\u20ac\u00a3\u00a5 ]{0,3})[+-]?([0-9]+([.,][0-9]+)*)"
    r"( ?(%|[a-z\u00b5\u00b0\u00b2\u00b3\u20ac\u00a3/$]{1,6}[0-9]?))?",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(,[0-9]{3})+([.][0-9]+)?")
_LONGEST = 60

_DATES, _WORDS, _DECIMAL_COMMA, _GROUPED = "dates", "words", "decimal comma", "thousands"


def _shape(text: str) -> str:
    """What a value that is no number is: a date, a word, or a number with something around it, which is the shape."""
    if len(text) > _LONGEST:
        return _WORDS
    if _DATE.fullmatch(text):
        return _DATES
    found = _AFFIXED.fullmatch(text)
    if found is None:
        return _WORDS
    before, number, unit = found[1].strip(), found[2], (found[5] or "").lower()
    if before or unit:
        return f"{before}9{unit}"
    return _GROUPED if _THOUSANDS.fullmatch(number) else _DECIMAL_COMMA if number.count(",") == 1 else _WORDS


class Census:
    """Counts over the values of one column, block after block.

    Attributes
    ----------
    labels : Counter
        Values by their text, as long as there are not too many to be categories.
    mixed : bool
        Whether some blocks hold numbers, by whose values labels were counted, and others text: count again by text.

    Notes
    -----
    With ``written``, labels are the text that stands in the file, also in blocks of numbers.
    """

    def __init__(self, column: str, *, declared: bool = False, written: bool = False) -> None:
        self.column = column
        self._written = written
        self._kinds: set[bool] = set()
        self.labels: Counter[str] = Counter()
        self._declared = declared
        self._present = 0
        self._strange = 0
        self._first = ""
        self._shapes: Counter[str] = Counter()
        self._examples: dict[str, dict[str, None]] = {}
        self._too_many = ""
        self._delimiter = ""

    @property
    def mixed(self) -> bool:
        """See the class."""
        return len(self._kinds) > 1 and not self._written

    def add(self, block: pd.DataFrame) -> None:
        """Take in a block."""
        self._delimiter = block.attrs.get("delimiter", "")
        column = plain(block[self.column])
        numeric = column.dtype.kind in "iuf"
        if self._too_many and column.dtype.kind in "iufb":
            self._present += int(column.notna().sum())
            return
        if self._written:
            column = plain(as_written(block, self.column))
        codes, labels = factor(column)
        if labels:
            self._kinds.add(numeric)
        counts = np.bincount(codes[codes >= 0], minlength=len(labels)).tolist()
        self._present += sum(counts)
        if not numeric and labels:  # truth values in this block are texts in another
            numbers = pd.to_numeric(pd.Series(labels, dtype="object"), errors="coerce").notna().to_numpy()
            self._take_strange(block, codes, labels, counts, numbers)
        if not self._too_many:
            for label, count in zip(labels, counts, strict=True):
                self.labels[label] += count
            if len(self.labels) > MAX_CATEGORIES:
                self._too_many = place(block, 0)
                self.labels.clear()

    def _take_strange(
        self,
        block: pd.DataFrame,
        codes: np.ndarray[tuple[int], np.dtype[np.int64]],
        labels: list[str],
        counts: list[int],
        numbers: np.ndarray[tuple[int], np.dtype[np.bool_]],
    ) -> None:
        for label, count, number in zip(labels, counts, numbers.tolist(), strict=True):
            if number:
                continue
            self._strange += count
            shape = _shape(label)
            self._shapes[shape] += count
            examples = self._examples.setdefault(shape, {})
            if len(examples) <= _FEW:
                examples[label] = None
        if self._strange and not self._first:
            strange = np.append(~numbers, False)  # the last is that of code -1, a missing value
            row = int(np.argmax(strange[codes]))
            self._first = f"{place(block, row)}: column {self.column!r}"
            self._value = labels[codes[row]]

    def check(self) -> None:
        """See that the column holds categories, as it must where it does not hold numbers alone.

        Raises
        ------
        DataError
            It holds dates, or numbers but for some values, or too many different ones; the message names line, column
            and value.
        """
        if not self._declared and self._strange:
            self._refuse_numbers()
        if self._too_many:
            raise DataError(
                f"{self._too_many} or after: column {self.column!r} is no category: it holds more than "
                f"{MAX_CATEGORIES} different values; drop it (--drop {self.column})"
            )
        if not self.labels:
            raise DataError(f"column {self.column!r}: all values are missing; drop it (--drop {self.column})")
        if len(self.labels) > _FEW and max(self.labels.values()) == 1:
            raise DataError(
                f"column {self.column!r} is no category: its {len(self.labels)} values differ in every row, such as "
                f"{next(iter(self.labels))[:40]!r}; drop it (--drop {self.column})"
            )

    def _refuse_numbers(self) -> None:
        drop = f"--drop {self.column} leaves the column out"
        if self._shapes[_DATES] * 2 > self._present:
            example = next(iter(self._examples[_DATES]))
            raise DataError(
                f"{self._first} holds dates or times, such as {example!r}, which are no inputs as they are: {drop}, "
                "or write them as numbers, such as days since a day, or seconds"
            )
        # A sign or a unit that many different numbers share makes them no words.
        shared = {shape: count for shape, count in self._shapes.items() if shape not in (_DATES, _WORDS)}
        if _GROUPED in shared and (_DECIMAL_COMMA in shared or self._delimiter == ";"):
            # 1,000 is one beside 0,5, and in a table that keeps the comma for decimals.
            shared[_DECIMAL_COMMA] = shared.get(_DECIMAL_COMMA, 0) + shared.pop(_GROUPED)
        shape = max(shared, key=shared.__getitem__, default="")
        many = 0 if shape in (_DECIMAL_COMMA, _GROUPED) else _FEW_UNITS
        alike = shared[shape] if shape and (not many or len(self._examples[shape]) > many) else 0
        if (self._strange - alike) * 2 > self._present:
            return
        remedies = {
            _DECIMAL_COMMA: "numbers need a decimal point, not a decimal comma",
            _GROUPED: "numbers are written without separators of thousands",
        }
        words = f"--missing {word(self._value)} reads it as missing"
        if alike * 2 > self._strange:
            words = remedies.get(shape, "numbers are written without signs and units")
        number = "is no number" if self._strange == 1 else "are no numbers"
        raise DataError(
            f"{self._first} holds numbers; got {self._value[:40]!r} "
            f"({self._strange} of {self._present} values {number}): {words}; {drop}"
        )


def word(text: str) -> str:
    """A word as it is typed in a shell."""
    return text if re.fullmatch(r"[\w.+-]+", text) else f"'{text[:40]}'"


def not_numbers(block: pd.DataFrame, columns: Collection[str]) -> list[str]:
    """Which of some columns hold text that is no number in this block."""
    view = bare(block)
    return [
        str(name)
        for name, kind in block.dtypes.items()
        if kind.kind not in "iufb" and str(name) in columns and _is_text(view[name])
    ]


def _is_text(column: pd.Series) -> bool:
    values = pd.to_numeric(column.astype("object"), errors="coerce")
    return isinstance(column.dtype, pd.CategoricalDtype) or bool((values.isna() & column.notna()).any())
