"""The unknowns of a search in one flat vector, for optimisers that know vectors alone.

=========  ==========================================================================  ========
symbol     meaning                                                                     shape
=========  ==========================================================================  ========
part       an array with a name, free to move or fixed, with bounds and a unit         any
w          all parts one after the other, each divided by its unit                     (size,)
x          the entries of w that are free, in the same order                           (k,)
=========  ==========================================================================  ========
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Part", "Unknowns"]

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """An unknown array.

    Attributes
    ----------
    value : array
        Where a search begins; a Fortran-ordered matrix stands in the vector column by column, so that its view goes to
        BLAS as it is.
    free : bool
        Whether it moves.
    low, high : float
        Bounds of each entry, in its own units.
    unit : float or array
        What an entry is measured in; a search knows multiples of it, which makes it indifferent to the units of X.
    """

    value: Array
    free: bool = True
    low: float = -np.inf
    high: float = np.inf
    unit: float | Array = 1.0


class Unknowns:
    """Named parts in one vector.

    Parameters
    ----------
    **parts : Part
        In the order of the vector.
    """

    def __init__(self, **parts: Part) -> None:
        self._parts = parts
        self._at: dict[str, slice] = {}
        end = 0
        for name, part in parts.items():
            self._at[name] = slice(end, end + part.value.size)
            end += part.value.size
        self.size = end
        self._orders = {
            name: "F" if part.value.ndim == 2 and part.value.flags.f_contiguous else "C" for name, part in parts.items()
        }
        places = [np.arange(self._at[name].start, self._at[name].stop) for name, part in parts.items() if part.free]
        self._places: npt.NDArray[np.intp] = np.concatenate(places) if places else np.empty(0, dtype=np.intp)

    @property
    def x(self) -> Array:
        """The free entries where a search begins, shape (k,)."""
        return self.full()[self._places]

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Least and largest values of the free entries, each (k,)."""
        low, high = np.empty(self.size), np.empty(self.size)
        for name, part in self._parts.items():
            for out, value in ((low, part.low), (high, part.high)):
                out[self._at[name]] = self._flat(name, np.full(part.value.shape, value) / part.unit)
        return low[self._places], high[self._places]

    def full(self, x: Array | None = None) -> Array:
        """All entries w (size,), a new vector: the free ones from x (k,), or where a search begins."""
        w = np.empty(self.size)
        for name, part in self._parts.items():
            w[self._at[name]] = self._flat(name, part.value / part.unit)
        if x is not None:
            w[self._places] = x
        return w

    def views(self, w: Array) -> dict[str, Array]:
        """Each part as a view of w (size,), in its own shape and still divided by its unit."""
        found = {}
        for name, part in self._parts.items():
            piece, shape = w[self._at[name]], part.value.shape
            found[name] = piece.reshape(shape[::-1]).T if self._orders[name] == "F" else piece.reshape(shape)
        return found

    def values(self, x: Array) -> dict[str, Array]:
        """Each part in its own units: the free ones from x (k,), the others as they are."""
        views = self.views(self.full(x))
        return {name: views[name] * part.unit if part.free else part.value for name, part in self._parts.items()}

    def gradient(self, parts: Mapping[str, Array]) -> Array:
        """The gradient in x (k,), from those in the free parts, each of its part's shape."""
        out = np.empty(self.size)
        for name, part in self._parts.items():
            if part.free:
                out[self._at[name]] = self._flat(name, parts[name] * part.unit)
        return out[self._places]

    def at(self, x: Array) -> Self:
        """The same unknowns, beginning at x (k,)."""
        values = self.values(x)
        return type(self)(**{name: replace(part, value=values[name]) for name, part in self._parts.items()})

    def freeing(self, names: Iterable[str]) -> Self:
        """The same unknowns, of which only these move."""
        wanted = set(names)
        return type(self)(**{name: replace(part, free=name in wanted) for name, part in self._parts.items()})

    def _flat(self, name: str, values: Array) -> Array:
        return values.ravel(order="F" if self._orders[name] == "F" else "C")
