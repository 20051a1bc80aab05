"""Damping of EP's parallel updates, which is halved where they oscillate; and when evidence no longer rises.

Undamped updates of all sites at once overshoot, and residuals (undamped update minus present sites) turn round from one
iteration to the next. Where the cosine of two in turn is below -½, damping is halved.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Damping", "Rising"]

FIRST = 0.5
"""ε of updates of all rows, as in the code of villacampa2017."""
TURNS = -0.5
WINDOW = 25
"""Iterations over which evidence must rise."""


class Damping:
    """ε of the next update.

    Attributes
    ----------
    value : float
    turned : int
        Oscillations that were damped.
    """

    def __init__(self, value: float, *, decay: float = 1.0) -> None:
        self.value, self.turned = value, 0
        self._decay = decay
        self._before: Array | None = None

    @classmethod
    def of(cls, setting: float | None, *, batch: bool, decay: float) -> Self:
        """From settings: None is 0.5 where all rows are updated at once, 1 on mini-batches, where nothing decays."""
        first = setting if setting is not None else FIRST if batch else 1.0
        return cls(first, decay=decay if batch else 1.0)

    def next(self, residual: Array | None) -> None:
        """Go on to the next iteration; residuals that are None are not watched."""
        self.value *= self._decay
        if residual is None:
            return
        before, self._before = self._before, residual
        if before is None:
            return
        size = math.sqrt(float(np.vdot(residual, residual)) * float(np.vdot(before, before)))
        if size > 0 and float(np.vdot(residual, before)) < TURNS * size:
            self.halve()
            self.turned += 1
            self._before = None

    def halve(self) -> None:
        """Half of it from now on."""
        self.value *= 0.5


class Rising:
    """Whether log Z still moves: its median over the last 25 iterations against that over the 25 before.

    Medians, and not the best values: while sites are far from matching moments, log Z is no bound, and can stand far
    above what EP settles at for an iteration or two. A large fall is such an unsettled time as well, and no end.

    Parameters
    ----------
    least : float
        Relative change that counts; 0: never ask.
    """

    def __init__(self, least: float) -> None:
        self._least = least
        self._values: list[float] = []

    def go_on(self, log_z: float) -> bool:
        """Take log Z of an iteration."""
        self._values.append(log_z)
        if self._least == 0 or len(self._values) < 2 * WINDOW:
            return True
        before = float(np.median(self._values[-2 * WINDOW : -WINDOW]))
        last = float(np.median(self._values[-WINDOW:]))
        return abs(last - before) > self._least * abs(before)
