"""gvi-sgd: the bound for any likelihood on mini-batches (Sheth, Wang and Khardon 2015, end of section 5).

========  ================================================================================  ==========
symbol    meaning                                                                           shape
========  ================================================================================  ==========
X, y      a mini-batch of b rows and their targets                                          (b, d), (b,)
ζ         n / b, scales a batch to all rows                                                 scalar
q(v)      N(m, L Lᵀ), u = c + L_K v                                                         (M,), (M, M)
θ, φ      logarithms of the kernel's hyper-parameters; constant mean c and the              (P,), (k,)
          likelihood's parameters
w         (m, L, θ, φ) in one vector; Z stays
F         the bound (2) with its data term from a batch, times ζ                            scalar
========  ================================================================================  ==========

One iteration: the gradient of F at w on one batch, and a step of AdaDelta or Adam. For the first
``freeze_iterations`` steps θ and φ stay. The paper says that SGD works on its bound, with mini-batches of 200, that it
is fast at first, and that it levels off short of the optimum; it gives no rule for the steps. Where steps have led away
without bounds, or to a K_mm without a factor, w goes back to where it was 100 to 200 steps before, and the rule starts
afresh at half the rate. Counts need this: their rate is an exponential, and a row that a batch has not shown for long
can come to have a rate beyond all numbers (Adam at 0.01 on BlogFeedback, after 2,000 steps).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.basis import Basis
from gpbench.model.gaussian import GaussianQ
from gpbench.model.kl_bound import BoundAt, KLBound
from gpbench.model.posterior import Latent, Posterior
from gpbench.optimize.maximise import LOG_BOUND
from gpbench.optimize.unknowns import Unknowns
from gpbench.schemes import settings as shared
from gpbench.schemes.base import StopTraining, Training, setting
from gpbench.schemes.general import settings
from gpbench.schemes.general.laplace import laplace_mode
from gpbench.schemes.general.settings import ActiveSet, GeneralScheme
from gpbench.schemes.general.training import State, maximise_evidence
from gpbench.schemes.settings import DIVERGED, GPSettings, held_out_batches, persist

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import StoppedBy
    from gpbench.schemes.general.settings import Observation

__all__ = ["GVISGD"]

FALLEN = 100.0
"""F is lost where it is so many times below the lowest of the first batches."""
KEPT_EVERY = 100
"""Steps between the states that are kept to go back to."""


@dataclass(frozen=True, kw_only=True)
class GVISGD(GeneralScheme, GPSettings):
    """Mini-batch maximisation of the bound over q, and over hyper-parameters if they are learned."""

    edges: str | None = settings.edges()
    slope: float = settings.slope()
    learn_slope: bool = settings.learn_slope()
    nodes: int = settings.nodes()
    batch_size: int = shared.batch_size(200)
    max_iterations: int = shared.max_iterations(10_000)
    optimizer: str = shared.step_rule("adam")
    rate: float | None = shared.step_rate()
    freeze_iterations: int = setting(200, "first steps, in which q alone moves", minimum=0)
    stop: str = shared.stop()
    tolerance: float = shared.held_out_tolerance()
    validation: int = shared.validation()

    name: ClassVar[str] = "gvi-sgd"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
    ) -> GVISGDTraining:
        """Training at its beginning."""
        active = ActiveSet.choose(inducing, X, y)
        seen = active.targets if self.hyperparameters == "active-laplace" else np.asarray(y)
        observation = self.observation(likelihood, seen, classes)
        return GVISGDTraining(self, X, y, active=active, observation=observation, classes=classes, rng=rng)


class _LastBatch:
    """An observation as the bound sees it, that moves; remembers what its gradient needs of the last batch."""

    def __init__(self, observation: Observation) -> None:
        self.observation = observation
        self._last: tuple[Labels, Array, Array, float] | None = None

    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:
        e, g, h = self.observation.expectations(y, mu, var)
        self._last = y, mu, var, float(g.sum())
        return e, g, h

    def gradient(self) -> Array:
        """Of the sum of the last expectations in φ, shape (k,)."""
        assert self._last is not None
        y, mu, var, by_mean = self._last
        own = self.observation.likelihood.free_gradient(y, mu + self.observation.mean, var)
        return self.observation.gradient(by_mean=by_mean, own=own)


class GVISGDTraining(Training):
    """Steps of a rule on w, from one batch to the next.

    Attributes
    ----------
    rate : float
        Of the steps.
    unknowns : Unknowns
        m, L, theta, and the entries of φ, by name; Z stays.
    w : (k,)
        Those that move.
    """

    rate: float
    unknowns: Unknowns
    w: Array
    _basis: Basis
    _newer: Array
    _older: Array

    def __init__(
        self,
        scheme: GVISGD,
        X: Rows,
        y: Labels,
        *,
        active: ActiveSet,
        observation: Observation,
        classes: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(limit=scheme.max_iterations)
        self._scheme, self._X, self._y, self._active = scheme, X, np.asarray(y), active
        self._classes, self._rng = classes, rng
        self._learns = scheme.hyperparameters == "learned"
        self.rate = shared.STEP_RATES[scheme.optimizer] if scheme.rate is None else scheme.rate
        self._lowest = -float(len(X))  # a nat a row at the least
        self._begin(scheme.initial_kernel(X), observation)

    def train(self) -> StoppedBy:
        """Estimate what is asked for, then step until the rule says so or the iterations are used up."""
        scheme, trainer = self._scheme, self.trainer
        if scheme.hyperparameters == "active-laplace":
            self._estimate()
        batches = held_out_batches(self, scheme, self._X, self._y, rng=self._rng)
        while trainer.running:
            rows = batches.draw()
            self.step(self._X[rows], self._y[rows], scale=batches.scale)
        return trainer.stopped_by

    def step(self, X: Array, y: Labels, *, scale: float) -> None:
        """One step on a batch X (b, d), y (b,), with ζ = ``scale``, and word of it.

        Raises
        ------
        NumericalError
            It failed past every remedy.
        StopTraining
            From ``on_step``.
        """
        if self.trainer.count % KEPT_EVERY == 0:  # the newer one may already be on its way out
            self._older, self._newer = self._newer, self.w.copy()

        def step_back() -> None:
            self.rate *= 0.5
            self.w, self._newer = self._older.copy(), self._older
            self.bind()
            self._begin_steps()

        persist(lambda: self._try_step(X, y, scale=scale), step_back=step_back)
        self.trainer.report()

    def gradient(self, X: Array, y: Labels, *, scale: float, of_hyper: bool = True) -> BoundAt:
        """F at w on a batch X (b, d), y (b,), with ζ = ``scale``, and its gradients in the parts of w by name.

        Parameters
        ----------
        X, y, scale
        of_hyper : bool
            Whether those in θ and φ are wanted, too.
        """
        at = self._bound.at_batch(
            self.unknowns.values(self.w), X, y, basis=self._basis, scale=scale, kernel_gradient=of_hyper
        )
        if not of_hyper:
            return at
        return BoundAt(at.value, at.gradient | self._seen.observation.named(scale * self._seen.gradient()))

    def bind(self) -> None:
        """Bring basis and observation to where w is; to be called when its θ or φ have moved."""
        values = self.unknowns.values(self.w)
        self._basis = self._bound.basis(values, inverse=False)
        self._seen.observation = self._seen.observation.moved(values)

    def posterior(self) -> Posterior:
        """The posterior that training has come to."""
        observation = self._seen.observation
        q = self._bound.q(self.unknowns.values(self.w), self._basis)
        latent = Latent.of(self._basis, q, mean=observation.mean)
        return Posterior((latent,), observation.likelihood, classes=self._classes)

    def facts(self) -> dict[str, Any]:
        """Hyper-parameters, and the rate at the end."""
        values = {**self._basis.kernel.values(), **self._seen.observation.values()}
        return {"hyperparameters": values, "rate": self.rate}

    def _estimate(self) -> None:
        """Begin at the hyper-parameters that maximise Laplace's marginal likelihood on the active set."""
        scheme, active, modes = self._scheme, self._active, 0
        basis = Basis(self._basis.kernel, active.rows)
        best = State(basis, self._seen.observation, GaussianQ.prior(len(active.rows)))

        def count(_: State) -> None:
            nonlocal modes
            modes += 1

        def keep(state: State) -> None:
            nonlocal best
            best = state

        try:
            maximise_evidence(
                scheme,
                best,
                active.targets,
                evaluations=lambda: scheme.max_iterations - modes,
                check=self.trainer.check,
                on_iteration=count,
                on_better=keep,
            )
        except StopTraining:
            self._begin(best.basis.kernel, best.observation)
            raise
        self._begin(best.basis.kernel, best.observation)

    def _begin(self, kernel: Kernel, observation: Observation) -> None:
        """Where the steps begin: Laplace's approximation on the active set, or the prior where Z holds no rows."""
        scheme, active = self._scheme, self._active
        self._seen = _LastBatch(observation)
        self._bound = KLBound(kernel, self._seen, size=scheme.batch_size)
        phi = scheme.parts(observation, self._y)
        own = Unknowns.of(self._bound.start(active.Z), limits={"theta": LOG_BOUND}).parts
        self.unknowns = Unknowns(**own, **phi).freeing(["m", "L", *(["theta", *phi] if self._learns else [])])
        self.w, self._box = self.unknowns.x, self.unknowns.bounds
        self.bind()
        if active.y is not None:
            q = laplace_mode(self._basis, observation, active.y).q(self._basis)
            values = self.unknowns.values(self.w)
            values["m"][:], values["L"][:] = q.mean, q.covariance_root()
        self._older = self._newer = self.w.copy()
        self._begin_steps()

    def _begin_steps(self) -> None:
        self._steps = shared.steps_of(self._scheme.optimizer, len(self.w), rate=self.rate)

    def _try_step(self, X: Array, y: Labels, *, scale: float) -> None:
        """A step; may leave w anywhere if it fails."""
        count = self.trainer.count
        moves = self._learns and count >= self._scheme.freeze_iterations
        ahead = self._steps.look_ahead()
        if ahead is not None:
            self.w += ahead
            if moves:
                self.bind()
        at = self.gradient(X, y, scale=scale, of_hyper=moves)
        if not at.value >= FALLEN * self._lowest and count >= KEPT_EVERY:
            raise NumericalError(
                f"steps led to a bound of {at.value:.3g} on a batch; expected {self._lowest:.3g} or so"
            )
        if count < KEPT_EVERY:
            self._lowest = min(self._lowest, at.value)
        self.w += self._steps.step(self.unknowns.gradient(at.gradient))
        np.clip(self.w, *self._box, out=self.w)
        largest = np.abs(self.w).max()
        if not largest < DIVERGED:  # also catches NaN
            raise NumericalError(f"a step led to parameters of size {largest:.3g}")
        if moves:
            self.bind()
