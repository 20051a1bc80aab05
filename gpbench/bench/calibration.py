"""How fast this machine is at this moment: the time of a fixed step, by which times of different machines compare.

The step is made of what a mini-batch step of a sparse scheme spends its time on, with M = b = 100: a matrix product, a
Cholesky factor and exponentials. It is taken when a worker starts and every half minute, while the training clock
stands, on one thread and in processor seconds. A processor that others heat, or whose caches they fill, shows in it.
"""

from __future__ import annotations

from time import perf_counter, thread_time
from typing import Any

import numpy as np

from gpbench.bench.resources import one_pool_size

__all__ = ["GAUGE", "SIZE", "Gauge"]

SIZE = 100
"""M and b of the step."""
REPEATS = 15
"""Steps at a time, of which the median counts: some 5 ms."""
INTERVAL = 30.0
"""Seconds between two times."""


class Gauge:
    """Takes the time of the step, and knows when it is due.

    Parameters
    ----------
    interval : float
        Wall seconds from one time to the next.

    Attributes
    ----------
    due : float
        The ``perf_counter`` value from which the step is to be timed again.
    """

    def __init__(self, *, interval: float = INTERVAL) -> None:
        rng = np.random.default_rng(0)
        self._square = rng.normal(size=(SIZE, SIZE))
        self._kernel = self._square @ self._square.T + SIZE * np.eye(SIZE)
        self._interval = interval
        self._taken: list[float] = []
        self.due = -np.inf

    def begin(self) -> None:
        """A cell begins: forget what was taken before, but for the latest, unless that is too old."""
        # A worker may have idled for hours: a step timed before that says nothing of the machine under this cell.
        self._taken = self._taken[-1:] if perf_counter() < self.due else []
        self.take_if_due()

    def take_if_due(self) -> None:
        """Time the step where half a minute has passed."""
        if perf_counter() < self.due:
            return
        with one_pool_size(1):
            self._step()
            self._taken.append(float(np.median([self._seconds() for _ in range(REPEATS)])))
        self.due = perf_counter() + self._interval

    def record(self) -> dict[str, Any]:
        """For a cell's provenance: median, lowest and highest of the times taken for it (seconds), and their number."""
        taken = self._taken
        if not taken:
            return {}
        return {
            "step_seconds": float(np.median(taken)),
            "lowest": min(taken),
            "highest": max(taken),
            "times": len(taken),
        }

    def _seconds(self) -> float:
        begin = thread_time()
        self._step()
        return thread_time() - begin

    def _step(self) -> None:
        product = self._square @ self._square
        np.linalg.cholesky(self._kernel)
        np.exp(-np.abs(product))


GAUGE = Gauge()
"""This process's."""
