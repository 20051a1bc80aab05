"""Fixed points of EP's parallel site updates: damping, acceleration, and what to do when they oscillate.

==========  ======================================================================================  =======
symbol      meaning                                                                                 shape
==========  ======================================================================================  =======
x           site parameters τ and b, flat; the first half holds the precisions τ ≥ 0                 (k,)
g(x)        the sites that match moments, given the posterior that x makes: one parallel update      (k,)
f           g(x) - x                                                                                (k,)
w           weights that make f dimensionless: posterior variances for τ, their roots for b          (k,)
change      largest |w f|                                                                           scalar
ε           damping: x + ε f is the plain step                                                      scalar
X, F        differences of the last few x and f                                                     (k, h)
==========  ======================================================================================  =======

Plain damped steps settle in 20 to 60 iterations, in the multi-class model in thousands: along functions that are common
to all classes the data say next to nothing. Anderson's mixing (1965; Walker and Ni 2011) takes

    x + ε f - (X + ε F) γ,   γ = argmin |w (f - F γ)|,

a quasi-Newton step from the last few iterations, and needs a handful. It moves sites only: what they settle at is the
fixed point of g, mixed or not. The history outlives one call: under an optimiser the next evaluation's map is nearly
the same one. Precisions stay within 0 and twice what both x and g(x) have, so that no cavity is ever improper.

From zero sites and a wide prior, change stays at several units for some ten iterations while the precisions grow by
orders of magnitude; mixing begins after that, but at once where x has no sign (``longest``). Plain steps whose f turns
round without shrinking oscillate: damping is halved. So it is, and mixing starts anew, where change has not fallen for
many iterations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["FixedPointOutcome", "FixedPointSearch", "Proposal"]

Array = npt.NDArray[np.float64]

LEAST_DAMPING = 0.02
"""Damping is halved down to this."""
_LOCAL = 0.1
"""Steps are mixed once change is below this: near the fixed point, where the map is nearly linear."""
_LEFT = 1.0
"""They go on being mixed until change is above this, as mixing is not monotone."""
_PATIENCE = 30
"""Iterations without a smaller change after which mixing starts anew, with half the damping."""
_HISTORY_BYTES = 64_000_000
"""Pairs are dropped to keep within this size."""
_CONDITION = 1e-10
"""Directions of the history whose Gram matrix has a relative eigenvalue below this are noise."""


class Proposal(NamedTuple):
    """One parallel update: g(x) and the weights w, each (k,), new arrays that the iteration may overwrite.

    ``at`` (k,) is the point that they belong to where the update has moved x itself.
    """

    target: Array
    weights: Array
    at: Array | None = None


class FixedPointOutcome(NamedTuple):
    """Where the iteration stopped.

    Attributes
    ----------
    x : (k,)
        The last point that was evaluated, if it settled; otherwise the best one, which is then evaluated again.
    change : float
        Largest weighted |g(x) - x| there.
    iterations : int
        Evaluations of g.
    settled : bool
        Whether ``change`` is within the tolerance.
    restarts : int
        Oscillations that were damped.
    """

    x: Array
    change: float
    iterations: int
    settled: bool
    restarts: int


@dataclass
class FixedPointSearch:
    """Finds x = g(x).

    Attributes
    ----------
    damping : float
        First ε of each call, in (0, 1].
    tolerance : float
        Settled when ``change`` is not above it.
    limit : int
        Evaluations of g at most.
    memory : int
        Pairs of the history; 0: plain damped steps.
    longest : float, optional
        x holds no precisions, but numbers of any sign, which no step moves by more than this.
    reached : (k,) or None
        The point that a call which was stopped by its ``update`` had come to.
    """

    damping: float = 0.8
    tolerance: float = 1e-6
    limit: int = 200
    memory: int = 10
    longest: float | None = None

    def __post_init__(self) -> None:
        self._history: _History | None = None
        self.reached: Array | None = None

    def settle(self, update: Callable[[Array], Proposal], x: Array) -> FixedPointOutcome:
        """Iterate from x (k,).

        Parameters
        ----------
        update : callable
            Gives g(x) and w; the state that it builds belongs to the last x that it was given.
        """
        damping, restarts, since = self.damping, 0, 0
        best, best_change = x, math.inf
        before: tuple[Array, Array] | None = None
        plain, near = True, False
        local, left = (_LOCAL, _LEFT) if self.longest is None else (math.inf, math.inf)
        for iteration in range(1, self.limit + 1):
            self.reached = x
            target, weights, at = update(x)
            x = x if at is None else at
            f = np.subtract(target, x, out=target)
            size = np.abs(f)
            change = float(np.max(np.multiply(size, weights, out=size), initial=0.0))
            del target, size
            if change <= self.tolerance:
                return FixedPointOutcome(x, change, iteration, True, restarts)
            since += 1
            if change < best_change:
                best, best_change, since = x, change, 0
            if before is not None:
                if self.memory:
                    self._remember(x - before[0], f - before[1])
                swings = plain and _swings(weights * before[1], weights * f)
                if swings or since >= _PATIENCE:
                    self.forget()
                    damping, since = max(0.5 * damping, LEAST_DAMPING), 0
                    restarts += 1
            before = (x, f)
            near = change <= (left if near else local)
            plain = not near or self._history is None
            x = self._step(x, f, weights, damping, mixed=not plain)
        at = update(best).at
        return FixedPointOutcome(best if at is None else at, best_change, self.limit, False, restarts)

    def forget(self) -> None:
        """Drop the history: the map is another one."""
        self._history = None

    def _remember(self, moved: Array, changed: Array) -> None:
        if self._history is None or self._history.size != len(moved):
            room = _HISTORY_BYTES // (3 * moved.nbytes)
            self._history = _History(len(moved), min(self.memory, max(1, room)))
        self._history.add(moved, changed)

    def _step(self, x: Array, f: Array, weights: Array, damping: float, *, mixed: bool) -> Array:
        moved = damping * f
        moved += x
        if mixed and self._history is not None:
            moved -= self._history.correction(f, weights, damping)
        if self.longest is not None:
            return np.clip(moved, x - self.longest, x + self.longest, out=moved)
        half = len(x) // 2
        tau = moved[:half]
        np.clip(tau, 0.0, 2.0 * (x[:half] + np.maximum(f[:half], 0.0)), out=tau)
        return moved


class _History:
    """The last few differences, in rings; their order plays no part."""

    def __init__(self, size: int, memory: int) -> None:
        self.size, self._used, self._next = size, 0, 0
        self._X, self._F, self._scaled = (np.empty((memory, size)) for _ in range(3))

    def add(self, moved: Array, changed: Array) -> None:
        """Take a difference of x and one of f, in place of the oldest."""
        self._X[self._next], self._F[self._next] = moved, changed
        self._next = (self._next + 1) % len(self._X)
        self._used = max(self._used, self._next or len(self._X))

    def correction(self, f: Array, weights: Array, damping: float) -> Array:
        """(X + ε F) γ, (k,)."""
        X, F = self._X[: self._used], self._F[: self._used]
        scaled = np.multiply(F, weights, out=self._scaled[: self._used])
        gram, right = scaled @ scaled.T, scaled @ (weights * f)
        values, vectors = np.linalg.eigh(gram)
        keep = values > _CONDITION * values[-1]
        gamma = vectors[:, keep] @ ((vectors[:, keep].T @ right) / values[keep])
        return np.asarray(gamma @ X + damping * (gamma @ F))


def _swings(before: Array, after: Array) -> bool:
    """Whether a plain step led to the other side and no nearer: f turned round and hardly shrank."""
    size = float(before @ before)
    return float(before @ after) < -0.5 * size or (float(before @ after) < 0 and float(after @ after) > size)
