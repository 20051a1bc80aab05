"""The check of every input value: what is missing, infinite or constant, by column, with the first place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpbench.data.formats.dialect import MISSING
from gpbench.data.formats.frames import place
from gpbench.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from gpbench.data.columns import Layout
    from gpbench.data.recipe import Recipe

__all__ = ["Values"]

_NAMED = 8


class Values:
    """Counts over all blocks.

    Attributes
    ----------
    rows : int
        Rows seen.
    missing : dict
        Column of X to the number of its missing values.
    digest : bytes
        sha256 of the rows as they were written.
    """

    def __init__(self, layout: Layout, recipe: Recipe) -> None:
        self.rows = 0
        self.missing: dict[int, int] = {}
        self.digest = b""
        self._layout = layout
        self._recipe = recipe
        self._infinite: dict[int, int] = {}
        self._target_missing = 0
        self._words: list[str] = []
        self._categories: list[str] = []
        self._dropped = 0
        self._first = ""
        self._low = np.full(len(layout.names), np.inf)
        self._high = np.full(len(layout.names), -np.inf)

    def check(
        self, X: npt.NDArray[np.floating], block: pd.DataFrame, *, target: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_] | None:
        """Take in a block; the rows to keep, or None for all of them."""
        self.rows += len(X)
        if not len(X):
            return None
        low, high = X.min(axis=0), X.max(axis=0)  # NaN shows in both, and nothing else costs less
        if target.all() and np.isfinite(low).all() and np.isfinite(high).all():
            np.minimum(self._low, low, out=self._low)
            np.maximum(self._high, high, out=self._high)
            return None
        return self._look(X, block, target)

    def _look(
        self, X: npt.NDArray[np.floating], block: pd.DataFrame, target: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.bool_] | None:
        gone, infinite = np.isnan(X), np.isinf(X)
        keep = None
        if self._recipe.missing == "drop" and self._recipe.impute is None:
            keep = ~gone.any(axis=1) & target
            self._dropped += int((~keep).sum())
            gone[~keep] = infinite[~keep] = False
            target = target | ~keep
        bad_rows = infinite.any(axis=1) | ~target
        for table, counts in ((gone, self.missing), (infinite, self._infinite)):
            for j in np.flatnonzero(table.any(axis=0)).tolist():
                counts[j] = counts.get(j, 0) + int(table[:, j].sum())
        self._target_missing += int((~target).sum())
        if self._recipe.impute is None:
            bad_rows |= gone.any(axis=1)
        if not target.all():
            words = block.attrs.get("words", {})
            self._words += [word for name in self._layout.target for word in words.get(name, ())]
        if gone.any() and self._recipe.impute is None:
            words = block.attrs.get("words", {})
            texts = [item.column for item in self._layout.features if item.kind == "one-hot"]
            self._categories += [word for name in texts for word in words.get(name, ()) if word in MISSING]
        if bad_rows.any() and not self._first:
            self._first = place(block, int(np.argmax(bad_rows)))
        fine = ~(gone | infinite)
        if keep is not None:
            fine &= keep[:, None]
        self._low = np.minimum(self._low, np.where(fine, X, np.inf).min(axis=0))
        self._high = np.maximum(self._high, np.where(fine, X, -np.inf).max(axis=0))
        return keep

    @property
    def failed(self) -> bool:
        """Whether an error is certain; the rest of the file is read only to count."""
        return bool(self._first)

    def refuse_empty(self) -> None:
        """Refuse columns of which no value is there.

        Raises
        ------
        DataError
            Naming them.
        """
        names = [item.column for item in self._layout.features for _ in item.names]
        if empty := list(dict.fromkeys(names[j] for j, count in sorted(self.missing.items()) if count == self.rows)):
            drop = " ".join(f"--drop {name}" for name in empty[:_NAMED])
            raise DataError(f"column {', '.join(empty[:_NAMED])}: all values are missing; drop it ({drop})")

    def raise_if_failed(self) -> None:
        """Raise the error of the whole file.

        Raises
        ------
        DataError
            Naming the columns, how many values, and the first line.
        """
        if not self._first:
            return
        names = tuple(item.column for item in self._layout.features for _ in item.names)
        said = []
        if self.missing and self._recipe.impute is None:
            said.append(f"missing values in column {_some(self.missing, names)}")
        if self._target_missing:
            said.append(
                f"missing targets in column {', '.join(self._layout.target)} ({self._target_missing}"
                f"{_read_as(self._words)})"
            )
        if self._infinite:
            bound = f" (beyond {self._recipe.dtype}'s range, or written so)"
            said.append(f"infinite values in column {_some(self._infinite, names)}{bound}")
        hint = ""
        if self._target_missing:
            hint = "; leave those rows out of the file"
            if self._words:
                hint += f", or keep the word as a class: --missing -{self._words[0]}"
        elif self.missing and not self._infinite:
            drop = " ".join(f"--drop {name}" for name in dict.fromkeys(names[j] for j in sorted(self.missing)[:2]))
            hint = f"; fill them with --impute median, leave columns out ({drop}), or leave those rows out of the file"
            if self._categories:
                hint += f", or keep the word as a category: --missing -{self._categories[0]}"
        raise DataError(f"{self._first}: {'; '.join(said)}; this is the first such row{hint}")

    def notes(self) -> list[str]:
        """What is worth recording."""
        said = []
        one_hot = [item for item in self._layout.features if item.kind == "one-hot"]
        if one_hot:
            rule = "sorted categories" + (", the first left out" if self._recipe.drop_first else "")
            said.append(f"one-hot coded ({rule}): {', '.join(item.column for item in one_hot)}")
        ordered = [item for item in self._layout.features if item.kind == "ordered"]
        said += [f"coded as 0, 1, ...: {item.column} ({', '.join(item.categories)})" for item in ordered]
        away = set(self._layout.columns) - {item.column for item in self._layout.features} - set(self._layout.target)
        away -= {self._layout.part or "", *self._layout.index}
        if away:
            said.append(f"columns dropped: {', '.join(name for name in self._layout.columns if name in away)}")
        if self._dropped:
            said.append(f"rows with missing values left out: {self._dropped}")
        if self.missing and self._recipe.impute is not None:
            names = [item.column for item in self._layout.features for _ in item.names]
            counted = {names[j]: count for j, count in sorted(self.missing.items())}
            filled = ", ".join(f"{name} ({count} of {self.rows})" for name, count in counted.items())
            said.append(f"missing values filled by the training rows' medians (categories: most frequent): {filled}")
        constant = [self._layout.names[j] for j in np.flatnonzero(self._low == self._high).tolist()]
        if constant:
            more = f" and {len(constant) - _NAMED} more" if len(constant) > _NAMED else ""
            said.append(f"constant columns: {', '.join(constant[:_NAMED])}{more}")
        return said


def _read_as(words: list[str]) -> str:
    """Which words were read as missing, where the reader told."""
    shown = list(dict.fromkeys(words))[:3]
    return f", {' and '.join(map(repr, shown))} read as missing" if shown else ""


def _some(counts: dict[int, int], names: tuple[str, ...]) -> str:
    # The columns of one category lack the same values; it is named once.
    shown = list(dict.fromkeys(f"{names[j]} ({count})" for j, count in sorted(counts.items())))
    more = f" and {len(shown) - _NAMED} more" if len(shown) > _NAMED else ""
    return ", ".join(shown[:_NAMED]) + more
