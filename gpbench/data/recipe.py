"""How a table becomes a data set: what the catalogue (or the user's flags) says about a file's columns."""

from __future__ import annotations

from dataclasses import dataclass

from gpbench.data.dataset import TASKS
from gpbench.errors import UsageError

__all__ = ["Column", "Recipe"]

Column = str | int
"""A column's name, or its position (0 first, -1 last)."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Preparation of one data set.

    Attributes
    ----------
    task : str
        binary, multiclass, count, ordinal; or ``auto``: binary or multiclass where the targets tell.
    target : column, or several columns
        The target; -1 is the last column. Several columns are a one-hot target: exactly one of them is 1 in each row.
    drop : columns
        Left out (identifiers).
    categorical : columns, or "auto"
        One-hot coded, categories in sorted order (numbers by value). ``auto``: each column that holds text.
    drop_first : bool
        Leave out the first category's column of each one-hot code.
    ordered : (column, categories) pairs
        Coded in one column as 0, 1, ... in the order given; no categories given: in sorted order.
    classes : tuple of str
        All labels, in the order in which they become 0..C-1; a label beside them is an error. Empty: numbers by value,
        texts sorted.
    positive : tuple of str
        Task binary: these labels become class 1 and all others class 0.
    keep : tuple of str
        Rows with other labels are left out.
    bins : int or None
        Task ordinal: the numeric target is cut into so many bins of equal length.
    part : column or None
        Names the part that each row belongs to; rows of part ``test`` are the test rows of the one given split, all
        others its training rows.
    deduplicate : bool
        Keep the first of rows that are equal in target and inputs.
    sort : bool
        Sort rows by their inputs, first column first; rows with equal inputs keep their order.
    dtype : str
        float32 or float64.
    impute : "median" or None
        Missing values stay NaN in X, and become the median of each split's training rows (categories: the most frequent
        one).
    missing : str
        Without ``impute``: ``error``, or ``drop`` to leave out rows with a missing value.
    """

    task: str
    target: Column | tuple[Column, ...] = -1
    drop: tuple[Column, ...] = ()
    categorical: tuple[Column, ...] | str = ()
    drop_first: bool = False
    ordered: tuple[tuple[Column, tuple[str, ...]], ...] = ()
    classes: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    bins: int | None = None
    part: Column | None = None
    deduplicate: bool = False
    sort: bool = False
    dtype: str = "float64"
    impute: str | None = None
    missing: str = "error"

    def __post_init__(self) -> None:
        _check("task", self.task, (*TASKS, "auto"))
        _check("dtype", self.dtype, ("float32", "float64"))
        _check("missing", self.missing, ("error", "drop"))
        if self.impute is not None:
            _check("impute", self.impute, ("median",))
        if isinstance(self.categorical, str):
            _check("categorical", self.categorical, ("auto",))
        if self.bins is not None and (self.bins < 2 or self.task != "ordinal"):
            raise UsageError(f"recipe: bins needs the task ordinal and at least 2 bins; got {self.task}, {self.bins}")
        if self.positive and self.task != "binary":
            raise UsageError(f"recipe: positive needs the task binary; got {self.task}")
        if self.part is not None and (self.sort or self.deduplicate):
            raise UsageError("recipe: a given split cannot be kept when rows are sorted or de-duplicated")


def _check(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UsageError(f"recipe: {name} must be one of {', '.join(allowed)}; got {value!r}")
