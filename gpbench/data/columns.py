"""From a table's columns to the inputs X: numbers as they are, categories one-hot or as codes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpbench.data.formats.frames import place
from gpbench.data.labels import factor, plain, sort_labels
from gpbench.errors import DataError, UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpbench.data.recipe import Column, Recipe

__all__ = ["Feature", "Layout", "TextFoundError", "layout_of", "survey", "with_categories"]

_MAX_CATEGORIES = 1000
_FEW = 20
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")


class TextFoundError(Exception):
    """A column taken for numbers holds text after all; it must be surveyed as a category."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


@dataclass(frozen=True)
class Feature:
    """One column of the table that becomes one or more of X.

    Attributes
    ----------
    column : str
        Name in the table.
    kind : str
        number, one-hot or ordered.
    categories : tuple of str
        In the order of their codes; empty for numbers, and until they are known.
    first : int
        The first category that gets a column of X (1 where the first one is left out).
    filler : int
        Code of the most frequent category, for missing values; -1 where they are not imputed.
    """

    column: str
    kind: str = "number"
    categories: tuple[str, ...] = ()
    first: int = 0
    filler: int = -1

    @property
    def names(self) -> list[str]:
        """Names of its columns in X."""
        if self.kind != "one-hot":
            return [self.column]
        return [f"{self.column}={category}" for category in self.categories[self.first :]]


@dataclass(frozen=True)
class Layout:
    """Which column of a table serves what."""

    columns: tuple[str, ...]
    target: tuple[str, ...]
    part: str | None
    features: tuple[Feature, ...]
    auto: bool = False
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(name for feature in self.features for name in feature.names))

    @property
    def open(self) -> tuple[Feature, ...]:
        """Features whose categories are not known yet."""
        return tuple(item for item in self.features if item.kind != "number" and not item.categories)

    def encode(self, block: pd.DataFrame, dtype: str) -> npt.NDArray[np.floating]:
        """Inputs of a block, shape (b, d), C order; NaN where a value is missing.

        Raises
        ------
        DataError
            Text in a column of numbers, or a category that is not known.
        """
        simple = all(item.kind == "number" for item in self.features)
        kinds = list(block.dtypes.unique())
        with np.errstate(over="ignore"):  # beyond float32's range: infinite, and found as such
            if simple and len(kinds) == 1 and isinstance(kinds[0], np.dtype) and kinds[0].kind in "iuf":
                positions = block.columns.get_indexer(pd.Index(list(self.names)))
                return block.to_numpy()[:, positions].astype(dtype, order="C")
            X = np.empty((len(block), len(self.names)), dtype=dtype)
            j = 0
            for item in self.features:
                width = len(item.names)
                if item.kind == "number":
                    X[:, j] = self._numbers(block, item.column)
                else:
                    _fill(X[:, j : j + width], item, block)
                j += width
        return X

    def late_text(self, block: pd.DataFrame) -> set[str]:
        """Columns taken for numbers that hold text in this block, where that may happen."""
        if not self.auto:
            return set()
        return {item.column for item in self.features if item.kind == "number" and _is_text(block[item.column])}

    def _numbers(self, block: pd.DataFrame, name: str) -> npt.NDArray[np.number]:
        column = plain(block[name])
        if column.dtype.kind in "iufb":
            return column.to_numpy()
        values = pd.to_numeric(column.astype("object"), errors="coerce").to_numpy(dtype=np.float64)
        wrong = np.isnan(values) & column.notna().to_numpy()
        if wrong.any():
            if self.auto:
                raise TextFoundError(name)
            row = int(np.argmax(wrong))
            raise DataError(
                f"{place(block, row)}: column {name!r} must hold numbers; got {str(column.iloc[row])[:40]!r} "
                "(declare it categorical, or drop it)"
            )
        return values


def layout_of(block: pd.DataFrame, recipe: Recipe, *, also_text: Collection[str] = ()) -> Layout:
    """Layout from a table's first block.

    Raises
    ------
    UsageError
        The recipe names a column that is not there.
    DataError
        Column names repeat, or no input is left.

    Notes
    -----
    ``also_text`` names columns that proved to be text further down the file.
    """
    columns = [str(name) for name in block.columns]
    source = block.attrs.get("source", "table")
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise DataError(f"{source}: column names must differ; more than one is named {', '.join(twice)}")
    asked = recipe.target if isinstance(recipe.target, tuple) else (recipe.target,)
    target = tuple(_resolve(column, columns) for column in asked)
    part = None if recipe.part is None else _resolve(recipe.part, columns)
    away = {*target, part, *(_resolve(column, columns) for column in recipe.drop)}
    auto = recipe.categorical == "auto"
    if isinstance(recipe.categorical, str):
        one_hot = {name for name in columns if name not in away and _is_text(block[name])} | set(also_text)
    else:
        one_hot = {_resolve(column, columns) for column in recipe.categorical}
    ordered = {_resolve(column, columns): categories for column, categories in recipe.ordered}
    features = []
    for name in columns:
        if name in away:
            continue
        if name in ordered:
            features.append(Feature(name, "ordered", tuple(ordered[name])))
        elif name in one_hot:
            features.append(Feature(name, "one-hot", first=int(recipe.drop_first)))
        else:
            features.append(Feature(name))
    if not features:
        raise DataError(f"{source}: expected at least one input column beside the target; got {', '.join(columns[:5])}")
    return Layout(tuple(columns), target, part, tuple(features), auto)


def survey(counts: dict[str, Counter[str]], block: pd.DataFrame, features: Sequence[Feature]) -> None:
    """Count the categories of a block.

    Raises
    ------
    DataError
        Too many: the column is an identifier or free text.
    """
    for item in features:
        codes, labels = factor(block[item.column])
        found = np.bincount(codes[codes >= 0], minlength=len(labels))
        counter = counts.setdefault(item.column, Counter())
        for label, count in zip(labels, found.tolist(), strict=True):
            counter[label] += count
        if len(counter) > _MAX_CATEGORIES:
            raise DataError(
                f"{place(block, 0)} or after: column {item.column!r} is no category: it holds more than "
                f"{_MAX_CATEGORIES} different values; drop it"
            )


def with_categories(layout: Layout, counts: dict[str, Counter[str]], *, impute: bool) -> Layout:
    """The layout with the categories that a survey found, sorted.

    Raises
    ------
    DataError
        A column holds no value at all, numbers with a decimal comma, or an identifier.
    """
    features = []
    for item in layout.features:
        if item.kind == "number":
            features.append(item)
            continue
        counter = counts.get(item.column, Counter())
        categories = item.categories or tuple(sort_labels(counter))
        if not categories:
            raise DataError(f"column {item.column!r}: all values are missing; drop it")
        if not item.categories:
            _refuse_no_category(item.column, counter)
        filler = -1
        if impute and counter:
            filler = max(range(len(categories)), key=lambda j: (counter[categories[j]], -j))
        features.append(Feature(item.column, item.kind, categories, item.first, filler))
    return Layout(layout.columns, layout.target, layout.part, tuple(features), layout.auto)


def _refuse_no_category(column: str, counter: Counter[str]) -> None:
    """Text that is no category, though there is not too much of it: it would become a column of X for each row."""
    if all(_DECIMAL_COMMA.fullmatch(text) for text in counter):
        raise DataError(f"column {column!r}: numbers need a decimal point; got {next(iter(counter))!r}")
    if len(counter) > _FEW and max(counter.values()) == 1:
        raise DataError(
            f"column {column!r} is no category: its {len(counter)} values differ in every row, such as "
            f"{next(iter(counter))[:40]!r}; drop it"
        )


def _fill(out: npt.NDArray[np.floating], item: Feature, block: pd.DataFrame) -> None:
    codes, labels = factor(block[item.column])
    place_of = {category: j for j, category in enumerate(item.categories)}
    table = np.array([place_of.get(label, -2) for label in labels] + [item.filler], dtype=np.int64)
    codes = table[codes]
    if (codes == -2).any():
        row = int(np.argmax(codes == -2))
        raise DataError(
            f"{place(block, row)}: column {item.column!r} must be one of {', '.join(item.categories[:10])}; "
            f"got {str(block[item.column].iloc[row])[:40]!r}"
        )
    if item.kind == "ordered":
        out[:, 0] = np.where(codes < 0, np.nan, codes)
        return
    out[:] = codes[:, None] == np.arange(item.first, len(item.categories))
    out[codes < 0] = np.nan


def _is_text(column: pd.Series) -> bool:
    if column.dtype.kind in "iufb":
        return False
    values = pd.to_numeric(column.astype("object"), errors="coerce")
    return isinstance(column.dtype, pd.CategoricalDtype) or bool((values.isna() & column.notna()).any())


def _resolve(column: Column, columns: Sequence[str]) -> str:
    if isinstance(column, int):
        if not -len(columns) <= column < len(columns):
            raise UsageError(f"column {column} does not exist; there are {len(columns)}, counted from 0")
        return columns[column]
    if column not in columns:
        raise unknown_name("column", column, columns)
    return column
