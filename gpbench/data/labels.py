"""Targets: from what a file holds to 0..C-1, once, at this boundary.

Numbers are ordered by value, so -1 becomes 0 and +1 becomes 1; texts are sorted; a recipe may say otherwise. The
original labels live on as the data set's ``classes``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpbench.data.formats.dialect import is_number
from gpbench.data.formats.frames import place
from gpbench.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gpbench.data.recipe import Recipe

__all__ = [
    "MAX_LABELS",
    "LabelCoder",
    "by_value",
    "factor",
    "final_classes",
    "infer_task",
    "number_text",
    "plain",
    "sort_labels",
    "value_text",
]

MAX_LABELS = 1000
"""More different targets are no classes."""

_FEW = 20

Codes = npt.NDArray[np.int64]


def plain(column: pd.Series) -> pd.Series:
    """The column without pandas' own numeric types, whose NA is no NaN."""
    if column.dtype.kind in "iufb" and not isinstance(column.dtype, np.dtype):
        return column.astype("float64")
    return column


def number_text(value: float) -> str:
    """A number as a label: ``"1"`` for 1, 1.0 and 1e0.

    >>> number_text(-1.0), number_text(0.5)
    ('-1', '0.5')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def value_text(label: str) -> str:
    """A label by its value, if it is a number.

    >>> value_text("01"), value_text("x")
    ('1', 'x')
    """
    return number_text(float(label)) if is_number(label) else label


def by_value(categories: Iterable[str]) -> bool:
    """Whether categories are those of a column that held numbers alone, so that values tell them and not their text.

    >>> by_value(["1", "2"]), by_value(["01", "02"]), by_value(["1", "x"])
    (True, False, False)
    """
    return all(is_number(category) and value_text(category) == category for category in categories)


def factor(column: pd.Series) -> tuple[Codes, list[str]]:
    """Codes (-1: missing) and the labels they stand for, in the order of their values or of appearance.

    Parameters
    ----------
    column : (n,)
        Numbers, booleans or text.
    """
    column = plain(column)
    if column.dtype.kind in "iuf":
        values, codes = np.unique(column.to_numpy(), return_inverse=True)
        codes = codes.astype(np.int64)
        gone = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
        codes[gone[codes]] = -1
        return codes, [number_text(value) for value in values[~gone].tolist() if not np.isinf(value)] + [
            str(value) for value in values[~gone].tolist() if np.isinf(value)
        ]
    raw, uniques = pd.factorize(column, use_na_sentinel=True)
    return raw.astype(np.int64), [str(value).strip() for value in uniques]


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Numbers by value, else texts in alphabetical order."""
    found = list(labels)
    if all(is_number(label) for label in found):
        return sorted(found, key=lambda label: (float(label), label))
    return sorted(found)


class LabelCoder:
    """Codes of the labels met so far, block after block, in the order of their appearance."""

    def __init__(self, name: str, *, limit: int = MAX_LABELS) -> None:
        self.name = name
        self.labels: dict[str, int] = {}
        self._limit = limit

    def add(self, column: pd.Series, block: pd.DataFrame) -> Codes:
        """Codes of a block's targets; -1 where one is missing.

        Raises
        ------
        DataError
            More labels than the limit.
        """
        codes, here = factor(column)
        table = np.empty(len(here) + 1, dtype=np.int64)
        table[-1] = -1
        for j, label in enumerate(here):
            table[j] = self.labels.setdefault(label, len(self.labels))
        if len(self.labels) > self._limit:
            row = int(np.argmax(codes == len(here) - 1))
            raise DataError(
                f"{place(block, row)}: column {self.name!r} holds more than {self._limit} different values; "
                "expected classes (for counts say --task count)"
            )
        return table[codes]


def infer_task(labels: Sequence[str], *, name: str) -> str:
    """Task that the targets tell: two labels are binary, texts or few integers multiclass.

    Raises
    ------
    UsageError
        They do not tell.
    """
    if len(labels) == 2:
        return "binary"
    integers = all(is_number(label) and float(label).is_integer() for label in labels)
    texts = not any(is_number(label) for label in labels)
    if texts or (integers and len(labels) <= _FEW):
        return "multiclass"
    raise UsageError(
        f"targets in column {name!r} have {len(labels)} different values, such as {', '.join(list(labels)[:4])}: "
        "say what they are with --task multiclass, count or ordinal (or name another column with --target)"
    )


def final_classes(labels: Sequence[str], recipe: Recipe, *, task: str, name: str) -> tuple[tuple[str, ...], Codes]:
    """Classes of the data set, and the class of each label.

    Parameters
    ----------
    labels : sequence of str
        All labels that occur, in the order of their codes.
    recipe : Recipe
        May give their order, or the positive ones.
    task : str
        binary, multiclass or ordinal.
    name : str
        The target's column, for messages.

    Returns
    -------
    classes : tuple of str
    table : (len(labels),) int64
        Class of each label.

    Raises
    ------
    DataError
        One class only, not two for the task binary, texts as levels without an order, or a label that the recipe does
        not know.
    """
    if task == "ordinal" and not recipe.classes and not all(map(is_number, labels)):
        raise DataError(
            f"column {name!r}: the task ordinal needs levels whose order is known, such as 1, 2, 3; texts "
            f"({', '.join(sort_labels(labels)[:10])}) have none: number them, or choose the task multiclass"
        )
    order = list(recipe.classes) if recipe.classes else sort_labels(labels)
    strange = [label for label in labels if label not in order]
    if strange:
        raise DataError(f"column {name!r}: expected the labels {', '.join(order)}; got {', '.join(strange[:5])}")
    if len(labels) < 2:
        raise DataError(f"column {name!r}: all targets are {labels[0]!r}; expected at least two classes")
    if recipe.positive:
        absent = [label for label in recipe.positive if label not in order]
        if absent:
            raise DataError(f"column {name!r}: no target is {', '.join(absent)}; there are {', '.join(order[:10])}")
        negative = [label for label in order if label not in recipe.positive]
        if not negative:
            raise DataError(f"column {name!r}: every label is positive; expected others beside them")
        table = np.array([int(label in recipe.positive) for label in labels], dtype=np.int64)
        return (",".join(negative), ",".join(label for label in order if label in recipe.positive)), table
    if task == "binary" and len(order) != 2:
        raise DataError(
            f"column {name!r}: the task binary needs 2 labels; there are {len(order)}: {', '.join(order[:10])} "
            "(choose the task multiclass, or say which labels are positive)"
        )
    place_of = {label: j for j, label in enumerate(order)}
    return tuple(order), np.array([place_of[label] for label in labels], dtype=np.int64)
