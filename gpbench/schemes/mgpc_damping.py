"""Damping of EP's parallel updates, which is halved where they oscillate.

Undamped updates of all sites at once overshoot, and residuals (undamped update minus present sites) turn round from one
iteration to the next. Where the cosine of two in turn is below -½, damping is halved.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["Damping"]

FIRST, DECAY = 0.5, 0.99
"""Of updates of all rows, as in the code of villacampa2017: ε, and its decay an iteration."""
TURNS = -0.5


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
    def of(cls, setting: float | None, *, batch: bool) -> Self:
        """From a setting: None is 0.5, falling, where all rows are updated at once, and 1 on mini-batches."""
        if setting is not None:
            return cls(setting)
        return cls(FIRST, decay=DECAY) if batch else cls(1.0)

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
