"""What the model takes as rows: plain float64 arrays, and rows that are read when they are asked for."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "ChosenRows", "Labels", "Rows"]

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]


class Rows(Protocol):
    """Inputs: an (n, d) array, or rows that are read and scaled when they are asked for.

    Indexing with a slice or an integer array gives a float64 array (b, d).
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, d)."""

    def __getitem__(self, rows: Any, /) -> Array:
        """Rows as float64, shape (b, d)."""

    def __len__(self) -> int:
        """Number of rows."""


class ChosenRows:
    """Some rows of others, read when they are asked for.

    Parameters
    ----------
    rows : Rows
    chosen : (b,)
        Their places, in the order that they are to have.
    """

    def __init__(self, rows: Rows, chosen: npt.NDArray[np.int64]) -> None:
        self._rows, self._chosen = rows, chosen

    @property
    def shape(self) -> tuple[int, ...]:
        """(b, d)."""
        return (len(self._chosen), *self._rows.shape[1:])

    def __getitem__(self, rows: Any, /) -> Array:
        """Rows as float64, shape (k, d)."""
        return self._rows[self._chosen[rows]]

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._chosen)
