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
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.kl_bound_old import KLBound
from gpbench.model.latent import Latent
from gpbench.model.posterior import Posterior
from gpbench.optimize.adadelta import AdaDelta
from gpbench.optimize.adam import Adam
from gpbench.schemes.base import setting
from gpbench.schemes.batch_settings import LOG_BOUND
from gpbench.schemes.general.climb import estimated
from gpbench.schemes.general.hyper import HyperSettings, free_box
from gpbench.schemes.general.laplace import laplace_mode
from gpbench.schemes.minibatch_training import persist, train_by_minibatches
from gpbench.schemes.stochastic_settings import MinibatchSettings

if TYPE_CHECKING:
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.schemes.base import OnStep
    from gpbench.schemes.general.observation import Observation
    from gpbench.schemes.general.settings import ActiveSet

__all__ = ["GVISGD"]

DIVERGED = 1e50
"""Parameters of this size have finite squares, but mean nothing."""
FALLEN = 100.0
"""F is lost where it is so many times below the lowest of the first batches."""
KEPT_EVERY = 100
"""Steps between the states that are kept to go back to."""
RETRIES = 10
"""Times that the rate is halved before a failure is final."""


@dataclass(frozen=True, kw_only=True)
class GVISGD(MinibatchSettings, HyperSettings):
    """Mini-batch maximisation of the bound over q, and over hyper-parameters if they are learned."""

    batch_size: int = setting(200, "rows in a mini-batch", minimum=1)
    max_iterations: int = setting(10_000, "iterations at most", minimum=1)
    rows: str = setting("all", "rows to train on", choices=("all",))
    optimizer: str = setting("adam", "rule of the steps", choices=("adadelta", "adam"))
    rate: float | None = setting(
        None, "rate of the steps (none: 0.1 for AdaDelta, 0.01 for Adam)", kind=float, minimum=1e-9, maximum=100.0
    )
    freeze_iterations: int = setting(200, "first steps, in which q alone moves", minimum=0)

    name: ClassVar[str] = "gvi-sgd"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        active: ActiveSet,
        observation: Observation,
        classes: int,
        rng: np.random.Generator,
    ) -> Run:
        """A training run at its beginning."""
        return Run(self, X, y, active=active, observation=observation, classes=classes, rng=rng)


class _Tally:
    """An observation as the bound sees it: f without c. Remembers what the gradient in φ needs of the last batch."""

    def __init__(self, observation: Observation) -> None:
        self.observation = observation
        self._last: tuple[Labels, Array, Array, float] | None = None

    def expectations(self, y: Labels, mu: Array, var: Array) -> tuple[Array, Array, Array]:
        e, g, h = self.observation.likelihood.expectations(y, mu + self.observation.mean, var)
        self._last = y, mu, var, float(g.sum())
        return e, g, h

    def gradient(self) -> Array:
        assert self._last is not None
        y, mu, var, total = self._last
        return self.observation.free_gradient(y, mu, var, by_mean=total)


class Run:
    """Training of one posterior.

    Attributes
    ----------
    iteration : int
    stopped_by : str
        ``converged`` or ``iterations``; ``on_step`` while neither is the case.
    rate : float
        Of the steps.
    """

    def __init__(
        self,
        settings: GVISGD,
        X: Rows,
        y: Labels,
        *,
        active: ActiveSet,
        observation: Observation,
        classes: int,
        rng: np.random.Generator,
    ) -> None:
        self.iteration, self.stopped_by = 0, "on_step"
        self._settings, self._X, self._y, self._rng, self._classes = settings, X, np.asarray(y), rng, classes
        kernel = settings.initial_kernel(X)
        if settings.hyperparameters == "active-laplace":
            kernel, observation = estimated(settings, kernel, observation, active)
        self._tally = _Tally(observation)
        M, d = active.Z.shape
        self._bound = KLBound(kernel, self._tally, whitened=True, M=M, d=d, size=settings.batch_size)
        begin = self._bound.start(active.Z)
        self._basis = self._bound.batch_basis(begin)
        if active.y is not None:
            basis = self._bound.basis(begin)
            q = laplace_mode(basis, observation, active.y).q(basis)
            parts = self._bound.layout.split(begin)
            parts.m[:], parts.L[:] = q.m_w, q.covariance_root()
        self._k = len(observation.free)
        self.x = np.concatenate([begin, observation.free])
        self._moves, self._low, self._high = self._box(observation)
        default = 0.1 if settings.optimizer == "adadelta" else 0.01
        self.rate = default if settings.rate is None else settings.rate
        self._begin_steps()
        self._older = self._newer = self.x.copy()
        self._lowest = -float(len(X))  # a nat a row at the least

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"iteration {self.iteration}"

    def train(self, on_step: OnStep) -> None:
        """Step until the rule says so or the iterations are used up.

        Raises
        ------
        NumericalError
            A step failed past every remedy.
        StopTraining
            From ``on_step``, between two iterations.
        """
        settings = self._settings
        self.stopped_by = train_by_minibatches(
            self, settings, self._X, self._y, limit=settings.max_iterations, rng=self._rng, on_step=on_step
        )

    def step(self, X: Array, y: Labels, *, scale: float) -> None:
        """One step on a batch X (b, d), y (b,), with ζ = ``scale``.

        Raises
        ------
        NumericalError
            It failed past every remedy.
        """
        if self.iteration % KEPT_EVERY == 0:  # the newer one may already be on its way out
            self._older, self._newer = self._newer, self.x.copy()

        def step_back() -> None:
            self.rate *= 0.5
            self.x, self._newer = self._older.copy(), self._older
            self._place()
            self._begin_steps()

        persist(lambda: self._try_step(X, y, scale=scale), step_back=step_back, tries=RETRIES)
        self.iteration += 1

    def posterior(self) -> Posterior:
        """The posterior of this moment."""
        x, observation = self.x[: self._bound.layout.size], self._tally.observation
        basis = self._bound.basis(x)
        parts = self._bound.layout.split(x)
        facts = {
            "iterations": self.iteration,
            "stopped_by": self.stopped_by,
            "jitter": basis.jitter,
            "rate": self.rate,
            "hyperparameters": {**basis.kernel.values(), **observation.values()},
        }
        latent = Latent(
            basis.kernel,
            basis.Z,
            m_w=parts.m,
            root=parts.L,
            form="covariance",
            jitter=basis.jitter,
            mean=observation.mean,
        )
        return Posterior((latent,), observation.likelihood, classes=self._classes, facts=facts)

    def _box(self, observation: Observation) -> tuple[Array, Array, Array]:
        """1 for what moves besides q, and least and largest values, all of w's length."""
        layout = self._bound.layout
        low, high, moves = free_box(observation, self._y, learn_slope=self._settings.learn_slope)
        all_moves = np.concatenate([np.zeros(layout.size), moves.astype(np.float64)])
        all_moves[layout.theta] = 1.0
        all_low, all_high = np.full(layout.size, -np.inf), np.full(layout.size, np.inf)
        all_low[layout.theta], all_high[layout.theta] = -LOG_BOUND, LOG_BOUND
        return all_moves, np.concatenate([all_low, low]), np.concatenate([all_high, high])

    def _begin_steps(self) -> None:
        size = len(self.x)
        self._adam = Adam(size) if self._settings.optimizer == "adam" else None
        self._adadelta = AdaDelta(size, rate=self.rate)

    def _try_step(self, X: Array, y: Labels, *, scale: float) -> None:
        """A step; may leave w anywhere if it fails."""
        settings, size, bound = self._settings, self._bound.layout.size, self._bound
        moves = settings.hyperparameters == "learned" and self.iteration >= settings.freeze_iterations
        if self._adam is None:
            self.x += self._adadelta.look_ahead()
            if moves:
                self._place()
        at = bound.at_batch(self.x[:size], X, y, basis=self._basis, scale=scale, kernel_gradient=moves)
        if not at.value >= FALLEN * self._lowest and self.iteration >= KEPT_EVERY:
            raise NumericalError(
                f"steps led to a bound of {at.value:.3g} on a batch; expected {self._lowest:.3g} or so"
            )
        if self.iteration < KEPT_EVERY:
            self._lowest = min(self._lowest, at.value)
        gradient = np.concatenate([at.gradient, scale * self._tally.gradient() if moves else np.zeros(self._k)])
        gradient[bound.layout.q_size :] *= self._moves[bound.layout.q_size :]
        step = self._adadelta.step(gradient) if self._adam is None else self._adam.step(gradient, rate=self.rate)
        self.x += step
        np.clip(self.x, self._low, self._high, out=self.x)
        largest = np.abs(self.x).max()
        if not largest < DIVERGED:  # also catches NaN
            raise NumericalError(f"a step led to parameters of size {largest:.3g}")
        if moves:
            self._place()

    def _place(self) -> None:
        """Bring basis and observation to where w is."""
        size = self._bound.layout.size
        self._basis = self._bound.batch_basis(self.x[:size])
        self._tally.observation = self._tally.observation.with_free(self.x[size:])
