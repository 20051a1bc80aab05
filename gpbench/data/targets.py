"""The targets of a table, gathered block by block and turned into a data set's y at the end."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from gpbench.data.dataset import MAX_COUNT
from gpbench.data.formats.frames import as_written, bare, place
from gpbench.data.labels import LabelCoder, factor, final_classes, infer_task, plain
from gpbench.errors import DataError

if TYPE_CHECKING:
    from gpbench.data.columns import Layout
    from gpbench.data.recipe import Recipe

__all__ = ["MixedTargetsError", "Targets", "equal_bins"]

Ints = npt.NDArray[np.int64]


class MixedTargetsError(Exception):
    """Some blocks hold numbers as targets and others text; all must be read as they are written."""


class Targets:
    """Gathers targets: codes of labels (4 bytes a row), or numbers for counts and bins (8 bytes a row).

    Parameters
    ----------
    layout : Layout
    recipe : Recipe
    written : bool
        Whether labels are the text that stands in the file; else numbers are labels by their value, and text beside
        them is a :class:`MixedTargetsError`.
    """

    def __init__(self, layout: Layout, recipe: Recipe, *, written: bool = False) -> None:
        self._layout = layout
        self._written = written
        self._kinds: set[bool] = set()
        self._recipe = recipe
        self._numeric = recipe.task == "count" or recipe.bins is not None
        self._name = " + ".join(layout.target)
        self._coder = LabelCoder(self._name)
        self._chunks: list[npt.NDArray[np.generic]] = []
        self._parts: list[npt.NDArray[np.bool_]] = []
        self._not_kept = 0

    def wanted(self, block: pd.DataFrame) -> npt.NDArray[np.bool_] | None:
        """Rows whose label the recipe keeps; None if all."""
        if not self._recipe.keep:
            return None
        codes, labels = factor(self._labels(block))
        table = np.array([label in self._recipe.keep for label in labels] + [True])
        rows: npt.NDArray[np.bool_] = table[codes]
        self._not_kept += int((~rows).sum())
        return None if rows.all() else rows

    def _labels(self, block: pd.DataFrame) -> pd.Series:
        name = self._layout.target[0]
        if self._written:
            return as_written(block, name)
        column = bare(block)[name]
        if column.notna().any():
            self._kinds.add(column.dtype.kind in "iuf")
        if len(self._kinds) > 1:
            raise MixedTargetsError
        return column

    def present(self, block: pd.DataFrame) -> npt.NDArray[np.bool_]:
        """Rows whose target is there."""
        found = np.ones(len(block), dtype=bool)
        for name in self._layout.target:
            column = as_written(block, name) if self._written else block[name]
            if column.dtype.kind not in "iub" or not isinstance(column.dtype, np.dtype):
                found &= column.notna().to_numpy()
        return found

    def add(self, block: pd.DataFrame) -> None:
        """Take in a block, without missing targets.

        Raises
        ------
        DataError
            A target that the task does not allow; names the line.
        """
        if self._layout.part is not None:
            codes, labels = factor(block[self._layout.part])
            self._parts.append(np.array([label == "test" for label in labels] + [False])[codes])
        if len(self._layout.target) > 1:
            self._chunks.append(self._one_hot(block).astype(np.int32))
        elif self._numeric:
            self._chunks.append(self._numbers(block))
        else:
            self._chunks.append(self._coder.add(self._labels(block), block).astype(np.int32))

    def _one_hot(self, block: pd.DataFrame) -> Ints:
        for name in self._layout.target:
            self._coder.labels.setdefault(name, len(self._coder.labels))
        table = np.column_stack([_as_numbers(block[name], block, name) for name in self._layout.target])
        wrong = ((table != 0) & (table != 1)).any(axis=1) | (table.sum(axis=1) != 1)
        if wrong.any():
            row = int(np.argmax(wrong))
            got = ", ".join(f"{value:g}" for value in table[row])
            raise DataError(f"{place(block, row)}: expected a single 1 among the columns {self._name}; got {got}")
        codes: Ints = table.argmax(axis=1).astype(np.int64)
        return codes

    def _numbers(self, block: pd.DataFrame) -> npt.NDArray[np.float64]:
        values = _as_numbers(block[self._name], block, self._name)
        wrong = ~np.isfinite(values)
        expected = "finite numbers"
        if self._recipe.task == "count":
            wrong |= (values < 0) | (values != np.floor(values)) | (values > MAX_COUNT)
            expected = "counts 0, 1, 2, ..."
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"{place(block, row)}: targets in column {self._name!r} must be {expected}; got {values[row]:g}"
            )
        return values

    def finish(self) -> tuple[str, tuple[str, ...], Ints]:
        """Task, classes (empty for counts) and y.

        Raises
        ------
        DataError
            Too few or too many classes.
        UsageError
            The targets do not tell the task.
        """
        recipe = self._recipe
        gathered = np.concatenate(self._chunks)
        self._chunks = []
        if recipe.bins is not None:
            y, classes = equal_bins(gathered.astype(np.float64), recipe.bins)
            return "ordinal", classes, y
        if recipe.task == "count":
            return "count", (), gathered.astype(np.int64)
        labels = list(self._coder.labels)
        present = np.bincount(gathered, minlength=len(labels))
        if int((present > 0).sum()) < 2:
            only = labels[int(present.argmax())]
            raise DataError(f"column {self._name!r}: all targets are {only!r}; expected at least two classes")
        task = infer_task(labels, name=self._name) if recipe.task == "auto" else recipe.task
        if len(self._layout.target) > 1 and not recipe.classes:
            if task == "binary" and len(labels) != 2:
                raise DataError(f"the task binary needs 2 one-hot columns; got {len(labels)}: {self._name}")
            return task, tuple(labels), gathered.astype(np.int64)
        classes, table = final_classes(labels, recipe, task=task, name=self._name)
        return task, classes, table[gathered]

    def parts(self) -> npt.NDArray[np.bool_] | None:
        """Which rows are the publisher's test rows; None if the table does not tell."""
        return np.concatenate(self._parts) if self._layout.part is not None else None

    def notes(self) -> list[str]:
        """What is worth recording."""
        said = []
        if self._not_kept:
            said.append(
                f"rows kept: those with target {', '.join(self._recipe.keep)}; {self._not_kept} others left out"
            )
        if self._recipe.positive:
            said.append(f"class 1: target {', '.join(self._recipe.positive)}; class 0: all others")
        if self._recipe.bins is not None:
            said.append(f"target {self._name} cut into {self._recipe.bins} bins of equal length")
        return said


def equal_bins(values: npt.NDArray[np.float64], bins: int) -> tuple[Ints, tuple[str, ...]]:
    """Level of each value among ``bins`` intervals of equal length, closed on the left (the last on both sides).

    Returns
    -------
    levels : (n,) int64
    names : tuple of str
        ``"[0, 1)"``.

    Raises
    ------
    DataError
        All values are equal.
    """
    low, high = float(values.min()), float(values.max())
    if not high > low:
        raise DataError(f"all targets are {low:g}; expected different values to cut into {bins} bins")
    edges = np.linspace(low, high, bins + 1)
    levels = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    names = [f"[{a:.6g}, {b:.6g})" for a, b in pairwise(edges)]
    names[-1] = names[-1][:-1] + "]"
    return levels.astype(np.int64), tuple(names)


def _as_numbers(column: pd.Series, block: pd.DataFrame, name: str) -> npt.NDArray[np.float64]:
    column = plain(column)
    if column.dtype.kind in "iufb":
        return column.to_numpy(dtype=np.float64)
    values = pd.to_numeric(column.astype("object"), errors="coerce").to_numpy(dtype=np.float64)
    if np.isnan(values).any():
        row = int(np.argmax(np.isnan(values)))
        raise DataError(f"{place(block, row)}: targets in column {name!r} must be numbers; got {column.iloc[row]!r}")
    return values
