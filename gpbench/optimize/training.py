"""What training tells of itself: a step at a time, counted, held to a limit and to a stopping rule.

The engine of every scheme's loop, whatever it does in a step: :class:`Trainer` counts, tells ``on_step``, asks the
stopping rule, and knows why training ended. Who called ``fit`` may end it at any step by :class:`StopTraining`.

Beside it what mini-batch training is made of: :class:`Minibatches` of row numbers, without work that grows with the
number of rows, and rules that say when stochastic optimisation has converged, which look at a geometric grid of
iterations (:class:`Checks`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import numpy.typing as npt

from gpbench.errors import UsageError

if TYPE_CHECKING:
    from gpbench.model.posterior import Predictor

__all__ = [
    "EPOCH_LIMIT",
    "Checks",
    "HeldOut",
    "Index",
    "Minibatches",
    "OnStep",
    "ParameterChange",
    "Step",
    "StopTraining",
    "StoppedBy",
    "StoppingRule",
    "Trainer",
    "hold_out",
]

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

EPOCH_LIMIT = 100_000
"""Up to so many rows an epoch visits each row once, which lowers the noise of averages over epochs. Beyond, a run sees
few epochs, and a permutation would cost memory and a stall at each; batches are drawn independently."""
BATCHES_AT_ONCE = 50

StoppedBy = Literal["converged", "schedule", "iterations", "on_step", "failed-to-improve", "unknown"]
"""Why training ended: the scheme's stated criterion holds; its own stages, which have a length, are over; its
iterations are used up; ``on_step`` said so; no step led to anything better though the criterion does not hold; or the
scheme does not say."""


class StopTraining(Exception):
    """Raised by ``on_step`` to end training; not an error. ``fit`` then returns the state that it has."""


class Step:
    """One iteration, as it is reported to ``on_step``.

    Attributes
    ----------
    iteration : int
        Counts from 1: mini-batch steps, or evaluations of the objective under scipy's optimisers.
    bound : float or None
        The objective on the whole training set (nats), where the scheme knows it at this step.
    posterior : callable
        Makes the posterior that training has come to; costs something, so it is called only when wanted.
    elapsed : tuple of float or None
        Wall and processor seconds of training up to this step, where the scheme runs in another process and only a
        clock there can tell them; None: the caller's own clock is right.
    """

    __slots__ = ("bound", "elapsed", "iteration", "posterior")

    def __init__(
        self,
        iteration: int,
        *,
        bound: float | None,
        posterior: Callable[[], Predictor],
        elapsed: tuple[float, float] | None = None,
    ) -> None:
        self.iteration = iteration
        self.bound = bound
        self.posterior = posterior
        self.elapsed = elapsed


OnStep = Callable[[Step], None]
"""Told of each step. It may have a method ``check()`` beside, for schemes whose steps are long: it raises StopTraining
past a limit, and never evaluates."""


class StoppingRule(Protocol):
    """Says after a step whether training has converged."""

    def converged(self, iteration: int) -> bool:
        """To be asked after each iteration, counted from 1; the rule itself knows when to look."""


class Trainer:
    """Counts iterations, tells of each, and knows when to end and why.

    ::

        while trainer.running:
            ...                          # one step
            trainer.report(bound)
        return trainer.stopped_by

    Parameters
    ----------
    limit : int
        Iterations at most.
    posterior : callable
        Makes the posterior that training has come to.

    Attributes
    ----------
    on_step : callable or None
        Told of each iteration, once training has begun.
    rule : StoppingRule or None
        Asked after each iteration.
    count : int
        Iterations so far.
    stopped_by : str
        Why training ended; ``on_step`` while it has not.
    """

    def __init__(self, *, limit: int, posterior: Callable[[], Predictor]) -> None:
        self.on_step: OnStep | None = None
        self.rule: StoppingRule | None = None
        self.count = 0
        self.stopped_by: StoppedBy = "on_step"
        self._limit, self._posterior = limit, posterior

    @property
    def running(self) -> bool:
        """Whether there is to be another iteration."""
        return self.stopped_by == "on_step"

    @property
    def left(self) -> int:
        """Iterations that may still be taken."""
        return self._limit - self.count

    def report(self, bound: float | None = None) -> None:
        """Count an iteration and tell of it.

        Parameters
        ----------
        bound : float, optional
            The objective on all rows (nats), where it is known.

        Raises
        ------
        StopTraining
            From ``on_step``.
        """
        self.count += 1
        if self.on_step is not None:
            self.on_step(Step(self.count, bound=bound, posterior=self._posterior))
        if self.rule is not None and self.rule.converged(self.count):
            self.stopped_by = "converged"
        elif self.left <= 0:
            self.stopped_by = "iterations"

    def check(self) -> None:
        """Ask within a long step whether to end now.

        Raises
        ------
        StopTraining
            A limit has passed.
        """
        check = getattr(self.on_step, "check", None)
        if check is not None:
            check()


def hold_out(n: int, size: int, *, rng: np.random.Generator) -> Index:
    """Row numbers of a validation part, ascending, shape (size,), without work that grows with n."""
    return np.sort(rng.choice(n, size=size, replace=False, shuffle=False))


class Minibatches:
    """Batches of distinct rows.

    Parameters
    ----------
    n : int
        Number of rows.
    size : int
        Rows in a batch; all rows where there are no more than that.
    rng : numpy.random.Generator
        Where the randomness comes from.
    without : (k,), optional
        Rows never to be drawn, ascending.

    Attributes
    ----------
    without
    """

    def __init__(self, n: int, size: int, *, rng: np.random.Generator, without: Index | None = None) -> None:
        left = n if without is None else n - len(without)
        if left < 1 or size < 1:
            raise UsageError(
                f"mini-batches need at least one row and a batch size of at least 1; got {left} and {size}"
            )
        self._n, self.size, self._rng, self.without = left, min(size, left), rng, without
        # the k-th row that is left is k plus the number of rows left out that stand before it
        self._gaps = None if without is None else without - np.arange(len(without))
        self._order: Index = np.empty(0, dtype=np.int64)
        self._next = 0

    @property
    def scale(self) -> float:
        """ζ = n / b, which scales a sum over a batch to a sum over all rows."""
        return self._n / self.size

    def draw(self) -> Index:
        """Row numbers, shape (b,). The rest of an epoch that is less than a batch is left out; it is random."""
        rows = self._draw()
        return rows if self._gaps is None else rows + np.searchsorted(self._gaps, rows, side="right")

    def _draw(self) -> Index:
        if self._next + self.size > len(self._order):
            if self._n > EPOCH_LIMIT:  # for several batches at once, since a call costs as much as many rows
                many = min(BATCHES_AT_ONCE * self.size, self._n)
                self._order = self._rng.choice(self._n, size=many, replace=False)
            else:
                self._order = self._rng.permutation(self._n)
            self._next = 0
        self._next += self.size
        return self._order[self._next - self.size : self._next]


class Checks:
    """Iterations at which to look: ``first``, then each ``ratio`` times the one before.

    Under step sizes like 1/t what changes between two looks does not depend on when they are, so one threshold serves
    short runs and long ones, and the looks cost nothing that matters.
    """

    def __init__(self, *, first: int, ratio: float) -> None:
        self._next, self._ratio = first, ratio

    def due(self, t: int) -> bool:
        """Whether to look at iteration t; to be asked at each."""
        if t < self._next:
            return False
        self._next = max(t + 1, math.ceil(t * self._ratio))
        return True


class ParameterChange:
    """Converged when the mean relative change of the parameters, for one iteration, falls below a tolerance.

    The relative change of an entry is |x - x'| / ½(|x| + |x'|), as in the code of Wenzel et al. (2019); here x and
    x' are as far apart as two checks, and their change is divided by the iterations between, which averages noise out.
    """

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._t = 0
        self._x: Array | None = None

    def converged(self, t: int, x: Array) -> bool:
        """Take the parameters x (k,) at iteration t."""
        before, since = self._x, t - self._t
        self._x, self._t = x, t
        if before is None:
            return False
        size = 0.5 * (np.abs(x) + np.abs(before))
        change = np.divide(np.abs(x - before), size, out=np.zeros_like(x), where=size > 0)
        return float(change.mean()) < self._tolerance * since


class HeldOut:
    """Converged when the held-out loss has not fallen by a relative tolerance over the last ``patience`` checks."""

    def __init__(self, tolerance: float, *, patience: int) -> None:
        self._tolerance, self._patience = tolerance, patience
        self._losses: list[float] = []

    def converged(self, loss: float) -> bool:
        """Take the loss at a check."""
        self._losses.append(loss)
        if len(self._losses) <= self._patience:
            return False
        before = min(self._losses[: -self._patience])
        return min(self._losses[-self._patience :]) > before - self._tolerance * abs(before)
