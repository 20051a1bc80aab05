"""vi-jj, vi-taylor, vi-jj-hybrid, vi-jj-full: quadratic bounds of the logit (Izmailov and Kropotov 2016, section 4).

========  ===============================================================================  ==========
symbol    meaning                                                                          shape
========  ===============================================================================  ==========
n, M      rows, inducing inputs
y         labels as ±1                                                                     (n,)
ξ         where each row's log σ(y f) is expanded                                          (n,)
μ, s      mean and variance of q(f) at the rows (the paper's m_i and S_i², S_t)            (n,)
q(u)      N(μ̂, Σ̂), the best one for given ξ: (12), (13) or (17), (18)
θ         logarithms of the kernel's hyper-parameters                                      (P,)
Ĵ         the bound at that q, (14) or (19), as a function of θ and ξ                      scalar
========  ===============================================================================  ==========

The bounds and their maximisation over q are in :mod:`gpbench.schemes.jaakkola.collapsed`. Here:

- ``alternate`` (vi-taylor, and the paper's vi-JJ): Algorithm 1. Stage 1, ``updates`` times: ξ from q by (15),
  ξ² = μ² + s (Taylor: ξ = μ), then q from ξ. Stage 2: L-BFGS-B on θ at fixed ξ with ``stage_evaluations`` evaluations.
  Both are repeated. One jitter of K_mm holds throughout: anew at each stage 2 it would follow the prior variance up,
  which each stage 2 raises the more since that makes the jitter it holds smaller, without end (on magic with one length
  scale to a variance of 1e6 and a jitter of 1.4, with the bound 1,300 nats below where it had been).
- ``hybrid`` (vi-jj-hybrid): the same with stage 2 over θ and ξ.
- ``profile`` (vi-jj): one L-BFGS-B on θ alone, of Ĵ at the best ξ for each θ. At that ξ the gradient at ξ held is the
  whole one (envelope theorem). The fixed point of (15) is extrapolated (:mod:`gpbench.optimize.fixed_point`) in log ξ.
- :class:`VIJJFull` (vi-jj-full): one L-BFGS-B over θ and ξ, from ξ = 1, without stage 1; n more unknowns.

What is slow in Algorithm 1 is that stage 2 sees the bound at tangents that belong to the old θ, and hardly moves; and
that (15) by itself gains little in a step where the prior variance is large. Where they end (nats) after how many
evaluations, 1,000 at most (of ``profile``: with how many updates of ξ in all); k-means centres, se-ard, at most 4,000
rows:

=========  ===  ================  =======================  ===============
set        M    alternate         profile                  vi-jj-full
=========  ===  ================  =======================  ===============
heart      30   -112.83   1000    -112.82   33 (117)       -113.28    86
diabetis   50   -368.52   1000    -368.50   29 (118)       -368.59   155
banana     50   -917.65   1000    -917.54   37 (371)       -917.54   752
magic      60   -1440.6   1000    -1443.1   50 (834)       -1438.2   888
cod-rna    60   -478.31   1000    -478.29   31 (253)       -478.48   416
ijcnn1     60   -464.85   1000    -466.52   83 (840)       -547.45  1000
skin       30   -115.47   1000    -87.02    75 (4257)      -106.42  1000
image      50   -377.11   1000    -333.01   67 (4762)      -406.34   742
ringnorm   50   -965.16   1000    -914.45   87 (494)       -920.85   302
=========  ===  ================  =======================  ===============

The inducing inputs stay as the inducing rule gives them. Beyond the paper: Taylor's stage 1 is Newton's method for the
mode, and its steps are halved where the mode's objective would fall (with a large prior variance full steps oscillate).
Ĵ of Taylor is no bound: where q is far from ξ it promises anything. Stage 2 may follow such a promise (on skin, after
170 evaluations, to a prior variance e^9 times as large, from which stage 1 came back with Ĵ of 1e5, then 1e18, and an
NLL of 1e13). So a stage 2 counts only if stage 1 at its θ comes to about as much as it had before; else θ goes back by
halves. What counts is Ĵ less half of Newton's decrement: Laplace's evidence at the point that stage 1 has come to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from gpbench.errors import UsageError
from gpbench.model.basis import Basis, features, marginals
from gpbench.model.gaussian import GaussianQ
from gpbench.model.likelihoods.bernoulli import dlambda_jj, log_sigmoid
from gpbench.model.linalg import trmv
from gpbench.model.posterior import Latent, Posterior
from gpbench.optimize.fixed_point import FixedPointSearch, Proposal
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.maximise import LOG_BOUND, Point, maximise
from gpbench.optimize.unknowns import Part, Unknowns
from gpbench.schemes import settings
from gpbench.schemes.base import Training, setting
from gpbench.schemes.jaakkola.collapsed import (
    Collapsed,
    Pending,
    Quadratic,
    collapse,
    collapsed_gradient,
    finish,
    jaakkola_jordan,
    jaakkola_jordan_slope,
    taylor,
    tightened,
)
from gpbench.schemes.settings import BinaryScheme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpbench.model.basis import Block
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import StoppedBy

__all__ = ["VIJJ", "VIJJFull"]

LEAST_XI = 1e-3
"""Lower limit of ξ where L-BFGS-B moves it: the bound is even in ξ, and flat at 0."""
SETTLED = 1e-4
"""Square root of what a row's next update of ξ would add to the bound (nats), at most, where ξ is at its best."""
TANGENT_UPDATES = 200
"""Of ξ at most, in an evaluation of the profile."""
KEPT = 4_000_000
"""Features are kept for the updates of ξ at one θ if they are no more numbers than this (32 MB)."""
SMALLEST_STEP = 2.0**-20
"""A Newton step is halved down to this; by then the mode is reached to rounding."""
FALL = 1e-3
"""What Taylor's stage 1 may lose of the most that it has come to, relatively: near the end θ goes to and fro."""
HALVINGS = 10
"""Of a move of θ under Taylor's expansion, at most."""


@dataclass(frozen=True, kw_only=True)
class VIJJ(BinaryScheme):
    """Batch maximisation of a quadratic bound of the logit: Algorithm 1, or with ξ at its best in each evaluation."""

    link: str = settings.link("logit")
    bound: str = setting("jj", "Jaakkola and Jordan's bound, or Taylor's expansion", choices=("jj", "taylor"))
    variant: str = setting(
        "alternate",
        "Algorithm 1, or with ξ in its second stage too, or a search over θ with ξ settled at each evaluation",
        choices=("alternate", "hybrid", "profile"),
    )
    updates: int = setting(3, "closed-form updates of ξ and q in stage 1 (the paper's n_upd)", minimum=1)
    stage_evaluations: int = setting(5, "evaluations of stage 2 (the paper's maxfun)", minimum=1)
    conditional: str = settings.conditional()
    memory: int = settings.memory(10)
    tolerance: float = setting(
        1e-6,
        "ends when stages 1 and 2 together (profile: a line search) raise the bound by less, relatively",
        minimum=0.0,
        maximum=1.0,
    )
    max_iterations: int = settings.max_iterations(1000, "evaluations of the bound at most")
    block_rows: int = settings.block_rows()

    name: ClassVar[str] = "vi-jj"

    def __post_init__(self) -> None:
        if self.bound == "taylor" and self.variant != "alternate":
            raise UsageError(f"Taylor's expansion needs variant alternate, since ξ has no optimum; got {self.variant}")
        if self.bound == "taylor" and self.conditional != "prior":
            raise UsageError(f"Taylor's expansion needs conditional prior; got {self.conditional}")

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,  # noqa: ARG002 - two
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> AlternatingTraining | ProfileTraining:
        """Training at its beginning."""
        if self.variant == "profile":
            Z = inducing.choose(X)
            return ProfileTraining(self, jaakkola_jordan, X, y, Z=Z, likelihood=likelihood, first_xi=1.0)
        form = jaakkola_jordan if self.bound == "jj" else taylor
        return AlternatingTraining(self, form, X, y, Z=inducing.choose(X), likelihood=likelihood, first_xi=0.0)


@dataclass(frozen=True, kw_only=True)
class VIJJFull(BinaryScheme):
    """The Jaakkola-Jordan bound under one L-BFGS-B over hyper-parameters and ξ."""

    link: str = settings.link("logit")
    conditional: str = settings.conditional()
    memory: int = settings.memory(10)
    gradient_tolerance: float = settings.gradient_tolerance()
    value_tolerance: float = settings.value_tolerance()
    max_iterations: int = settings.max_iterations(1000, "evaluations of the bound at most")
    block_rows: int = settings.block_rows()

    name: ClassVar[str] = "vi-jj-full"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,  # noqa: ARG002 - two
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> FullTraining:
        """Training at its beginning."""
        return FullTraining(self, jaakkola_jordan, X, y, Z=inducing.choose(X), likelihood=likelihood, first_xi=1.0)


class State(NamedTuple):
    """Kernel at the inducing inputs, ξ (n,), and the best q for them."""

    basis: Basis
    xi: Array
    at: Collapsed


class Accepted(NamedTuple):
    """Where Taylor's stage 1 ended last, and the most that it has come to (nats)."""

    state: State
    worth: float


class Mode(NamedTuple):
    """A point on the way to the mode of Taylor's stage 1: f = T v (n,), and v (M,)."""

    f: Array
    v: Array

    def objective(self, y: Array) -> float:
        """Ψ."""
        return float(log_sigmoid(y * self.f).sum()) - 0.5 * float(self.v @ self.v)


class QuadraticTraining(Training):
    """What Algorithm 1 and its relatives share: the best state so far, and the search over θ, or θ and ξ.

    Parameters
    ----------
    scheme : VIJJ or VIJJFull
    form : callable
        The quadratics at labels ±1 and ξ, each (b,).
    X : (n, d)
    y : (n,)
        0 or 1.
    Z : (M, d)
    likelihood
        As in ``fit``.
    first_xi : float
    """

    unit = "evaluation"

    def __init__(
        self,
        scheme: VIJJ | VIJJFull,
        form: Callable[[Array, Array], Quadratic],
        X: Rows,
        y: Labels,
        *,
        Z: Array,
        likelihood: Likelihood,
        first_xi: float,
    ) -> None:
        super().__init__(limit=scheme.max_iterations)
        self._form, self._X, self._likelihood = form, X, likelihood
        self._y = np.where(np.asarray(y) == 1, 1.0, -1.0)
        self._size, self._tight = scheme.block_rows, scheme.conditional == "tight"
        self._learns = scheme.hyperparameters == "learned"
        M = len(Z)
        prior = Collapsed(-math.inf, GaussianQ.prior(M), Pending(M).sums)
        self.state = State(Basis(scheme.initial_kernel(X), Z), np.full(len(self._y), first_xi), prior)

    @property
    def best(self) -> State:
        """The best state so far: the present one, which never falls back."""
        return self.state

    def posterior(self) -> Posterior:
        """The posterior of the best state so far."""
        return Posterior((Latent.of(self.best.basis, self.best.at.q),), self._likelihood, classes=2)

    def bound(self) -> float | None:
        """Ĵ there."""
        value = self.best.at.value
        return value if math.isfinite(value) else None

    def _quadratics(self, xi: Array, rows: slice) -> Quadratic:
        return self._form(self._y[rows], xi[rows])

    def _maximise(self, search: LBFGSB, *, evaluations: int, move_xi: bool, jitter: float | None = None) -> StoppedBy:
        """L-BFGS-B on θ at fixed ξ, or on θ and ξ together, from the best state so far; a jitter, or its own."""
        kernel, Z, xi = self.state.basis.kernel, self.state.basis.Z, self.state.xi
        first_xi = np.maximum(xi, LEAST_XI) if move_xi else xi
        unknowns = Unknowns(
            theta=Part(value=kernel.theta, free=self._learns, low=-LOG_BOUND, high=LOG_BOUND),
            xi=Part(value=first_xi, free=move_xi, low=LEAST_XI),
        )
        last = self.trainer.count + evaluations
        held = self.state.basis

        def begin(x: Array) -> None:
            nonlocal held
            held = Basis(kernel.with_theta(unknowns.values(x)["theta"]), Z, jitter=jitter)

        def objective(x: Array) -> Point[State]:
            at = unknowns.values(x.copy())
            basis = Basis(kernel.with_theta(at["theta"]), Z, jitter=held.jitter) if self._learns else held
            state, gradient = self._evaluated(basis, at["xi"], by_xi=move_xi)
            return Point(state.at.value, unknowns.gradient(gradient), state)

        def evaluated(state: State, value: float) -> None:  # noqa: ARG001 - the state has it
            self.state = state
            self.trainer.report(self.best.at.value)

        return maximise(
            objective,
            unknowns.x,
            search=search,
            evaluations=lambda: last - self.trainer.count,
            bounds=unknowns.bounds,
            begin=begin,
            on_evaluation=evaluated,
        ).stopped_by

    def _evaluated(self, basis: Basis, xi: Array, *, by_xi: bool) -> tuple[State, dict[str, Array]]:
        """The best q at θ and ξ, and the gradient of Ĵ."""
        state = self._best(basis, xi)
        at, xi = state.at, state.xi
        slope = np.empty(len(xi)) if by_xi else None

        def see(block: Block) -> None:
            if slope is not None:
                s = block.s
                if self._tight:
                    s = tightened(s, block.remainder, quadratics(block.rows).d)
                slope[block.rows] = jaakkola_jordan_slope(xi[block.rows], block.mu, s)

        def quadratics(rows: slice) -> Quadratic:
            return self._quadratics(xi, rows)

        by_theta, _ = collapsed_gradient(
            basis,
            self._X,
            quadratics,
            at=at,
            size=self._size,
            tight=self._tight,
            see=None if slope is None else see,
        )
        gradient = {"theta": by_theta} if slope is None else {"theta": by_theta, "xi": slope}
        return state, gradient

    def _best(self, basis: Basis, xi: Array) -> State:
        """The best q at θ and ξ."""
        at = collapse(basis, self._X, lambda rows: self._quadratics(xi, rows), size=self._size, tight=self._tight)
        return State(basis, xi, at)


class FullTraining(QuadraticTraining):
    """vi-jj-full: everything at once."""

    def __init__(self, scheme: VIJJFull, *arguments: Any, **more: Any) -> None:
        super().__init__(scheme, *arguments, **more)
        self._search = LBFGSB(
            memory=scheme.memory,
            gradient_tolerance=scheme.gradient_tolerance,
            value_tolerance=scheme.value_tolerance,
        )

    def train(self) -> StoppedBy:
        """One search, begun again after a failed line search while that gains anything."""
        return self._maximise(self._search, evaluations=self.trainer.left, move_xi=True)


class ProfileTraining(QuadraticTraining):
    """The bound at the best ξ as a function of θ alone.

    An iteration is an evaluation of it; ``updates`` counts the closed-form updates of ξ that they took.
    """

    def __init__(self, scheme: VIJJ, *arguments: Any, **more: Any) -> None:
        super().__init__(scheme, *arguments, **more)
        self._search = LBFGSB(memory=scheme.memory, value_tolerance=scheme.tolerance)
        self._tangents = FixedPointSearch(damping=1.0, tolerance=SETTLED, limit=TANGENT_UPDATES, memory=6, longest=2.0)
        self._xi = self.state.xi
        self.updates = 0

    def train(self) -> StoppedBy:
        """One search, begun again after a failed line search while that gains anything."""
        if self._learns:
            return self._maximise(self._search, evaluations=self.trainer.left, move_xi=False)
        self.state, settled = self._settled(self.state.basis)
        self.trainer.report(self.state.at.value)
        return "converged" if settled else "iterations"

    def facts(self) -> dict[str, int]:
        """What the tangents took."""
        return {"tangent_updates": self.updates}

    def _best(self, basis: Basis, xi: Array) -> State:  # noqa: ARG002 - ξ settles from the one before
        return self._settled(basis)[0]

    def _settled(self, basis: Basis) -> tuple[State, bool]:
        """The best ξ and q at θ, from the ξ before; and whether (15) holds there."""
        walk = Walk(basis, self._X, size=self._size)
        at: Collapsed

        def update(log_xi: Array) -> Proposal:
            nonlocal at
            self.trainer.check()
            xi, target = np.exp(log_xi), np.empty(len(log_xi))
            pending = Pending(len(basis.Z), tight=self._tight)
            for rows, part, T, remainder in walk:
                pending.add(T, basis.kernel.diag(part), self._quadratics(xi, rows), remainder=remainder)
            at = finish(pending)
            for rows, _, T, remainder in walk:
                mu, s = at.q.marginals(T, remainder)
                if self._tight:
                    s = tightened(s, remainder, self._quadratics(xi, rows).d)
                target[rows] = 0.5 * np.log(np.maximum(np.square(mu) + s, np.square(LEAST_XI)))
            return Proposal(target, np.sqrt(-dlambda_jj(xi) * xi**3))  # a step of f in log ξ gains (w f)²

        found = self._tangents.settle(update, np.log(self._xi))
        self.updates += found.iterations
        self._xi = np.exp(found.x)
        return State(basis, self._xi, at), found.settled


class Walk:
    """Whitened features of all rows, block by block: kept where they are few, or made anew in each walk."""

    def __init__(self, basis: Basis, X: Rows, *, size: int) -> None:
        self._make = partial(features, basis, X, size=size, keep=False)
        self._kept: list[tuple[slice, Array, Array, Array]] | None = None
        if len(X) * len(basis.Z) <= KEPT:
            self._kept = [(rows, part, T.copy(order="F"), remainder) for rows, part, T, remainder in self._make()]

    def __iter__(self) -> Iterator[tuple[slice, Array, Array, Array]]:
        return iter(self._make() if self._kept is None else self._kept)


class AlternatingTraining(QuadraticTraining):
    """Algorithm 1."""

    def __init__(self, scheme: VIJJ, *arguments: Any, **more: Any) -> None:
        super().__init__(scheme, *arguments, **more)
        self._scheme = scheme
        self._mode: Mode | None = None
        self._accepted: Accepted | None = None  # of Taylor alone

    @property
    def best(self) -> State:
        """The best state so far; of Taylor where stage 1 ended last, as what stage 2 says of others may not hold."""
        return self.state if self._accepted is None else self._accepted.state

    def train(self) -> StoppedBy:
        """Both stages in turn, until the bound stands still or the evaluations are used up."""
        scheme, trainer = self._scheme, self.trainer
        q = GaussianQ(np.zeros(len(self.state.basis.Z)), self.state.basis.L_inv, "covariance")  # q(u) = N(0, I)
        while trainer.left > 0:
            before = self.state.at.value
            self._stage_1(q)
            if scheme.bound == "taylor" and not self._accepts():
                return "failed-to-improve"
            if self._learns and trainer.left > 0:
                evaluations = min(scheme.stage_evaluations, trainer.left)
                self._maximise(
                    LBFGSB(memory=scheme.memory),
                    evaluations=evaluations,
                    move_xi=scheme.variant == "hybrid",
                    jitter=self.state.basis.jitter,
                )
            q = self.state.at.q
            change = abs(self.state.at.value - before)
            if math.isfinite(change) and change <= scheme.tolerance * max(1.0, abs(before)):
                return "converged"
        return "iterations"

    def _stage_1(self, q: GaussianQ) -> None:
        """Closed-form updates: ξ from q, then the best q for ξ."""
        self._mode = None
        for _ in range(min(self._scheme.updates, self.trainer.left)):
            self.state = self._update(q) if self._scheme.bound == "jj" else self._newton(q)
            q = self.state.at.q
            self.trainer.report(self.best.at.value)

    def _accepts(self) -> bool:
        """Whether stage 1 has come to about as much as before; if not, with θ moved by a half, a quarter ... as far."""
        worth = self._worth()
        if self._accepted is None:
            self._accepted = Accepted(self.state, worth)
            return True
        before, most = self._accepted
        least = most - FALL * max(1.0, abs(most))
        basis, target, step = before.basis, self.state.basis.kernel.theta, 1.0
        while worth < least:
            step *= 0.5
            if step < 2.0**-HALVINGS:
                return False
            if self.trainer.left <= 0:
                return True
            theta = basis.kernel.theta + step * (target - basis.kernel.theta)
            moved = Basis(basis.kernel.with_theta(theta), basis.Z, jitter=basis.jitter)
            self.state = before._replace(basis=moved)
            self._stage_1(before.at.q)
            worth = self._worth()
        self._accepted = Accepted(self.state, max(worth, most))
        return True

    def _worth(self) -> float:
        """Ĵ less half of Newton's decrement |Cᵀ(v* - v)|²: the mode's objective at v, not the most of its model."""
        assert self._mode is not None, "stage 1 has set it"
        q = self.state.at.q
        return self.state.at.value - 0.5 * float(np.square(trmv(q.root, q.mean - self._mode.v, trans=True)).sum())

    def _update(self, q: GaussianQ) -> State:
        """ξ² = μ² + s (15) and the q that is best for it, (12) and (13), in one walk over the rows.

        Under the tight conditional s takes its d from the ξ before: the bound, convex in d, still cannot fall.
        """
        basis, xi = self.state.basis, np.empty(len(self._y))
        pending = Pending(len(basis.Z), tight=self._tight)
        for block in marginals(basis, self._X, q, size=self._size, keep=False):
            s = block.s
            if self._tight:
                s = tightened(s, block.remainder, self._quadratics(self.state.xi, block.rows).d)
            xi[block.rows] = np.sqrt(np.square(block.mu) + s)
            variance, row_quadratics = basis.kernel.diag(block.X), self._quadratics(xi, block.rows)
            pending.add(block.T, variance, row_quadratics, remainder=block.remainder)
        return State(basis, xi, finish(pending))

    def _newton(self, q: GaussianQ) -> State:
        """ξ = μ and the q that is best for it, (17) and (18); a shorter step where the mode's objective would fall.

        That objective is Ψ(v) = Σ log σ(y f) - ½|v|², f = T v: on the line between two v, f moves on a line too.
        """
        basis, f = self.state.basis, np.empty(len(self._y))
        for block in marginals(basis, self._X, q, size=self._size, keep=False):
            f[block.rows] = block.mu
        here = Mode(f, q.mean)
        if self._mode is not None:
            here = _towards(here, self._mode, self._y)
        self._mode = here

        def quadratics(rows: slice) -> Quadratic:
            return self._quadratics(here.f, rows)

        return State(basis, here.f, collapse(basis, self._X, quadratics, size=self._size))


def _towards(target: Mode, start: Mode, y: Array) -> Mode:
    """The first point of start + (target - start) / 2^k, k = 0, 1 ..., that is no worse than the start."""
    before = start.objective(y)
    slack = 1e-12 * abs(before)  # rounding, at the mode
    step = 1.0
    while step >= SMALLEST_STEP:
        point = Mode(*((1.0 - step) * a + step * b for a, b in zip(start, target, strict=True)))
        if point.objective(y) >= before - slack:
            return point
        step *= 0.5
    return start
