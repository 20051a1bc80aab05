"""svgpc: stochastic variational GP classification with natural gradients, the rival of wenzel2019.

=========  ==============================================================================  ==========
symbol     meaning                                                                         shape
=========  ==============================================================================  ==========
n, d, M    rows, inputs, inducing inputs
X, y       a mini-batch of b rows and their classes 0 or 1                                 (b, d), (b,)
ζ          n / b, scales a batch to all rows                                               scalar
Z, u       inducing inputs, which stay where the rule puts them, and the values there      (M, d), (M,)
v          u = L v, L the Cholesky factor of K_mm; N(0, I) under the prior                 (M,)
Λ, m       precision C Cᵀ and mean of q(v), S = Λ⁻¹                                        (M, M), (M,)
T          whitened features L⁻¹ K_mn of the batch, transposed                             (b, M)
μ, s       mean and variance of q(f) at the rows                                           (b,)
e, g, h    ζ E log p(y|f) by Gauss-Hermite quadrature, its derivatives in μ and s          (b,)
γ          rate of the natural gradient                                                    scalar
=========  ==============================================================================  ==========

The bound is (21) of Hensman, Matthews and Ghahramani (2015). One iteration, on one batch:

1. natural gradient (Salimbeni et al. 2018): Λ ← (1-γ)Λ + γ(I - 2 Tᵀ diag(h) T), m ← m + γ Λ⁻¹(Tᵀg - m);
2. Adam on the logarithms of the hyper-parameters, with the gradient at the q(v) before, which is then held.

γ grows from ``first_rate`` to ``rate`` over ``warmup`` steps. As h ≤ 0, Λ stays positive definite at any γ; but m can
overshoot by orders of magnitude when the prior variance is large. Where a step moves some μ far in units of 1 + √s, and
at every step when the batch is all rows, γ is halved for as long as the batch's own bound would fall.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.model.batch import BatchBasis
from gpbench.model.latent import Latent
from gpbench.model.linalg import trsm
from gpbench.model.posterior import Posterior
from gpbench.model.whitened import Moments
from gpbench.optimize.hyper import KernelSteps
from gpbench.schemes.base import OnStep, setting
from gpbench.schemes.minibatch_training import train_by_minibatches
from gpbench.schemes.natural_gaussian import NaturalGaussian, WarmUp
from gpbench.schemes.stochastic_settings import StochasticSettings

if TYPE_CHECKING:
    from gpbench.model.inducing import InducingRule
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["SVGPC"]

FAR = 1.0
"""A step that moves a row's μ by more than this many 1 + √s is looked at."""
HALVINGS = 20
"""Of γ at most; then q stays as it is."""


@dataclass(frozen=True, kw_only=True)
class SVGPC(StochasticSettings):
    """Natural gradients for q(u), Adam for the hyper-parameters."""

    link: str = setting("probit", "link function", choices=("probit", "logit"))
    rate: float = setting(0.1, "rate γ of the natural gradient", minimum=1e-6, maximum=1.0)
    first_rate: float = setting(1e-4, "γ at the first step", minimum=1e-8, maximum=1.0)
    warmup: int = setting(10, "steps over which γ grows, in equal ratios", minimum=0)
    hyper_rate: float = setting(0.01, "rate of Adam on the log hyper-parameters", minimum=0.0, maximum=1.0)
    noise_floor: float = setting(1e-6, "least white noise, relative to the prior variance", minimum=0.0, maximum=1.0)

    name: ClassVar[str] = "svgpc"

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


class Batch(NamedTuple):
    """What the natural-gradient step looks at: T, κ̃ and s of the rows, their classes, ζ, and the data term Σ e."""

    T: Array
    remainder: Array
    s: Array
    y: Labels
    scale: float
    fit: float


class Run:
    """Training of one posterior.

    Attributes
    ----------
    iteration : int
    stopped_by : str
        ``converged`` or ``iterations``; ``on_step`` while neither is the case.
    basis : BatchBasis
    q : NaturalGaussian
    """

    def __init__(
        self, settings: SVGPC, X: Rows, y: Labels, *, Z: Array, likelihood: Likelihood, rng: np.random.Generator
    ) -> None:
        self.iteration, self.stopped_by = 0, "on_step"
        self._settings, self._X, self._y, self._likelihood, self._rng = settings, X, np.asarray(y), likelihood, rng
        kernel = settings.initial_kernel(X)
        self.basis, self.q = BatchBasis(kernel, Z), NaturalGaussian.prior(len(Z))
        self._rates = WarmUp(settings.first_rate, settings.rate, steps=settings.warmup)
        self._learns = settings.hyperparameters == "learned" and settings.hyper_rate > 0
        self._adam = KernelSteps(kernel, rate=settings.hyper_rate, decay=np.inf, noise_floor=settings.noise_floor)

    @property
    def moment(self) -> str:
        """Where it stands, for messages."""
        return f"iteration {self.iteration}"

    def train(self, on_step: OnStep) -> None:
        """Step until the rule says so or the iterations are used up.

        Raises
        ------
        NumericalError
            A factorisation failed past every remedy.
        StopTraining
            From ``on_step``, between two iterations.
        """
        settings = self._settings
        self.stopped_by = train_by_minibatches(
            self, settings, self._X, self._y, limit=settings.max_iterations, rng=self._rng, on_step=on_step
        )

    def step(self, X: Array, y: Labels, *, scale: float) -> None:
        """One iteration on a batch X (b, d), y (b,), with ζ = ``scale``."""
        q, basis = self.q, self.basis
        T, remainder = basis.whiten(X)
        R, mu, s = _marginals(q, T, remainder)
        e, g, h = self._likelihood.expectations(y, mu, s)
        g *= scale
        h *= scale
        sums = Moments(len(q.m))
        sums.add(T, weights=-h, targets=g)
        batch = Batch(T, remainder, s, y, scale, scale * float(e.sum()))
        self.q = self._moved(batch, sums)
        if self._learns:
            T_bar = trsm(q.C, R, side="right", overwrite=True)  # T S
            T_bar -= T
            T_bar *= (2.0 * h)[:, None]
            T_bar = blas.dger(1.0, g, q.m, a=T_bar, overwrite_a=1)
            dtheta, _ = basis.pullback(X, T, T_bar, h=h)
            kernel = self._adam.step(basis.kernel, dtheta, t=self.iteration, Z=basis.Z)
            self.basis = BatchBasis(kernel, basis.Z)
        self.iteration += 1

    def posterior(self) -> Posterior:
        """The posterior of this moment."""
        basis = self.basis
        latent = Latent(basis.kernel, basis.Z, m_w=self.q.m, root=self.q.C, form="precision", jitter=basis.jitter)
        facts = {
            "iterations": self.iteration,
            "stopped_by": self.stopped_by,
            "jitter": basis.jitter,
            "hyperparameters": basis.kernel.values(),
        }
        return Posterior((latent,), self._likelihood, classes=2, facts=facts)

    def _moved(self, batch: Batch, sums: Moments) -> NaturalGaussian:
        """The natural-gradient step, shortened where it overshoots."""
        q, rate, before = self.q, self._rates.rate(self.iteration), None
        everything = len(batch.y) == len(self._X)
        for _ in range(HALVINGS):
            moved = q.step(sums.G, sums.r, rate=rate)
            change = np.abs(blas.dgemv(1.0, batch.T, moved.m - q.m))
            if not everything and (change <= FAR * (1.0 + np.sqrt(batch.s))).all():
                return moved
            if before is None:
                before = batch.fit - q.kl()
            _, mu, s = _marginals(moved, batch.T, batch.remainder)
            e, _, _ = self._likelihood.expectations(batch.y, mu, s)
            if batch.scale * float(e.sum()) - moved.kl() >= before - 1e-9 * abs(before):
                return moved
            rate *= 0.5
        return q


def _marginals(q: NaturalGaussian, T: Array, remainder: Array) -> tuple[Array, Array, Array]:
    """R = T C⁻ᵀ (b, M), and mean and variance of q(f) at the rows, each (b,)."""
    R = trsm(q.C, T, side="right", trans=True)
    s = remainder + np.einsum("ij,ij->i", R, R)
    return R, blas.dgemv(1.0, T, q.m), np.maximum(s, 0.0, out=s)
