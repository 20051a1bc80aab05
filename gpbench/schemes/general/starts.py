"""What a run for any likelihood starts from, so that what it hands back is never worse.

A run that is stopped before it has converged hands back the best by the bound of four states: the prior, what the
solver was given to start from, what it reported first, and the best that it has by its own objective. For Newton's
methods that is the last of them, as a rule; the dual's objective is another than the bound. Bounds that are not known
are worked out when a posterior is asked for, and those of the starts once: an iteration costs nothing more, and what
is handed back does not depend on when it was asked for before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gpbench.schemes.general.bound import GaussianV, bound_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.model.basis_old import Basis
    from gpbench.schemes.general.hyper import State
    from gpbench.schemes.general.rows import FeatureRows

__all__ = ["Starts"]


class Starts:
    """The states that a run started from.

    Parameters
    ----------
    rows : callable
        The rows that the bound is of, at a kernel.
    """

    def __init__(self, rows: Callable[[Basis], FeatureRows]) -> None:
        self._rows = rows
        self._states: list[State] = []
        self._reported = False

    def begin(self, start: State) -> None:
        """The first search for q begins, from this state."""
        prior = start._replace(q=GaussianV.prior(len(start.q.m_w)))
        self._states, self._reported = [prior, start], False

    def report(self, state: State) -> None:
        """The search has come to a state; the first one counts among the starts."""
        if not self._reported:
            self._states.append(state)
            self._reported = True

    def best(self, state: State) -> tuple[State, bool]:
        """The best of this state and the starts, with its bound, and whether it is one of the starts.

        Before a search has begun it is the state as it is, since its bound, if any, is another objective.
        """
        if not self._states:
            return state, False
        self._states = [max((self._known(each) for each in self._states), key=_worth)]
        start, present = self._states[0], self._known(state)
        return (start, True) if _worth(start) > _worth(present) else (present, False)

    def _known(self, state: State) -> State:
        if state.bound is not None:
            return state
        with np.errstate(over="ignore", invalid="ignore"):  # counts under a wide q: minus infinity
            return state._replace(bound=bound_at(self._rows(state.basis), state.observation, state.q).value)


def _worth(state: State) -> float:
    """The bound; no number is worth nothing."""
    assert state.bound is not None
    return -math.inf if math.isnan(state.bound) else state.bound
