"""The unknowns of a search in one flat vector, for optimisers that know vectors alone.

=========  ==========================================================================  ========
symbol     meaning                                                                     shape
=========  ==========================================================================  ========
part       an array with a name, free to move or fixed, with bounds and a unit         any
x          the entries of the free parts, one part after the other, in their units     (k,)
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
        Where a search begins. A Fortran-ordered matrix stands in x column by column, so that its view goes to BLAS as
        it is.
    free : bool
        Whether it moves.
    low, high : float or array
        Bounds of its entries.
    unit : float or array
        What an entry is measured in: x holds multiples of it, which makes a search indifferent to the units of X.
    """

    value: Array
    free: bool = True
    low: float | Array = -np.inf
    high: float | Array = np.inf
    unit: float | Array = 1.0


class Unknowns:
    """Named parts, of which the free ones make a vector x.

    Parameters
    ----------
    **parts : Part
        In the order of the vector.
    """

    def __init__(self, **parts: Part) -> None:
        self.parts = parts
        self._at: dict[str, slice] = {}
        self.size = 0
        for name, part in parts.items():
            if part.free:
                self._at[name] = slice(self.size, self.size + part.value.size)
                self.size += part.value.size

    @classmethod
    def of(cls, values: Mapping[str, Array], *, limits: Mapping[str, float] | None = None) -> Self:
        """Parts that all move, from their first values; ``limits`` bound the absolute values of some."""
        far = {} if limits is None else limits
        return cls(
            **{
                name: Part(value=value, low=-far.get(name, np.inf), high=far.get(name, np.inf))
                for name, value in values.items()
            }
        )

    @property
    def x(self) -> Array:
        """Where a search begins, shape (k,)."""
        return self._flat({name: self.parts[name].value / self.parts[name].unit for name in self._at})

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Least and largest values of x, each (k,)."""
        low, high = {}, {}
        for name in self._at:
            part = self.parts[name]
            shape = part.value.shape
            low[name], high[name] = (np.broadcast_to(each, shape) / part.unit for each in (part.low, part.high))
        return self._flat(low), self._flat(high)

    def values(self, x: Array) -> dict[str, Array]:
        """Every part in its own shape: the free ones from x (k,), as views where the unit is 1; others as given."""
        found = {}
        for name, part in self.parts.items():
            if name not in self._at:
                found[name] = part.value
                continue
            piece, shape = x[self._at[name]], part.value.shape
            value = piece.reshape(shape[::-1]).T if _by_columns(part) else piece.reshape(shape)
            found[name] = value if isinstance(part.unit, float) and part.unit == 1.0 else value * part.unit
        return found

    def gradient(self, parts: Mapping[str, Array]) -> Array:
        """The gradient in x (k,), from those in the parts, each in its part's shape; 0 in parts that have none."""
        return self._flat({name: parts[name] * self.parts[name].unit for name in self._at if name in parts})

    def place(self, name: str) -> slice:
        """Where a free part stands in x; empty where it is fixed."""
        return self._at.get(name, slice(0, 0))

    def at(self, x: Array) -> Self:
        """The same unknowns, beginning at x (k,)."""
        values = self.values(x)
        return type(self)(**{name: replace(part, value=values[name]) for name, part in self.parts.items()})

    def freeing(self, names: Iterable[str]) -> Self:
        """The same unknowns, of which these alone move."""
        wanted = set(names)
        return type(self)(**{name: replace(part, free=name in wanted) for name, part in self.parts.items()})

    def _flat(self, values: Mapping[str, Array]) -> Array:
        x = np.zeros(self.size)
        for name, value in values.items():
            x[self._at[name]] = value.ravel(order="F" if _by_columns(self.parts[name]) else "C")
        return x


def _by_columns(part: Part) -> bool:
    return part.value.ndim == 2 and part.value.flags.f_contiguous and not part.value.flags.c_contiguous
