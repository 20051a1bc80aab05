"""klsp-sgd: the sparse KL method on mini-batches (Hensman, Matthews and Ghahramani 2015), and svi-adadelta, its preset.

========  ===============================================================================  ==========
symbol    meaning                                                                          shape
========  ===============================================================================  ==========
n, d, M   rows, inputs, inducing inputs
X, y      a mini-batch of b rows and their classes 0 or 1                                  (b, d), (b,)
ζ         n / b, scales a batch to all rows                                                scalar
q(u)      N(m, L Lᵀ); whitened: that of v, u = L_K v                                       (M,), (M, M)
θ, Z      logarithms of the kernel's hyper-parameters; inducing inputs                     (P,), (M, d)
w         (m, L, θ, Z) in one vector                                                       (size,)
F         the bound (21) with its data term from a batch, times ζ                          scalar
========  ===============================================================================  ==========

One iteration: the gradient of F at w on one batch (:mod:`gpbench.model.kl_bound`), and a step of AdaDelta, as the paper
has it, or of Adam, on all of w at once. For the first ``freeze_iterations`` steps θ and Z stay, as in its authors'
scripts.

izmailov2016's svi-AdaDelta is the same on (11), unwhitened, with the logit and fixed Z. Its step follows the loss of a
batch, F times b/n (``objective`` batch), which AdaDelta's offset makes matter, and its rate comes from a grid 0.1, 0.2
...: here each is tried for ``grid_iterations`` steps, and the one with the least NLL on a validation part of the
training rows is taken for a fresh start on all of them.

A step that leads to a K_mm without a factor, or away without bounds, is taken back, and the optimiser starts
afresh at half the rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.kl_bound import KLBound
from gpbench.model.posterior import Posterior
from gpbench.optimize.adadelta import AdaDelta
from gpbench.optimize.adam import Adam
from gpbench.optimize.minibatch import Minibatches, hold_out
from gpbench.schemes.base import OnStep, setting
from gpbench.schemes.batch_settings import LOG_BOUND
from gpbench.schemes.minibatch_training import persist, take_step, train_by_minibatches
from gpbench.schemes.stochastic_settings import LEAST_ROWS, StochasticSettings, held_out_nll

if TYPE_CHECKING:
    from gpbench.model.batch import BatchBasis
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["KLSpSGD"]

DIVERGED = 1e50
"""Parameters of this size have finite squares, but mean nothing."""
RETRIES = 10
"""Times that the rate is halved before a failure is final."""


@dataclass(frozen=True, kw_only=True)
class KLSpSGD(StochasticSettings):
    """Mini-batch maximisation of the sparse KL bound over everything at once."""

    link: str = setting("probit", "link function", choices=("probit", "logit"))
    whiten: bool = setting(True, "whether m and L parametrise q(v) of the whitened v, or q(u)")
    learn_inducing: bool = setting(True, "whether the inducing inputs are optimised")
    freeze_iterations: int = setting(200, "first steps, in which q alone moves", minimum=0)
    optimizer: str = setting("adadelta", "rule of the steps", choices=("adadelta", "adam"))
    rate: float | None = setting(
        None, "rate of the steps (none: 0.1 for AdaDelta, 0.01 for Adam)", kind=float, minimum=1e-9, maximum=100.0
    )
    momentum: float = setting(0.9, "AdaDelta: momentum", minimum=0.0, maximum=0.999)
    decay: float = setting(0.9, "AdaDelta: decay of the running means", minimum=0.0, maximum=0.999999)
    offset: float = setting(1e-4, "AdaDelta: offset of the running means", minimum=1e-12, maximum=1.0)
    objective: str = setting("rows", "F for all rows, or for a batch (F times b/n)", choices=("rows", "batch"))
    rate_grid: int = setting(0, "rates 0.1, 0.2 ... that are tried first; 0: rate is taken", minimum=0, maximum=100)
    grid_iterations: int = setting(200, "steps for each of these (all: half of the iterations at most)", minimum=1)

    name: ClassVar[str] = "klsp-sgd"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        rng: np.random.Generator,
    ) -> Run:
        """A training run at its beginning."""
        return Run(self, X, y, Z=inducing.choose(X), likelihood=likelihood, rng=rng)


class _Optimizer(Protocol):
    def look_ahead(self) -> Array | None: ...
    def step(self, gradient: Array) -> Array: ...


class _Adam:
    """Adam behind AdaDelta's two calls."""

    def __init__(self, size: int, *, rate: float) -> None:
        self._adam, self._rate = Adam(size), rate

    def look_ahead(self) -> None:
        return None

    def step(self, gradient: Array) -> Array:
        return self._adam.step(gradient, rate=self._rate)


class Run:
    """Training of one posterior.

    Attributes
    ----------
    iteration : int
        Steps so far, those of the grid included.
    stopped_by : str
        ``converged`` or ``iterations``; ``on_step`` while neither is the case.
    rate : float
        Of the steps.
    x : (size,)
        The unknowns w.
    """

    def __init__(
        self, settings: KLSpSGD, X: Rows, y: Labels, *, Z: Array, likelihood: Likelihood, rng: np.random.Generator
    ) -> None:
        self.iteration, self.stopped_by = 0, "on_step"
        self._settings, self._X, self._y, self._likelihood, self._rng = settings, X, np.asarray(y), likelihood, rng
        kernel = settings.initial_kernel(X)
        self._bound = KLBound(
            kernel, likelihood, whitened=settings.whiten, M=len(Z), d=Z.shape[1], size=settings.batch_size
        )
        self._begin = self._bound.start(Z)
        self._learns = settings.hyperparameters == "learned" or settings.learn_inducing
        default = 0.1 if settings.optimizer == "adadelta" else 0.01
        self.rate = default if settings.rate is None else settings.rate
        self.x = self._good = self._begin
        self._basis: BatchBasis | None = None
        self._steps = 0
        self._start(self.rate)

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"iteration {self.iteration}"

    def train(self, on_step: OnStep) -> None:
        """Choose the rate where there is a grid, then step until the rule says so or the iterations are used up.

        Raises
        ------
        NumericalError
            A step failed past every remedy.
        StopTraining
            From ``on_step``, between two iterations.
        """
        settings = self._settings
        if settings.rate_grid > 0 and len(self._X) >= LEAST_ROWS:
            self._start(self._best_rate(on_step))
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

        def step_back() -> None:
            self.rate *= 0.5
            self.x, self._basis = self._good, None
            self._optimizer = self._fresh_optimizer()

        persist(lambda: self._try_step(X, y, scale=scale), step_back=step_back, tries=RETRIES)
        self._steps += 1
        self.iteration += 1

    def posterior(self) -> Posterior:
        """The posterior of this moment."""
        basis = self._bound.basis(self.x)
        facts = {
            "iterations": self.iteration,
            "stopped_by": self.stopped_by,
            "jitter": basis.jitter,
            "rate": self.rate,
            "hyperparameters": basis.kernel.values(),
        }
        return Posterior((self._bound.latent(self.x, basis),), self._likelihood, classes=2, facts=facts)

    def _start(self, rate: float) -> None:
        """Go back to the beginning, with a rate."""
        self.rate, self.x, self._steps = rate, self._begin.copy(), 0
        self._good = self.x
        self._basis = None
        self._optimizer = self._fresh_optimizer()

    def _fresh_optimizer(self) -> _Optimizer:
        settings, size = self._settings, self._begin.size
        if settings.optimizer == "adam":
            return _Adam(size, rate=self.rate)
        return AdaDelta(size, rate=self.rate, decay=settings.decay, momentum=settings.momentum, offset=settings.offset)

    def _best_rate(self, on_step: OnStep) -> float:
        """The rate of the grid with the least NLL on a validation part of the training rows."""
        settings, n = self._settings, len(self._X)
        rows = hold_out(n, min(settings.validation, n // 10), rng=self._rng)
        batches = Minibatches(n, settings.batch_size, rng=self._rng, without=rows)
        steps = min(settings.grid_iterations, max(1, settings.max_iterations // (2 * settings.rate_grid)))
        losses = {}
        for rate in (0.1 * k for k in range(1, settings.rate_grid + 1)):
            self._start(rate)
            for _ in range(steps):
                take_step(self, batches, self._X, self._y, on_step=on_step)
            losses[rate] = held_out_nll(self.posterior(), self._X, self._y, rows)
        return min(losses, key=lambda rate: losses[rate])

    def _try_step(self, X: Array, y: Labels, *, scale: float) -> None:
        """A step that leaves the unknowns as they were if it fails.

        Where theta and Z move, the next step binds the kernel anew, at its own look-ahead; what the posterior needs is
        made when it is asked for.
        """
        moves = self._learns and self._steps >= self._settings.freeze_iterations
        ahead = self._optimizer.look_ahead()
        x = self.x if ahead is None else self.x + ahead
        basis = self._bound.batch_basis(x) if moves or self._basis is None else self._basis
        gradient = self._bound.at_batch(x, X, y, basis=basis, scale=scale, kernel_gradient=moves).gradient
        parts = self._bound.layout.split(gradient)
        if self._settings.hyperparameters == "fixed":
            parts.theta[:] = 0.0
        if not self._settings.learn_inducing:
            parts.Z[:] = 0.0
        if self._settings.objective == "batch":
            gradient /= scale
        good, x = x, x + self._optimizer.step(gradient)
        largest = np.abs(x).max()
        if not largest < DIVERGED:  # also catches NaN
            raise NumericalError(f"a step led to parameters of size {largest:.3g}")
        theta = x[self._bound.layout.theta]
        np.clip(theta, -LOG_BOUND, LOG_BOUND, out=theta)
        self._good, self.x = good, x
        self._basis = None if moves else basis
