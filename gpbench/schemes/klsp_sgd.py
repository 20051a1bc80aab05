"""klsp-sgd: the sparse KL method on mini-batches (Hensman, Matthews and Ghahramani 2015), and svi-adadelta, its preset.

========  ===============================================================================  ==========
symbol    meaning                                                                          shape
========  ===============================================================================  ==========
n, d, M   rows, inputs, inducing inputs
X, y      a mini-batch of b rows and their classes 0 or 1                                  (b, d), (b,)
ζ         n / b, scales a batch to all rows                                                scalar
q(u)      N(m, L Lᵀ); whitened: that of v, u = L_K v                                       (M,), (M, M)
θ, Z      logarithms of the kernel's hyper-parameters; inducing inputs                     (P,), (M, d)
w         (m, L, θ, Z), those that move, in one vector                                     (k,)
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
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from gpbench.errors import NumericalError
from gpbench.model.kl_bound import KLBound
from gpbench.model.posterior import Latent, Posterior
from gpbench.optimize.maximise import LOG_BOUND
from gpbench.optimize.training import Minibatches, hold_out
from gpbench.optimize.unknowns import Unknowns
from gpbench.schemes import settings
from gpbench.schemes.base import Training, setting
from gpbench.schemes.settings import DIVERGED, BinaryScheme, HeldOutRule, held_out_batches, held_out_nll, persist

if TYPE_CHECKING:
    from gpbench.model.basis import Basis
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.steps import Steps
    from gpbench.optimize.training import StoppedBy

__all__ = ["KLSpSGD"]


@dataclass(frozen=True, kw_only=True)
class KLSpSGD(BinaryScheme):
    """Mini-batch maximisation of the sparse KL bound over everything at once."""

    link: str = settings.link("probit", "logit")
    whiten: bool = setting(True, "whether m and L parametrise q(v) of the whitened v, or q(u)")
    learn_inducing: bool = settings.learn_inducing()
    freeze_iterations: int = setting(200, "first steps, in which q alone moves", minimum=0)
    batch_size: int = settings.batch_size()
    max_iterations: int = settings.max_iterations(10_000)
    optimizer: str = settings.step_rule("adadelta")
    rate: float | None = settings.step_rate()
    momentum: float = setting(0.9, "AdaDelta: momentum", minimum=0.0, maximum=0.999)
    decay: float = setting(0.9, "AdaDelta: decay of the running means", minimum=0.0, maximum=0.999999)
    offset: float = setting(1e-4, "AdaDelta: offset of the running means", minimum=1e-12, maximum=1.0)
    objective: str = setting("rows", "F for all rows, or for a batch (F times b/n)", choices=("rows", "batch"))
    rate_grid: int = setting(0, "rates 0.1, 0.2 ... that are tried first; 0: rate is taken", minimum=0, maximum=100)
    grid_iterations: int = setting(200, "steps for each of these (all: half of the iterations at most)", minimum=1)
    stop: str = settings.stop()
    tolerance: float = settings.held_out_tolerance()
    validation: int = settings.validation()

    name: ClassVar[str] = "klsp-sgd"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,  # noqa: ARG002 - two
        rng: np.random.Generator,
    ) -> KLSpSGDTraining:
        """Training at its beginning."""
        return KLSpSGDTraining(self, X, y, Z=inducing.choose(X), likelihood=likelihood, rng=rng)


class KLSpSGDTraining(Training):
    """Steps of an optimiser on w, from one batch to the next.

    Attributes
    ----------
    rate : float
        Of the steps.
    w : (k,)
        The unknowns.
    """

    def __init__(
        self, scheme: KLSpSGD, X: Rows, y: Labels, *, Z: Array, likelihood: Likelihood, rng: np.random.Generator
    ) -> None:
        super().__init__(limit=scheme.max_iterations)
        self._scheme, self._X, self._y, self._likelihood, self._rng = scheme, X, np.asarray(y), likelihood, rng
        self._bound = KLBound(scheme.initial_kernel(X), likelihood, whitened=scheme.whiten, size=scheme.batch_size)
        moves = ["theta"] * (scheme.hyperparameters == "learned") + ["Z"] * scheme.learn_inducing
        self._unknowns = Unknowns.of(self._bound.start(Z)).freeing(["m", "L", *moves])
        self._kernel_moves = bool(moves)
        self._begin(settings.STEP_RATES[scheme.optimizer] if scheme.rate is None else scheme.rate)

    def train(self) -> StoppedBy:
        """Choose the rate where there is a grid, then step until the rule says so or the iterations are used up."""
        scheme, trainer = self._scheme, self.trainer
        if scheme.rate_grid > 0 and len(self._X) >= HeldOutRule.LEAST_ROWS:
            self._begin(self._best_rate())
        batches = held_out_batches(self, scheme, self._X, self._y, rng=self._rng)
        while trainer.running:
            self._step(batches)
        return trainer.stopped_by

    def posterior(self) -> Posterior:
        """The posterior that training has come to."""
        at = self._unknowns.values(self.w)
        basis = self._bound.basis(at)
        return Posterior((Latent.of(basis, self._bound.q(at, basis)),), self._likelihood, classes=2)

    def facts(self) -> dict[str, float]:
        """The rate at the end."""
        return {"rate": self.rate}

    def _begin(self, rate: float) -> None:
        """Go back to the beginning, with a rate."""
        self.rate, self.w, self._steps = rate, self._unknowns.x, 0
        self._before = self.w
        self._basis: Basis | None = None
        self._optimizer = self._fresh_optimizer()

    def _fresh_optimizer(self) -> Steps:
        scheme = self._scheme
        adadelta = {"decay": scheme.decay, "momentum": scheme.momentum, "offset": scheme.offset}
        return settings.steps_of(scheme.optimizer, self._unknowns.size, rate=self.rate, **adadelta)

    def _best_rate(self) -> float:
        """The rate of the grid with the least NLL on a validation part of the training rows."""
        scheme, n = self._scheme, len(self._X)
        rows = hold_out(n, min(scheme.validation, n // 10), rng=self._rng)
        batches = Minibatches(n, scheme.batch_size, rng=self._rng, without=rows)
        steps = min(scheme.grid_iterations, max(1, scheme.max_iterations // (2 * scheme.rate_grid)))
        losses = {}
        for rate in (0.1 * k for k in range(1, scheme.rate_grid + 1)):
            self._begin(rate)
            for _ in range(steps):
                self._step(batches)
            losses[rate] = held_out_nll(self.posterior(), self._X, self._y, rows)
        return min(losses, key=lambda rate: losses[rate])

    def _step(self, batches: Minibatches) -> None:
        """One step on the next batch, and word of it."""
        rows = batches.draw()
        X, y = self._X[rows], self._y[rows]

        def step_back() -> None:
            self.rate *= 0.5
            self.w, self._basis = self._before, None
            self._optimizer = self._fresh_optimizer()

        persist(lambda: self._try_step(X, y, scale=batches.scale), step_back=step_back)
        self._steps += 1
        self.trainer.report()

    def _try_step(self, X: Array, y: Labels, *, scale: float) -> None:
        """A step that leaves the unknowns as they were if it fails.

        Where theta and Z move, the next step binds the kernel anew, at its own look-ahead; what the posterior needs is
        made when it is asked for.
        """
        moves = self._kernel_moves and self._steps >= self._scheme.freeze_iterations
        ahead = self._optimizer.look_ahead()
        w = self.w if ahead is None else self.w + ahead
        at = self._unknowns.values(w)
        basis = self._bound.basis(at, inverse=False) if moves or self._basis is None else self._basis
        by_part = self._bound.at_batch(at, X, y, basis=basis, scale=scale, kernel_gradient=moves).gradient
        gradient = self._unknowns.gradient(by_part)
        if self._scheme.objective == "batch":
            gradient /= scale
        before, w = w, w + self._optimizer.step(gradient)
        largest = np.abs(w).max()
        if not largest < DIVERGED:  # also catches NaN
            raise NumericalError(f"a step led to parameters of size {largest:.3g}")
        theta = w[self._unknowns.place("theta")]
        np.clip(theta, -LOG_BOUND, LOG_BOUND, out=theta)
        self._before, self.w = before, w
        self._basis = None if moves else basis
