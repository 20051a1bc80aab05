"""vi-mgpc: the variational rival of villacampa2017 (section 3), with the robust-max likelihood (13).

========  ===============================================================================  ============
symbol    meaning                                                                          shape
========  ===============================================================================  ============
n, d      rows, inputs
C, M      classes, and inducing inputs of each class's latent function
X, y      rows and their classes 0..C-1                                                    (n, d), (n,)
Z^c, u^c  inducing inputs of class c and the function's values there                       (M, d), (M,)
q(u^c)    N(m, L Lᵀ); whitened: that of v, u = L_K v                                       (M,), (M, M)
θ^c       logarithms of the kernel's hyper-parameters, for each class                      (P,)
ε         share of labels that (13) takes as drawn at random                               scalar
F         the bound (15)                                                                   scalar
========  ===============================================================================  ============

F is maximised in m, L, θ and Z of all classes together, from q(u) = p(u): by L-BFGS-B on all rows, which holds θ for
the first ``hold_hyperparameters`` line searches, since at q(u) = p(u) a smaller variance is the quickest gain and
classes of few rows are given up for good (glass, M = 10 %: bound -410 and -336 for -477 and -463); or by Adam on
mini-batches, with the data term times n / b. Expectations are one-dimensional: a trapezoid rule of 100 nodes on ±10
standard deviations, as in the released code, with nodes of a row's own where one class is much narrower than another
(``adaptive``) or without; or Gauss-Hermite. Each class has its own kernel and its own Z, drawn independently. Two
classes have two latent functions, as the likelihood has it.

The paper keeps ε at 0.001, so that a confident mistake costs log(ε/C), 8 nats with three classes, in F and in the test
NLL; most of the paper's bad NLLs of VI come from there. ``learn_epsilon`` makes ε one more unknown of F, after
``hold_epsilon`` line searches: at q(u) = p(u) every class is as likely as the others, F then takes all labels for
random, and the search stays near there (vehicle, M = 5 %, five splits: NLL 0.92, and 0.54 with ε held at first).

Jitter keeps its absolute value while L-BFGS-B runs, since one that follows θ would need a gradient. A mini-batch step
that fails is taken again from the unknowns before, at half the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpbench.errors import NumericalError, UsageError
from gpbench.model.likelihoods import RobustMax
from gpbench.model.likelihoods.multiclass import RULES as QUADRATURES
from gpbench.model.posterior import Posterior
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.maximise import Point, maximise
from gpbench.optimize.steps import Adam
from gpbench.optimize.unknowns import Unknowns
from gpbench.schemes import settings
from gpbench.schemes.base import Training, run_training, setting
from gpbench.schemes.robust_max.bound import RobustMaxBound
from gpbench.schemes.settings import DIVERGED, GPSettings, held_out_batches, persist

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.model.basis import Basis
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import OnStep, StoppedBy
    from gpbench.schemes.base import Fit

__all__ = ["VIMGPC"]

EVALUATIONS, STEPS = 1000, 10_000
"""Where ``max_iterations`` is none."""
BATCH_UP_TO = 10_000
"""Rows up to which mode ``auto`` looks at all of them at each evaluation."""


@dataclass(frozen=True, kw_only=True)
class VIMGPC(GPSettings):
    """Variational inference for several classes with the robust-max likelihood."""

    mode: str = setting(
        "auto",
        "L-BFGS-B on all rows, or Adam on mini-batches; auto: batch up to 10,000 rows",
        choices=("auto", "batch", "stochastic"),
    )
    epsilon: float = setting(1e-3, "share of labels taken as random, or its first value", minimum=1e-9, maximum=0.999)
    learn_epsilon: bool = setting(False, "whether that share is learned with the hyper-parameters")
    hold_hyperparameters: int = setting(50, "batch: line searches before kernels begin to be learned", minimum=0)
    hold_epsilon: int = setting(50, "line searches, or mini-batches, before that share begins to be learned", minimum=0)
    whiten: bool = setting(True, "whether m and L parametrise q(v) of the whitened v, or q(u)")
    learn_inducing: bool = settings.learn_inducing()
    quadrature: str = setting("adaptive", "rule of the expectations", choices=QUADRATURES)
    nodes: int | None = setting(
        None, "nodes of that rule (none: 100, or 20 for hermite)", kind=int, minimum=2, maximum=1000
    )
    max_iterations: int | None = setting(
        None, "at most (none: 1000 evaluations of batch training, 10,000 mini-batches)", kind=int, minimum=1
    )
    memory: int = settings.memory()
    gradient_tolerance: float = settings.gradient_tolerance()
    value_tolerance: float = settings.value_tolerance()
    block_rows: int = settings.block_rows()
    batch_size: int = settings.batch_size(200)
    rate: float = setting(0.01, "stochastic: rate of Adam", minimum=1e-6, maximum=1.0)
    stop: str = settings.stop()
    tolerance: float = settings.held_out_tolerance()
    validation: int = settings.validation()

    name: ClassVar[str] = "vi-mgpc"

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The robust-max likelihood (13).

        Raises
        ------
        UsageError
            The task is no classification.
        """
        if task not in RobustMax.tasks or n_classes < 2:
            raise UsageError(f"{self.name} does classification; got task {task} with {n_classes} classes")
        nodes = self.nodes or (20 if self.quadrature == "hermite" else 100)
        return RobustMax(self.epsilon, self.quadrature, nodes)

    def fit(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
        on_step: OnStep,
    ) -> Fit:
        """Train; see :class:`gpbench.schemes.base.Scheme`."""
        if not isinstance(likelihood, RobustMax) or likelihood.epsilon == 0.0:
            raise UsageError(f"{self.name} needs the likelihood robust-max with epsilon > 0; got {likelihood.spec()}")
        likelihood.check_targets(y, classes)

        def start() -> RobustMaxTraining:
            Z = [inducing.for_latent(c).choose(X) for c in range(classes)]
            bound = RobustMaxBound(self.initial_kernel(X), likelihood, Z=Z, whitened=self.whiten, size=self.block_rows)
            if self.mode == "batch" or (self.mode == "auto" and len(X) <= BATCH_UP_TO):
                return BatchTraining(self, bound, X, y, classes=classes)
            return StochasticTraining(self, bound, X, y, classes=classes, rng=rng)

        return run_training(self.name, start, on_step)


class RobustMaxTraining(Training):
    """What both ways of training share."""

    def __init__(self, scheme: VIMGPC, bound: RobustMaxBound, X: Rows, y: Labels, *, classes: int, limit: int) -> None:
        super().__init__(limit=scheme.max_iterations or limit)
        self._scheme, self._bound, self._X, self._y, self._classes = scheme, bound, X, np.asarray(y), classes
        self._moves = [*bound.names("m"), *bound.names("L")]
        kernel = (bound.names("theta") if scheme.hyperparameters == "learned" else []) + (
            bound.names("Z") if scheme.learn_inducing else []
        )
        self._kernel_moves = bool(kernel)
        self._moves += kernel
        self._unknowns = Unknowns(**bound.parts())
        self._at = self._unknowns.values(self._unknowns.x)
        self._bases = bound.bases(self._at)

    def posterior(self) -> Posterior:
        """The posterior that training has come to."""
        at, bases = self._at, self._bases
        return Posterior(self._bound.latents(at, bases), self._bound.likelihood(at), classes=self._classes)

    def facts(self) -> dict[str, float]:
        """The share ε at the end."""
        return {"epsilon": self._bound.likelihood(self._at).epsilon}


class BatchTraining(RobustMaxTraining):
    """L-BFGS-B on all rows; keeps the best unknowns so far."""

    unit = "evaluation"

    def __init__(self, scheme: VIMGPC, bound: RobustMaxBound, X: Rows, y: Labels, *, classes: int) -> None:
        super().__init__(scheme, bound, X, y, classes=classes, limit=EVALUATIONS)
        self._value = -math.inf

    def train(self) -> StoppedBy:
        """Searches in which kernels or ε are held, and one in which all moves that is learned."""
        scheme = self._scheme
        search = LBFGSB(
            memory=scheme.memory,
            gradient_tolerance=scheme.gradient_tolerance,
            value_tolerance=scheme.value_tolerance,
        )
        names = [*self._moves, "rho"] if scheme.learn_epsilon else self._moves
        held = {"rho": scheme.hold_epsilon}
        held |= dict.fromkeys(self._bound.names("theta"), scheme.hold_hyperparameters)
        done = 0
        for until in sorted({held[name] for name in names if name in held}):
            if until > done and self.trainer.left > 0:
                moving = [name for name in names if held.get(name, 0) <= done]
                self._maximise(replace(search, max_iterations=until - done), moving)
                done = until
        return self._maximise(search, names) if self.trainer.left > 0 else "iterations"

    def bound(self) -> float | None:
        """The bound of the best unknowns."""
        return self._value if math.isfinite(self._value) else None

    def _maximise(self, search: LBFGSB, names: Sequence[str]) -> StoppedBy:
        """Search over the unknowns of these names, from the best so far."""
        free, held = self._unknowns.freeing(names), self._bases
        kernel_moves = any(name.startswith(("theta", "Z")) for name in names)

        def begin(x: Array) -> None:
            nonlocal held
            held = self._bound.bases(free.values(x))  # new jitters

        def objective(x: Array) -> Point[tuple[dict[str, Array], list[Basis]]]:
            at = free.values(x.copy())
            bases = held
            if kernel_moves:
                bases = self._bound.bases(at, jitters=[basis.jitter for basis in held])
            value, gradient = self._bound.at(at, self._X, self._y, bases=bases, kernel_gradient=kernel_moves)
            return Point(value, free.gradient(gradient), (at, bases))

        def evaluated(state: tuple[dict[str, Array], list[Basis]], value: float) -> None:
            (self._at, self._bases), self._value = state, value
            self.trainer.report(value)

        found = maximise(
            objective,
            free.x,
            search=search,
            evaluations=lambda: self.trainer.left,
            bounds=free.bounds,
            begin=begin,
            on_evaluation=evaluated,
        )
        self._unknowns = free.at(found.x)
        return found.stopped_by


class StochasticTraining(RobustMaxTraining):
    """Adam on mini-batches."""

    def __init__(
        self,
        scheme: VIMGPC,
        bound: RobustMaxBound,
        X: Rows,
        y: Labels,
        *,
        classes: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(scheme, bound, X, y, classes=classes, limit=STEPS)
        self._rng, self.rate = rng, scheme.rate
        self._unknowns = self._unknowns.freeing([*self._moves, "rho"] if scheme.learn_epsilon else self._moves)
        self._x = self._before = self._unknowns.x
        self._bounds = self._unknowns.bounds
        self._adam = Adam(self._unknowns.size)

    def train(self) -> StoppedBy:
        """Step until the rule says so or the iterations are used up."""
        scheme, trainer = self._scheme, self.trainer
        batches = held_out_batches(self, scheme, self._X, self._y, rng=self._rng)
        while trainer.running:
            rows = batches.draw()
            self._step(self._X[rows], self._y[rows], scale=batches.scale)
            trainer.report()
        return trainer.stopped_by

    def posterior(self) -> Posterior:
        """The posterior of the unknowns now."""
        self._bases = self._bound.bases(self._at)
        return super().posterior()

    def _step(self, X: Array, y: Labels, *, scale: float) -> None:
        """One step on a batch X (b, d), y (b,), with ζ = ``scale``."""

        def step_back() -> None:
            self.rate *= 0.5
            self._take(self._before)
            self._adam = Adam(self._unknowns.size)
            self._bases = self._bound.bases(self._at)

        persist(lambda: self._try_step(X, y, scale=scale), step_back=step_back)

    def _try_step(self, X: Array, y: Labels, *, scale: float) -> None:
        """A step that leaves the unknowns as they were if it fails."""
        if self._kernel_moves:
            self._bases = self._bound.bases(self._at)
        _, by_part = self._bound.at(self._at, X, y, bases=self._bases, scale=scale, kernel_gradient=self._kernel_moves)
        if self.trainer.count < self._scheme.hold_epsilon:
            by_part["rho"][:] = 0.0
        moved = self._x + self._adam.step(self._unknowns.gradient(by_part), rate=self.rate)
        largest = np.abs(moved).max()
        if not largest < DIVERGED:  # also catches NaN
            raise NumericalError(f"a step led to unknowns of size {largest:.3g}")
        before = self._x
        self._take(np.clip(moved, *self._bounds))
        self._before = before

    def _take(self, x: Array) -> None:
        self._x, self._at = x, self._unknowns.values(x)
