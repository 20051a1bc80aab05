"""dirichlet-gpc: classification as heteroscedastic regression (Milios, Camoriano, Michiardi, Rosasco, Filippone 2018).

=========  ==============================================================================  ==========
symbol     meaning                                                                         shape
=========  ==============================================================================  ==========
n, C, M    rows, classes, inducing inputs
α_ε        what each class has before a label is seen
α          Y + α_ε, one-hot Y: the Dirichlet's parameters of a row                         (n, C)
s², ỹ      variance and mean of the log of a gamma variable with shape α, matched:         (n, C)
           s² = log(1/α + 1), ỹ = log α - s²/2
c_k        constant prior mean of class k: log of its share, moved by the mean of ỹ        (C,)
r, w       targets ỹ - c_k, and precisions 1/s²                                            (n, C)
T, κ̃       whitened features L⁻¹k(Z, x) of the rows, and what they leave of the prior      (n, M), (n,)
Λ_k, m_k   I + Tᵀdiag(w)T of class k, and Λ_k⁻¹ Tᵀ(w r): q of its whitened values          (M, M), (M,)
A_k, t_k   TᵀT and Tᵀ1 over the rows of class k                                            (M, M), (M,)
=========  ==============================================================================  ==========

A label says, of each class, that a gamma variable has shape 1 + α_ε or α_ε; its logarithm is taken for normal with
the same mean and variance. So the posterior of each class is a sparse regression in closed form (Titsias 2009),

    F_k = -½ Σ [log 2πs² + w r²] + ½ m_k·Tᵀ(wr) - ½ log |Λ_k| - ½ Σ w κ̃,

and hyper-parameters, which the classes share with Z, maximise Σ_k F_k. s² and r take two values a class, so that all
Grams are sums of the A_k: an evaluation costs what one regression does, 2 n M² for the Grams and as much again for
the gradient, whatever C. Predictions are the softmax of the C latent functions.

F knows α_ε as data, and cannot choose it. ``auto`` trains on a part of the rows for each of :data:`GRID` and takes
the least NLL on others; it matters more than anything else here (test NLL of breast-cancer-wisconsin with .5 is four
times that with .01).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.errors import UsageError
from gpbench.model.basis import BLOCK_ROWS, Basis, features
from gpbench.model.gaussian import GaussianQ
from gpbench.model.likelihoods import Likelihood, Softmax
from gpbench.model.linalg import add_to_diagonal
from gpbench.model.posterior import Latent, Posterior
from gpbench.optimize.lbfgsb import LBFGSB
from gpbench.optimize.maximise import LOG_BOUND, Point, maximise
from gpbench.optimize.unknowns import Part, Unknowns
from gpbench.schemes import settings
from gpbench.schemes.base import Training, run_training, setting
from gpbench.schemes.settings import GPSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Labels, Rows
    from gpbench.optimize.training import StoppedBy
    from gpbench.schemes.base import Fit, OnStep

__all__ = ["DirichletGPC", "Regressions", "Targets"]

GRID = (0.001, 0.003, 0.01, 0.03, 0.1)
"""Values of α_ε to choose from."""
FIRST = 0.01
"""α_ε until it is chosen."""
CHOICE_ROWS = 2000
"""Rows that the choice trains on at most, and as many at most that it is judged by."""
CHOICE_EVALUATIONS = 20
"""Evaluations of the evidence for each value of α_ε."""


@dataclass(frozen=True, kw_only=True)
class DirichletGPC(GPSettings):
    """Sparse Gaussian process regression to transformed Dirichlet targets, evidence by L-BFGS-B."""

    alpha_epsilon: float | None = setting(
        None,
        "pseudo-counts of each class; none: .001, .003, .01, .03 or .1 by held-out NLL",
        kind=float,
        minimum=1e-8,
        maximum=10.0,
    )
    learn_inducing: bool = settings.learn_inducing(default=False)
    memory: int = settings.memory()
    gradient_tolerance: float = settings.gradient_tolerance(1e-2)
    value_tolerance: float = settings.value_tolerance(1e-5)
    max_iterations: int = settings.max_iterations(200, "evaluations of the evidence at most")
    block_rows: int = settings.block_rows()

    name: ClassVar[str] = "dirichlet-gpc"

    def likelihood_for(self, task: str, n_classes: int) -> Likelihood:
        """The softmax of one latent function a class.

        Raises
        ------
        UsageError
            The task has no classes.
        """
        if task not in {"binary", "multiclass"}:
            raise UsageError(f"{self.name} does classification; got task {task} with {n_classes} classes")
        return Softmax()

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
        """Train; see :class:`gpbench.schemes.base.Scheme`.

        Raises
        ------
        UsageError
            Another likelihood than the softmax.
        """
        if likelihood.name != Softmax.name:
            raise UsageError(f"{self.name} needs the likelihood {Softmax.name}; got {likelihood.name}")
        likelihood.check_targets(y, classes)
        return run_training(
            self.name,
            lambda: DirichletTraining(
                self, X, np.asarray(y), Z=inducing.choose(X), likelihood=likelihood, classes=classes, rng=rng
            ),
            on_step,
        )

    def differentiable(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,  # noqa: ARG002 - the softmax
        classes: int,
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> tuple[Callable[[Array], tuple[float, Array]], Array]:
        """Σ F_k and its gradient in log hyper-parameters and Z, for ``gpbench check``."""
        targets = Targets.of(y, classes=classes, alpha_epsilon=FIRST)
        found = Regressions(X, y, targets, size=self.block_rows)
        kernel, Z = self.initial_kernel(X), inducing.choose(X)
        jitter = Basis(kernel, Z).jitter
        unknowns = Unknowns.of({"theta": kernel.theta, "Z": Z})

        def objective(x: Array) -> tuple[float, Array]:
            at = unknowns.values(x)
            solved = found.solve(Basis(kernel.with_theta(at["theta"]), at["Z"], jitter=jitter))
            dtheta, dZ = found.gradient(solved)
            return solved.value, unknowns.gradient({"theta": dtheta, "Z": dZ})

        return objective, unknowns.x


class Targets(NamedTuple):
    """What rows of a class, and rows of others, are to the regression of that class.

    Attributes
    ----------
    s2 : (2,)
        Variances: of a row of another class, and of one of the class itself.
    targets : (2, C)
        r, likewise.
    offsets : (C,)
        c_k.
    """

    s2: Array
    targets: Array
    offsets: Array

    @classmethod
    def of(cls, y: Labels, *, classes: int, alpha_epsilon: float) -> Targets:
        """From the labels y (n,), which give the classes' shares; a class without rows has α_ε of them."""
        alpha = np.array([alpha_epsilon, 1.0 + alpha_epsilon])
        s2 = np.log(1.0 / alpha + 1.0)
        transformed = np.log(alpha) - 0.5 * s2
        counts = np.bincount(y, minlength=classes)
        log_share = np.log(np.maximum(counts, alpha_epsilon) / len(y))
        mean = (transformed[1] + (classes - 1) * transformed[0]) / classes  # each row has one class
        offsets = log_share + mean - log_share.mean()
        return cls(s2, transformed[:, None] - offsets, offsets)


class Solved(NamedTuple):
    """The regressions of all classes at one basis: q of each, and Σ F_k (nats)."""

    basis: Basis
    qs: tuple[GaussianQ, ...]
    value: float


class Regressions:
    """C sparse regressions that share kernel and Z.

    Parameters
    ----------
    X, y : (n, d), (n,)
    targets : Targets
    size : int
        Rows of a block.
    """

    def __init__(self, X: Rows, y: Labels, targets: Targets, *, size: int = BLOCK_ROWS) -> None:
        self.targets = targets
        self._X, self._y, self._size = X, np.asarray(y), size
        self._weights = 1.0 / targets.s2
        self._pull = self._weights[:, None] * targets.targets  # w r, (2, C)
        counts = np.bincount(self._y, minlength=len(targets.offsets)).astype(np.float64)
        number = np.stack([len(self._y) - counts, counts])
        logs = np.log(2.0 * math.pi * targets.s2)[:, None] + self._pull * targets.targets
        self._constant = -0.5 * float((number * logs).sum())

    def solve(self, basis: Basis) -> Solved:
        """The posterior of each class, in closed form.

        Raises
        ------
        NumericalError
            Numbers that are not finite.
        """
        M, C = len(basis.Z), len(self.targets.offsets)
        grams = [np.zeros((M, M), order="F") for _ in range(C)]
        sums = np.zeros((C, M))
        left = 0.0
        for rows, _, T, remainder in features(basis, self._X, size=self._size, keep=False):
            left += float(remainder.sum())
            for k, own in _by_class(self._y[rows], C):
                part = np.asfortranarray(T[own])
                grams[k] = blas.dsyrk(1.0, part, trans=1, lower=1, beta=1.0, c=grams[k], overwrite_c=1)
                sums[k] += part.sum(axis=0)
        w, pull = self._weights, self._pull
        total, total_sum = np.sum(grams, axis=0), sums.sum(axis=0)
        value = self._constant - 0.5 * (w[1] + (C - 1) * w[0]) * left
        qs = []
        for k in range(C):
            G = np.asfortranarray(w[0] * total + (w[1] - w[0]) * grams[k])
            eta = pull[0, k] * total_sum + (pull[1, k] - pull[0, k]) * sums[k]
            qs.append(GaussianQ.of_sites(G, eta))
            value += qs[-1].log_normaliser(eta)
        return Solved(basis, tuple(qs), value)

    def gradient(self, solved: Solved) -> tuple[Array, Array]:
        """Of Σ F_k in ``theta`` (P,) and Z (M, d), the absolute jitter held.

        With T̅ of a row of class y, all classes together: Σ_k (wr - w t·m_k) m_k + Σ_k w (I - S_k) t.
        """
        basis, qs, w = solved.basis, solved.qs, self._weights
        M, C = len(basis.Z), len(qs)
        means = np.stack([q.mean for q in qs])
        narrowed = []  # I - S_k
        for q in qs:
            matrix = np.asfortranarray(-q.covariance)
            add_to_diagonal(matrix, 1.0)
            narrowed.append(matrix)
        shared = w[0] * np.sum(narrowed, axis=0)
        of_class = [np.asfortranarray(shared + (w[1] - w[0]) * each) for each in narrowed]
        dtheta, dZ, Y = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape), np.zeros((M, M), order="F")
        h = -0.5 * (w[1] + (C - 1) * w[0])
        for rows, part, T, _ in features(basis, self._X, size=self._size):
            one_hot = self._y[rows, None] == np.arange(C)
            residual = np.where(one_hot, self._pull[1], self._pull[0])
            residual = residual - np.where(one_hot, w[1], w[0]) * (T @ means.T)
            T_bar = np.asfortranarray(residual @ means)
            for k, own in _by_class(self._y[rows], C):
                T_bar[own] += T[own] @ of_class[k]
            Y += blas.dgemm(1.0, T_bar, T, trans_a=1)
            more_theta, more_Z = basis.cross_pullback(part, T_bar, h=np.full(len(T), h))
            dtheta += more_theta
            dZ += more_Z
        more_theta, more_Z = basis.gram_pullback(Y)
        return dtheta + more_theta, dZ + more_Z

    def latents(self, solved: Solved) -> tuple[Latent, ...]:
        """The latent function of each class."""
        return tuple(
            Latent.of(solved.basis, q, mean=float(offset))
            for q, offset in zip(solved.qs, self.targets.offsets, strict=True)
        )


def _by_class(y: Labels, C: int) -> list[tuple[int, Labels]]:
    """Classes that occur, and where."""
    return [(k, own) for k in range(C) if len(own := np.flatnonzero(y == k))]


class DirichletTraining(Training):
    """The choice of α_ε, then the search for hyper-parameters and Z."""

    unit = "evaluation"

    def __init__(
        self,
        scheme: DirichletGPC,
        X: Rows,
        y: Labels,
        *,
        Z: Array,
        likelihood: Likelihood,
        classes: int,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(limit=scheme.max_iterations)
        self._scheme, self._X, self._y, self._Z = scheme, X, y, Z
        self._likelihood, self._classes, self._rng = likelihood, classes, rng
        self._kernel = scheme.initial_kernel(X)
        self._alpha = FIRST if scheme.alpha_epsilon is None else scheme.alpha_epsilon
        self._solved: Solved | None = None
        self._regressions: Regressions | None = None

    def train(self) -> StoppedBy:
        """Choose α_ε where it is not given, then climb."""
        scheme = self._scheme
        if scheme.alpha_epsilon is None:
            self._alpha = self._choose()
        self._regressions = self._of(self._X, self._y, self._alpha)
        return self._climb(self._regressions, evaluations=lambda: self.trainer.left, tell=self._told)

    def posterior(self) -> Posterior:
        """At the best hyper-parameters so far."""
        found = self._regressions or self._of(self._X, self._y, self._alpha)
        solved = self._solved or found.solve(Basis(self._kernel, self._Z))
        return Posterior(found.latents(solved), self._likelihood, classes=self._classes)

    def bound(self) -> float | None:
        """Σ F_k there."""
        return None if self._solved is None else self._solved.value

    def facts(self) -> dict[str, float]:
        """α_ε, and the hyper-parameters, which all classes share."""
        solved = self._solved
        kernel: Kernel = self._kernel if solved is None else solved.basis.kernel
        return {"alpha_epsilon": self._alpha, "hyperparameters": kernel.values()}  # type: ignore[dict-item]

    def _of(self, X: Rows, y: Labels, alpha: float) -> Regressions:
        targets = Targets.of(y, classes=self._classes, alpha_epsilon=alpha)
        return Regressions(X, y, targets, size=self._scheme.block_rows)

    def _told(self, solved: Solved) -> None:
        self._solved = solved
        self.trainer.report(solved.value)

    def _choose(self) -> float:
        """α_ε of the least NLL on rows that were held out."""
        n = len(self._y)
        held = min(max(1, n // 5), CHOICE_ROWS)
        order = self._rng.choice(n, size=min(n, CHOICE_ROWS + held), replace=False)
        if len(order) <= held:
            return FIRST
        out, left = np.sort(order[:held]), np.sort(order[held:])
        X, y, X_out, y_out = self._X[left], self._y[left], self._X[out], self._y[out]
        losses = []
        for alpha in GRID:
            found = self._of(X, y, alpha)
            best = self._best_of(found)
            posterior = Posterior(found.latents(best), self._likelihood, classes=self._classes)
            losses.append(-float(posterior.score(X_out, y_out).log_density.mean()))
        return GRID[int(np.argmin(losses))]

    def _best_of(self, regressions: Regressions) -> Solved:
        """The best of a few evaluations."""
        told: list[Solved] = []

        def tell(solved: Solved) -> None:
            told.append(solved)
            self.trainer.check()

        self._climb(regressions, evaluations=lambda: CHOICE_EVALUATIONS - len(told), tell=tell)
        return told[-1]

    def _climb(
        self, regressions: Regressions, *, evaluations: Callable[[], int], tell: Callable[[Solved], None]
    ) -> StoppedBy:
        """L-BFGS-B on Σ F_k from the first hyper-parameters and Z."""
        scheme, kernel = self._scheme, self._kernel
        learns = scheme.hyperparameters == "learned"
        unknowns = Unknowns(
            theta=Part(value=kernel.theta, free=learns, low=-LOG_BOUND, high=LOG_BOUND),
            Z=Part(value=self._Z, free=scheme.learn_inducing),
        )
        if not unknowns.size:
            tell(regressions.solve(Basis(kernel, self._Z)))
            return "converged"  # in closed form
        jitter = 0.0

        def begin(x: Array) -> None:
            nonlocal jitter
            at = unknowns.values(x)
            jitter = Basis(kernel.with_theta(at["theta"]), at["Z"]).jitter

        def objective(x: Array) -> Point[Solved]:
            at = unknowns.values(x.copy())
            solved = regressions.solve(Basis(kernel.with_theta(at["theta"]), at["Z"], jitter=jitter))
            dtheta, dZ = regressions.gradient(solved)
            return Point(solved.value, unknowns.gradient({"theta": dtheta, "Z": dZ}), solved)

        search = LBFGSB(
            memory=scheme.memory, gradient_tolerance=scheme.gradient_tolerance, value_tolerance=scheme.value_tolerance
        )
        return maximise(
            objective,
            unknowns.x,
            search=search,
            evaluations=evaluations,
            bounds=unknowns.bounds,
            begin=begin,
            on_evaluation=lambda solved, _: tell(solved),
        ).stopped_by
