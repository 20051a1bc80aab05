"""From a table's columns to the inputs X: numbers as they are, categories one-hot or as codes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpbench.data.census import Census, not_numbers
from gpbench.data.formats.frames import as_written, bare, place
from gpbench.data.labels import by_value, factor, plain, sort_labels, value_text
from gpbench.data.record import Feature
from gpbench.errors import DataError, UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from gpbench.data.recipe import Column, Recipe

__all__ = ["Feature", "Layout", "NoNumberError", "TextFoundError", "layout_of", "survey", "with_categories"]

_EXACT = 2**53


class TextFoundError(Exception):
    """A column taken for numbers holds text after all; it must be surveyed as a category."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


class NoNumberError(DataError):
    """A column of numbers holds text; ``value`` is that text."""

    def __init__(self, message: str, *, value: str) -> None:
        super().__init__(message)
        self.value = value


@dataclass(frozen=True)
class Layout:
    """Which column of a table serves what."""

    columns: tuple[str, ...]
    target: tuple[str, ...]
    part: str | None
    features: tuple[Feature, ...]
    auto: bool = False
    index: tuple[str, ...] = ()
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(name for feature in self.features for name in feature.names))

    @property
    def open(self) -> tuple[Feature, ...]:
        """Features whose categories are not known yet."""
        return tuple(item for item in self.features if item.kind != "number" and not item.categories)

    def encode(
        self, block: pd.DataFrame, dtype: str, *, unseen: Counter[str] | None = None
    ) -> npt.NDArray[np.floating]:
        """Inputs of a block, shape (b, d), C order; NaN where a value is missing.

        Parameters
        ----------
        block : data frame
        dtype : str
        unseen : Counter, optional
            One-hot columns' categories that are not known become zeros in all columns of theirs and are counted here,
            by column; otherwise they are an error.

        Raises
        ------
        DataError
            Text in a column of numbers, or a category that is not known.
        """
        simple = all(item.kind == "number" for item in self.features) and not block.attrs.get("mixed")
        kinds = list(block.dtypes.unique())
        with np.errstate(over="ignore"):  # beyond float32's range: infinite, and found as such
            if simple and all(isinstance(kind, np.dtype) and kind.kind in "iuf" for kind in kinds):
                positions = block.columns.get_indexer(pd.Index(list(self.names)))
                return block.to_numpy()[:, positions].astype(dtype, order="C")
            X = np.empty((len(block), len(self.names)), dtype=dtype)
            view = bare(block)
            j = 0
            for item in self.features:
                width = len(item.names)
                if item.kind == "number":
                    X[:, j] = self._numbers(view[item.column], block)
                else:
                    _fill(X[:, j : j + width], item, view[item.column], block=block, unseen=unseen)
                j += width
        return X

    def late_text(self, block: pd.DataFrame) -> set[str]:
        """Columns taken for numbers that hold text in this block, where that may happen."""
        if not self.auto:
            return set()
        return set(not_numbers(block, {item.column for item in self.features if item.kind == "number"}))

    def refuse_inexact(self, block: pd.DataFrame) -> None:
        """Refuse whole numbers that floating point cannot hold: identifiers, which would become one another.

        Raises
        ------
        DataError
            Naming line and column.
        """
        inputs = {item.column for item in self.features if item.kind == "number"}
        found = {name: row for name, row in block.attrs.get("inexact", {}).items() if name in inputs}
        view = bare(block)
        for name, kind in block.dtypes.items() if "inexact" not in block.attrs else ():
            if kind in (np.int64, np.uint64) and str(name) in inputs:
                values = view[name].to_numpy()
                if len(values) and (values.max() > _EXACT or values.min() < -_EXACT):
                    found[str(name)] = int(np.argmax((values > _EXACT) | (values < -_EXACT)))
        for name, row in found.items():
            raise DataError(
                f"{place(block, row)}: column {name!r} holds whole numbers beyond 2^53, which floating point cannot "
                f"tell apart; an identifier is no input: --drop {name}"
            )

    def _numbers(self, column: pd.Series, block: pd.DataFrame) -> npt.NDArray[np.number]:
        name, column = str(column.name), plain(column)
        if name in block.attrs.get("mixed", ()):
            row = int(np.argmax(column.notna().to_numpy()))
            raise DataError(
                f"{place(block, row)}: column {name!r} holds True and False above, and numbers here; write one of both"
            )
        if column.dtype.kind in "iufb":
            return column.to_numpy()
        values = pd.to_numeric(column.astype("object"), errors="coerce").to_numpy(dtype=np.float64)
        wrong = np.isnan(values) & column.notna().to_numpy()
        if wrong.any():
            if self.auto:
                raise TextFoundError(name)
            row = int(np.argmax(wrong))
            value = str(column.iloc[row])
            raise NoNumberError(
                f"{place(block, row)}: column {name!r} must hold numbers; got {value[:40]!r}", value=value
            )
        return values


def layout_of(
    block: pd.DataFrame, recipe: Recipe, *, also_text: Collection[str] = (), index: Sequence[str] = ()
) -> Layout:
    """Layout from a table's first block.

    Raises
    ------
    UsageError
        The recipe names a column that is not there.
    DataError
        Column names repeat, or no input is left.

    Notes
    -----
    ``also_text`` names columns that proved to be text further down the file, ``index`` those that number or name rows.
    """
    columns = [str(name) for name in block.columns]
    source = block.attrs.get("source", "table")
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise DataError(f"{source}: column names must differ; more than one is named {', '.join(twice)}")
    asked = recipe.target if isinstance(recipe.target, tuple) else (recipe.target,)
    target = tuple(_resolve(column, columns) for column in asked)
    part = None if recipe.part is None else _resolve(recipe.part, columns)
    away = {*target, part, *index, *(_resolve(column, columns) for column in recipe.drop)}
    auto = recipe.categorical == "auto"
    if isinstance(recipe.categorical, str):
        one_hot = set(not_numbers(block, set(columns) - away)) | set(also_text)
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
        left_out = [name for name in columns if name in away and name not in target]
        said = f", with {', '.join(left_out[:5])} left out" if left_out else ""
        raise DataError(
            f"{source}: expected at least one input column beside the target; got {', '.join(columns[:5])}{said}"
        )
    return Layout(tuple(columns), target, part, tuple(features), auto, tuple(index))


def survey(
    counts: dict[str, Census], block: pd.DataFrame, features: Sequence[Feature], *, written: Collection[str] = ()
) -> None:
    """Count the values of some columns of a block; of those ``written`` as they stand in the file."""
    declared = block.attrs.get("declared", ())
    for item in features:
        if item.column not in counts:
            counts[item.column] = Census(item.column, declared=item.column in declared, written=item.column in written)
        counts[item.column].add(block)


def with_categories(layout: Layout, counts: dict[str, Census]) -> Layout:
    """The layout with the categories that a survey found, sorted.

    Raises
    ------
    DataError
        A column holds no categories; see :meth:`gpbench.data.census.Census.check`.
    """
    features = []
    for item in layout.features:
        if item.kind == "number" or item.categories:
            features.append(item)
            continue
        counts[item.column].check()
        features.append(replace(item, categories=tuple(sort_labels(counts[item.column].labels))))
    return replace(layout, features=tuple(features))


def _fill(
    out: npt.NDArray[np.floating],
    item: Feature,
    column: pd.Series,
    *,
    block: pd.DataFrame,
    unseen: Counter[str] | None,
) -> None:
    if by_value(item.categories):
        codes, labels = factor(column)
        labels = [value_text(label) for label in labels]
    else:
        column = as_written(block, item.column)
        codes, labels = factor(column)
    place_of = {category: j for j, category in enumerate(item.categories)}
    table = np.array([place_of.get(label, -2) for label in labels] + [-1], dtype=np.int64)
    codes = table[codes]
    if (codes == -2).any() and unseen is not None and item.kind == "one-hot":
        unseen[item.column] += int((codes == -2).sum())
    elif (codes == -2).any():
        row = int(np.argmax(codes == -2))
        raise DataError(
            f"{place(block, row)}: column {item.column!r} must be one of {', '.join(item.categories[:10])}; "
            f"got {str(column.iloc[row])[:40]!r}"
        )
    if item.kind == "ordered":
        out[:, 0] = np.where(codes < 0, np.nan, codes)
        return
    out[:] = codes[:, None] == np.arange(item.first, len(item.categories))
    out[codes == -1] = np.nan


def _resolve(column: Column, columns: Sequence[str]) -> str:
    if isinstance(column, int):
        if not -len(columns) <= column < len(columns):
            raise UsageError(f"column {column} does not exist; there are {len(columns)}, counted from 0")
        return columns[column]
    if column not in columns:
        raise unknown_name("column", column, columns)
    return column
