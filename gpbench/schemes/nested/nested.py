"""What schemes share whose bound is maximised over q in an inner loop, at each evaluation of an outer search.

The outer unknowns are θ, the logarithms of the kernel's hyper-parameters, and Z, where there are inducing inputs to
learn. At the inner optimum the gradient in them is that at q held (envelope theorem), exact there and nowhere else: so
the inner loop is run to a tight tolerance, from where it ended before. Jitter keeps its absolute value while a search
runs, since one that follows θ would need a gradient.

Two of the inner problems are maximised by Newton's method with a line search, in the M whitened unknowns of a mean:
their Hessian is -(I + Tᵀ diag(w) T) with w >= 0, so that no eigenvalue is nearer to zero than -1, the optimum is
unique, and no jitter is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from gpbench.model.linalg import add_to_diagonal, potrf, trsv
from gpbench.optimize.maximise import LOG_BOUND, Point, maximise
from gpbench.optimize.unknowns import Part, Unknowns
from gpbench.schemes.base import StopTraining, Training

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.model.basis import Moments
    from gpbench.model.kernels import Kernel
    from gpbench.model.posterior import Predictor
    from gpbench.model.rows import Array
    from gpbench.optimize.search import Search
    from gpbench.optimize.training import StoppedBy

__all__ = ["Inner", "InnerPoint", "NestedTraining", "Solved", "maximise_newton"]

_SUFFICIENT = 1e-4
_ROUNDING = 1e-12


class Solved(Protocol):
    """The inner optimum at one kernel and Z."""

    @property
    def value(self) -> float:
        """The bound (nats)."""

    @property
    def kernel(self) -> Kernel:
        """With its hyper-parameters."""

    @property
    def jitter(self) -> float:
        """Absolute jitter of the kernel matrix."""

    @property
    def inner_steps(self) -> int:
        """Iterations of the inner loop."""

    @property
    def settled(self) -> bool:
        """Whether it converged."""


S = TypeVar("S", bound=Solved)


class Inner(Protocol[S]):
    """The inner problem."""

    def solve(
        self,
        kernel: Kernel,
        Z: Array,
        *,
        jitter: float | None,
        warm: S | None,
        check: Callable[[], None],
        brief: bool = False,
    ) -> S:
        """Maximise over q.

        Parameters
        ----------
        kernel : Kernel
        Z : (M, d)
        jitter : float or None
            Absolute; None: as little as is needed.
        warm : Solved or None
            Where to start.
        check : callable
            To be called now and then in a long loop: raises StopTraining past a limit.
        brief : bool
            One step alone, for a state to predict from.

        Raises
        ------
        NumericalError
            There is no optimum to be had.
        """

    def gradient(self, at: S) -> tuple[Array, Array]:
        """Gradient of the bound in θ (P,) and Z (M, d), at the inner optimum."""

    def posterior(self, at: S) -> Predictor:
        """What predicts."""


class NestedTraining(Training, Generic[S]):
    """The outer search; keeps the best state.

    Parameters
    ----------
    inner : Inner
    search : Search
    kernel : Kernel
        With its first hyper-parameters.
    Z : (M, d)
        First inducing inputs.
    learn_theta, learn_Z : bool
        What the outer search moves.
    limit : int
        Evaluations at most.
    """

    unit = "evaluation"

    def __init__(
        self,
        inner: Inner[S],
        search: Search,
        *,
        kernel: Kernel,
        Z: Array,
        learn_theta: bool,
        learn_Z: bool,
        limit: int,
    ) -> None:
        super().__init__(limit=limit)
        self._inner, self._search, self._kernel = inner, search, kernel
        self._unknowns = Unknowns(
            theta=Part(value=kernel.theta, free=learn_theta, low=-LOG_BOUND, high=LOG_BOUND),
            Z=Part(value=Z, free=learn_Z),
        )
        self._inner_steps = self._unsettled = 0
        self._best: S
        self._latest: S

    def begin(self) -> None:
        """The inner optimum at the start; where that is stopped, one step towards it."""
        start = self._unknowns.x
        try:
            self._best = self._latest = self._solve(start, jitter=None, warm=None)
        except StopTraining:
            at = self._unknowns.values(start)
            kernel, Z = self._kernel.with_theta(at["theta"]), np.array(at["Z"])
            self._best = self._inner.solve(kernel, Z, jitter=None, warm=None, check=lambda: None, brief=True)
            raise

    def train(self) -> StoppedBy:
        """Search until nothing is gained or the evaluations are used up."""
        if not self._unknowns.size:
            self.trainer.report(self._best.value)
            return "converged" if self._best.settled else "iterations"
        solved: tuple[Array, S] | None = self._unknowns.x, self._best  # the first point of a search
        jitter = self._best.jitter

        def begin(x: Array) -> None:
            nonlocal solved, jitter
            if self.trainer.count:  # a new jitter
                self._latest = self._solve(x, jitter=None, warm=self._best)
                solved, jitter = (x, self._latest), self._latest.jitter

        def objective(x: Array) -> Point[S]:
            nonlocal solved
            if solved is not None and np.array_equal(x, solved[0]):
                at = solved[1]
            else:
                at = self._latest = self._solve(x, jitter=jitter, warm=self._latest)
            solved = None
            theta, Z = self._inner.gradient(at)
            return Point(at.value, self._unknowns.gradient({"theta": theta, "Z": Z}), at)

        def evaluated(best: S, value: float) -> None:
            self._best = best
            self.trainer.report(value)

        return maximise(
            objective,
            self._unknowns.x,
            search=self._search,
            evaluations=lambda: self.trainer.left,
            bounds=self._unknowns.bounds,
            begin=begin,
            on_evaluation=evaluated,
        ).stopped_by

    def posterior(self) -> Predictor:
        """The posterior of the best state so far."""
        return self._inner.posterior(self._best)

    def bound(self) -> float:
        """The bound there."""
        return self._best.value

    def facts(self) -> dict[str, Any]:
        """Inner iterations in all, and evaluations whose inner loop did not converge."""
        return {"inner_steps": self._inner_steps, "unsettled": self._unsettled}

    def _solve(self, x: Array, *, jitter: float | None, warm: S | None) -> S:
        at = self._unknowns.values(x)
        kernel, Z = self._kernel.with_theta(at["theta"]), np.array(at["Z"])
        found = self._inner.solve(kernel, Z, jitter=jitter, warm=warm, check=self.trainer.check)
        self._inner_steps += found.inner_steps
        self._unsettled += not found.settled
        return found


class InnerPoint(Protocol):
    """The objective at one mean; making it takes a walk over the rows.

    Attributes
    ----------
    m_w : (M,)
    value : float
        To be maximised.
    ascent : (M,)
        Its gradient.
    sums : Moments
        Tᵀ diag(w) T.
    """

    m_w: Array
    value: float
    ascent: Array
    sums: Moments


P = TypeVar("P", bound=InnerPoint)


def maximise_newton(
    here: P, move: Callable[[P, Array], P], *, tolerance: float, limit: int, check: Callable[[], None]
) -> tuple[P, int, bool]:
    """Newton's method to the optimum.

    Parameters
    ----------
    here : InnerPoint
        Where to start; counts as the first walk.
    move : callable
        Makes the point at another mean (M,), from the one before.
    tolerance : float
        Converged after the step that was foretold to gain less than half its square; that step squares the error.
    limit : int
        Walks over the rows at most.
    check : callable
        Called before each walk; may raise to end training.

    Returns
    -------
    point, walks, settled
        The best point, how many walks it took, and whether it converged.

    Raises
    ------
    NumericalError
        The Hessian is not finite.
    """
    walks, settled = 1, False
    while walks < limit and not settled:
        direction = _direction(here)
        gain = float(direction @ here.ascent)
        settled = gain <= tolerance * tolerance
        rounding, step = _ROUNDING * abs(here.value), 1.0
        while True:
            check()
            there = move(here, here.m_w + step * direction)
            walks += 1
            risen = there.value >= here.value + _SUFFICIENT * step * gain - rounding
            if settled or risen or walks >= limit:
                break
            step *= 0.5
        if there.value >= here.value - rounding:
            here = there
    return here, walks, settled


def _direction(at: InnerPoint) -> Array:
    hessian = at.sums.G.copy(order="F")
    add_to_diagonal(hessian, 1.0)
    C = potrf(hessian, what="the inner Hessian", overwrite=True)
    return trsv(C, trsv(C, at.ascent), trans=True)
