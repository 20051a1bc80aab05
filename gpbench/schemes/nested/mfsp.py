"""mfsp: the sparse mean-field method (Hensman, Matthews and Ghahramani 2015, section 3.1).

========  ===================================================================================  ==========
symbol    meaning                                                                              shape
========  ===================================================================================  ==========
n, d, M   rows, inputs, inducing inputs
g         noisy function values, y_n = sign g_n; the probit is what g ~ N(f, I) leaves behind  (n,)
q(g)      Π_n of normal laws cut to the side of y_n, whose a_n are the inner unknowns          (n,)
q(u)      the inducing values; given g they are normal, exactly                                (M,), (M, M)
θ, Z      logarithms of the kernel's hyper-parameters, inducing inputs: the outer unknowns     (P,), (M, d)
F         the bound (12), with σ̃_n² the reciprocal of the diagonal that the paper prints       scalar
========  ===================================================================================  ==========

In whitened form, u = L v, the inner optimum, value and gradients cost O(n M²):

=========  ==============================================================================  ============
symbol     meaning                                                                         shape
=========  ==============================================================================  ============
g          noisy function values, y_n = sign g_n, g | f ~ N(f, I): the probit              (n,)
q(g_n)     N(a_n, σ̃_n²) cut to the side of y_n, with mean ḡ_n and variance v_n             (n,)
T          whitened features, row t_n = L⁻¹ k(Z, x_n); Q = T Tᵀ                            (n, M)
G, Λ, C    TᵀT, I + G = C Cᵀ                                                               (M, M)
π          diagonal of (Q + I)⁻¹, 1 - |C⁻¹t_n|²; σ̃_n² = 1/π_n (the paper prints π_n)       (n,)
z          y_n a_n / σ̃_n                                                                   (n,)
r, c       φ(z)/Φ(z), and r (z + r): ḡ = y (z + r)/√π, v = (1 - c)/π                       (n,)
p, m_w     Tᵀḡ, and Λ⁻¹p: the mean of q(v) of the whitened v = L⁻¹u; S_w = Λ⁻¹             (M,)
μ, β       T m_w, and ḡ - μ = (Q + I)⁻¹ḡ                                                   (n,)
κ̃          diagonal of K_nn - K_nm K_mm⁻¹ K_mn                                             (n,)
=========  ==============================================================================  ============

    F = Σ [log Φ(z) - ½ log π + ½ r²] - ½ (|ḡ|² - |C⁻¹p|²) - Σ log C_jj - ½ Σ κ̃

In F as printed ½ πᵀv stands twice, with opposite signs, and a - ḡ is -y r/√π. F is stationary in a where a = ḡ - σ̃² β.

The inner loop: ``sweep`` iterates a ← ḡ - σ̃² β for all rows at once, as the paper has it. A fixed point of it has
z + (1 - π) r(z) = y √π μ. ``newton`` solves that row by row for given μ (the left side is convex and rises), which
leaves one equation in M unknowns, Λ m_w = Tᵀḡ(T m_w): the zero gradient of

    ψ(m_w) = ½ |m_w|² + Σ [½ μ² - log Φ(z) - ½ z² - ½ (1 - π) ḡ²],

whose Hessian I + Tᵀ diag(π c / (1 - (1 - π) c)) T has no eigenvalue below 1. So the optimum is unique, and Newton's
method with a line search finds it in a handful of walks over the rows, however large the signal variance is (sweeps
then take hundreds).

Outside, L-BFGS-B searches over (θ, Z), or scaled conjugate gradients as in the paper's figure 2.

Prediction: ``gaussian`` puts g at its mean, so that q(u) is normal; ``monte-carlo`` averages over draws of g, as the
paper has it. The paper reports over-confident predictions: probabilities are not clipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.linalg import blas
from scipy.special import ndtri_exp

from gpbench.model.basis import BLOCK_ROWS, Basis, Moments, features, row_blocks
from gpbench.model.gaussian import GaussianQ
from gpbench.model.likelihoods.bernoulli import log_ndtr, mills, probit_curvature
from gpbench.model.linalg import trsv
from gpbench.model.posterior import Latent, Posterior
from gpbench.model.sampled import SampledPosterior
from gpbench.schemes import settings
from gpbench.schemes.base import setting
from gpbench.schemes.nested.nested import NestedTraining, maximise_newton
from gpbench.schemes.settings import BinaryScheme, SearchSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows

__all__ = [
    "CutNormals",
    "MFSp",
    "MeanField",
    "MeanFieldRows",
    "mean_field_gradient",
    "mean_field_rows",
    "newton",
    "rows_gradient",
    "solve_z",
    "sweep",
]

KEPT_BYTES = 32_000_000
"""Features up to this size are kept for the inner loop; larger ones are made anew at each walk."""


_ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class MFSp(SearchSettings, BinaryScheme):
    """Batch maximisation of the sparse mean-field bound."""

    link: str = settings.link("probit")
    learn_inducing: bool = settings.learn_inducing()
    max_iterations: int = settings.max_iterations(1000, "evaluations of the bound at most")
    block_rows: int = settings.block_rows()
    inner: str = setting(
        "newton", "inner loop: Newton's method, or the paper's sweeps over a", choices=("newton", "sweeps")
    )
    inner_tolerance: float = setting(1e-6, "largest change of a at the end of the inner loop", minimum=1e-12, maximum=1)
    inner_iterations: int = setting(2000, "iterations of the inner loop at most", minimum=1)
    prediction: str = setting(
        "gaussian", "g at its mean, or averages over draws of g", choices=("gaussian", "monte-carlo")
    )
    draws: int = setting(1000, "draws of g for the monte-carlo prediction", minimum=1)

    name: ClassVar[str] = "mfsp"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,  # noqa: ARG002 - two
        rng: np.random.Generator,
    ) -> NestedTraining[MeanField]:
        """Training at its beginning."""
        return NestedTraining(
            _Inner(self, X, y, likelihood=likelihood, seed=int(rng.integers(2**63))),
            self.search(),
            kernel=self.initial_kernel(X),
            Z=inducing.choose(X),
            learn_theta=self.hyperparameters == "learned",
            learn_Z=self.learn_inducing,
            limit=self.max_iterations,
        )


class _Inner:
    """q(g) at given θ and Z."""

    def __init__(self, scheme: MFSp, X: Rows, y: Labels, *, likelihood: Likelihood, seed: int) -> None:
        self._scheme, self._X, self._y, self._likelihood, self._seed = scheme, X, y, likelihood, seed

    def solve(
        self,
        kernel: Kernel,
        Z: Array,
        *,
        jitter: float | None,
        warm: MeanField | None,
        check: Callable[[], None],
        brief: bool = False,
    ) -> MeanField:
        scheme = self._scheme
        rows = mean_field_rows(Basis(kernel, Z, jitter=jitter), self._X, self._y, size=scheme.block_rows)
        tolerance, limit = scheme.inner_tolerance, 1 if brief else scheme.inner_iterations
        if scheme.inner == "newton":
            m_w = None if warm is None else warm.m_w
            return newton(rows, tolerance=tolerance, limit=limit, m_w=m_w, check=check)
        z = None if warm is None else warm.z
        return sweep(rows, tolerance=tolerance, limit=limit, z=z, check=check)

    def gradient(self, at: MeanField) -> tuple[Array, Array]:
        return mean_field_gradient(at)

    def posterior(self, at: MeanField) -> Posterior | SampledPosterior:
        latent = at.latent()
        if self._scheme.prediction == "gaussian":
            return Posterior((latent,), self._likelihood, classes=2)
        # the same draws whenever it is asked for, since a clock decides when that is
        draws = at.draws(np.random.default_rng(self._seed), self._scheme.draws)
        return SampledPosterior.of_means(latent, draws, likelihood=self._likelihood, classes=2)


@dataclass(frozen=True, eq=False)
class CutNormals:
    """The factors q(g_n): ḡ, r and c of rows, each (n,), from z, π and the signs y."""

    mean: Array
    r: Array
    c: Array

    @classmethod
    def of(cls, z: Array, *, pi: Array, signs: Array) -> CutNormals:
        """The factors at z (n,)."""
        r, c = mills(z), probit_curvature(z)
        far = z < -150.0  # there z + r cancels, and c has a series of its own
        mean = np.where(far, c / np.where(far, r, 1.0), z + r)
        return cls(signs * mean / np.sqrt(pi), r, c)


@dataclass(frozen=True, eq=False)
class MeanFieldRows:
    """What the bound knows of the rows at one kernel and Z, whatever q(g) is.

    Attributes
    ----------
    basis : Basis
    signs : (n,)
        -1 or +1.
    pi : (n,)
    q : GaussianQ
        S_w, whose root is C; the mean stands for nothing.
    G : (M, M)
        Both triangles.
    constant : float
        -½ Σ log π - Σ log C_jj - ½ Σ κ̃.
    """

    basis: Basis
    X: Rows
    signs: Array
    pi: Array
    q: GaussianQ
    G: Array
    constant: float
    size: int
    kept: tuple[Array, ...]

    def walk(self) -> Iterator[tuple[slice, Array]]:
        """Row numbers and features T (b, M), block by block."""
        if self.kept:
            yield from zip(row_blocks(len(self.pi), self.size), self.kept, strict=True)
        else:
            for rows, _, T, _ in features(self.basis, self.X, size=self.size, keep=False):
                yield rows, T

    def times(self, m_w: Array) -> Array:
        """T m_w (n,)."""
        return np.concatenate([blas.dgemv(1.0, T, m_w) for _, T in self.walk()])

    def projected(self, g: Array) -> Array:
        """Tᵀg (M,)."""
        total = np.zeros(len(self.G))
        for rows, T in self.walk():
            total += blas.dgemv(1.0, T, g[rows], trans=1)
        return total

    def solve(self, p: Array) -> Array:
        """Λ⁻¹p (M,)."""
        return trsv(self.q.root, trsv(self.q.root, p), trans=True)

    def value(self, z: Array, q: CutNormals, *, p: Array) -> float:
        """F, for any z."""
        explained = trsv(self.q.root, p)
        rows = float((log_ndtr(z) + 0.5 * np.square(q.r)).sum())
        return self.constant + rows - 0.5 * float(q.mean @ q.mean - explained @ explained)

    def at(self, a: Array) -> tuple[float, Array]:
        """F and its gradient (n,) in a (n,), at any a."""
        z = self.signs * a * np.sqrt(self.pi)
        q = CutNormals.of(z, pi=self.pi, signs=self.signs)
        p = self.projected(q.mean)
        beta = q.mean - self.times(self.solve(p))
        return self.value(z, q, p=p), (1.0 - q.c) * (self.pi * (q.mean - a) - beta)


@dataclass(frozen=True, eq=False)
class MeanField:
    """The inner optimum at one kernel and Z.

    Attributes
    ----------
    rows : MeanFieldRows
    value : float
        F.
    z, m_w : (n,), (M,)
    walks : int
        Iterations of the inner loop.
    settled : bool
        Whether it converged.
    """

    rows: MeanFieldRows
    value: float
    z: Array
    m_w: Array
    walks: int
    settled: bool

    @property
    def kernel(self) -> Kernel:
        """With its hyper-parameters."""
        return self.rows.basis.kernel

    @property
    def jitter(self) -> float:
        """Absolute jitter of its matrix at Z."""
        return self.rows.basis.jitter

    @property
    def inner_steps(self) -> int:
        """What finding it took: ``walks``."""
        return self.walks

    def factors(self) -> CutNormals:
        """The factors q(g_n)."""
        return CutNormals.of(self.z, pi=self.rows.pi, signs=self.rows.signs)

    def latent(self) -> Latent:
        """The Gaussian q(u): that of the exact conditional p(u | g) averaged to first order, g at its mean."""
        return Latent.of(self.rows.basis, self.rows.q.with_mean(self.m_w))

    def draws(self, rng: np.random.Generator, count: int) -> Array:
        """Means Λ⁻¹Tᵀg of q(v | g) for draws of g from q(g), shape (count, M).

        The cut normal law by its inverse distribution function in logarithms: exact in both tails.
        """
        rows = self.rows
        total = np.zeros((len(self.m_w), count), order="F")
        for part, T in rows.walk():
            z, scale = self.z[part], rows.signs[part] / np.sqrt(rows.pi[part])
            logs = np.log1p(-rng.random((len(z), count))) + log_ndtr(z)[:, None]
            g = scale[:, None] * np.maximum(z[:, None] - ndtri_exp(logs), 0.0)
            total += T.T @ g
        return np.asarray((rows.q.covariance @ total).T)


def mean_field_rows(basis: Basis, X: Rows, y: Labels, *, size: int = BLOCK_ROWS) -> MeanFieldRows:
    """Walk over the rows X (n, d) with classes y (n,), 0 or 1, and gather what does not depend on q(g).

    Raises
    ------
    NumericalError
        The features are not finite.
    """
    n, M = len(X), len(basis.Z)
    keep = 8 * n * M <= KEPT_BYTES
    kept, sums, prior = [], Moments(M), 0.0
    for rows, part, T, _ in features(basis, X, size=size, keep=False):
        sums.add(T, weights=np.ones(len(T)), targets=np.zeros(len(T)))
        prior += float(basis.kernel.diag(part).sum())
        if keep:
            kept.append(T.copy(order="F"))
        last = rows.stop
    assert last == n
    q = GaussianQ.of_sites(sums.G, np.zeros(M))
    pi = np.empty(n)
    blocks = (
        zip(row_blocks(n, size), kept, strict=True)
        if keep
        else ((r, T) for r, _, T, _ in features(basis, X, size=size, keep=False))
    )
    for rows, T in blocks:
        R = q.halfway(T)
        # never below 1/(1 + Q_nn), which rounding could undercut
        pi[rows] = np.maximum(1.0 - np.einsum("ij,ij->i", R, R), 1.0 / (1.0 + np.einsum("ij,ij->i", T, T)))
    G = sums.symmetric(1.0)
    constant = -0.5 * float(np.log(pi).sum()) - q.log_root - 0.5 * (prior - float(np.trace(G)))
    signs = 2.0 * np.asarray(y) - 1.0
    return MeanFieldRows(basis, X, signs, pi, q, G, constant, size, tuple(kept))


def mean_field_gradient(at: MeanField) -> tuple[Array, Array]:
    """Gradient of F in ``theta`` (P,) and Z (M, d), at the inner optimum; one walk over the rows.

    With q(g) held (envelope theorem), T's adjoint is T̄ = β m_wᵀ + diag(v - 1) T S_w + T (I - S_w G_v S_w), where
    G_v = Tᵀ diag(v) T, and T̄ᵀT needs no sum of its own. K̄_nm = T̄ L⁻¹; K_mm enters through L in T alone.
    """
    q = at.factors()
    return rows_gradient(at.rows, q.mean, (1.0 - q.c) / at.rows.pi)


def rows_gradient(rows: MeanFieldRows, mean: Array, v: Array) -> tuple[Array, Array]:
    """The same at any q(g) with means ḡ (n,), where π moves F by -½ v a row: all (n,), v of any sign."""
    basis = rows.basis
    M = len(rows.G)
    sums, negative = Moments(M), Moments(M)
    for part, T in rows.walk():
        sums.add(T, weights=np.maximum(v[part], 0.0), targets=mean[part])
        if (v[part] < 0.0).any():
            negative.add(T, weights=np.maximum(-v[part], 0.0), targets=np.zeros(len(T)))
    G_v = sums.symmetric(1.0) - negative.symmetric(1.0)
    S_w = rows.q.covariance
    own = np.eye(M) - S_w @ G_v @ S_w
    m_w = rows.solve(sums.r)
    right = blas.dgemm(1.0, np.concatenate([S_w, own, m_w[None]]), basis.L_inv)
    dtheta, dZ = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape)
    for part, X, T, _ in features(basis, rows.X, size=rows.size):
        beta = mean[part] - blas.dgemv(1.0, T, m_w)
        left = np.concatenate([T * (v[part] - 1.0)[:, None], T, beta[:, None]], axis=1)
        more_theta, more_Z = basis.features.pullback(blas.dgemm(1.0, left, right))
        dtheta += more_theta
        dtheta += basis.kernel.diag_pullback(X, np.full(len(X), -0.5))
        dZ += more_Z
    half = np.tril(np.outer(m_w, m_w) + S_w @ (G_v - rows.G) + own @ rows.G)
    half.flat[:: M + 1] *= 0.5
    gram = -0.5 * (basis.L_inv.T @ ((half + half.T) @ basis.L_inv))
    more_theta, more_Z = basis.features.gram_pullback(np.asfortranarray(0.5 * (gram + gram.T)))
    return dtheta + more_theta, dZ + more_Z


def sweep(
    rows: MeanFieldRows,
    *,
    tolerance: float,
    limit: int,
    z: Array | None = None,
    check: Callable[[], None] = lambda: None,
) -> MeanField:
    """The paper's inner loop: a ← ḡ - σ̃² β for all rows at once, half the way where F falls.

    Parameters
    ----------
    rows : MeanFieldRows
    tolerance : float
        Converged when no a_n moves by more.
    limit : int
        Sweeps at most.
    z : (n,), optional
        Where to start.
    check : callable
        Called before each sweep; may raise to end training.
    """
    root = np.sqrt(rows.pi)
    z = np.zeros(len(root)) if z is None else z
    step, value, settled = 1.0, -np.inf, False
    m_w = np.zeros(len(rows.G))
    good, delta, walks = z, np.zeros(len(z)), 0
    while walks < limit and not settled:
        check()
        walks += 1
        q = CutNormals.of(z, pi=rows.pi, signs=rows.signs)
        p = rows.projected(q.mean)
        found = rows.value(z, q, p=p)
        if found < value - _ROUNDING * abs(value):
            step *= 0.5
            z = good + step * delta
            continue
        value, good, step = found, z, min(1.0, 2.0 * step)
        m_w = rows.solve(p)
        a = q.mean - (q.mean - rows.times(m_w)) / rows.pi
        delta = rows.signs * a * root - z
        settled = float(np.abs(delta / root).max()) <= tolerance
        z = good + step * delta
    return MeanField(rows, value, good, m_w, walks, settled)


def newton(
    rows: MeanFieldRows,
    *,
    tolerance: float,
    limit: int,
    m_w: Array | None = None,
    check: Callable[[], None] = lambda: None,
) -> MeanField:
    """Newton's method on ψ, to the same optimum.

    Parameters
    ----------
    rows : MeanFieldRows
    tolerance : float
        Converged after the step that was foretold to gain less than half its square; that step squares the error.
    limit : int
        Walks over the rows at most.
    m_w : (M,), optional
        Where to start.
    check : callable
        Called before each walk; may raise to end training.
    """
    start = _Point(rows, np.zeros(len(rows.G)) if m_w is None else m_w, z=None)
    here, walks, settled = maximise_newton(
        start, lambda before, m: _Point(rows, m, z=before.z), tolerance=tolerance, limit=limit, check=check
    )
    q = CutNormals.of(here.z, pi=rows.pi, signs=rows.signs)
    value = rows.value(here.z, q, p=here.p)
    return MeanField(rows, value, here.z, here.m_w, walks, settled)


class _Point:
    """-ψ at m_w, with its gradient and Hessian; one walk over the rows."""

    def __init__(self, rows: MeanFieldRows, m_w: Array, *, z: Array | None) -> None:
        self.m_w, self.p = m_w, np.zeros(len(m_w))
        self.z = np.empty(len(rows.pi))
        self.sums = Moments(len(m_w))
        psi = 0.5 * float(m_w @ m_w)
        for part, T in rows.walk():
            pi, signs = rows.pi[part], rows.signs[part]
            mu = blas.dgemv(1.0, T, m_w)
            root = solve_z(signs * np.sqrt(pi) * mu, pi=pi, start=None if z is None else z[part])
            q = CutNormals.of(root, pi=pi, signs=signs)
            self.z[part] = root
            psi += 0.5 * float(
                (np.square(mu) - np.square(root) - (1.0 - pi) * np.square(q.mean) - 2.0 * log_ndtr(root)).sum()
            )
            self.p += blas.dgemv(1.0, T, q.mean, trans=1)
            self.sums.add(T, weights=pi * q.c / (1.0 - (1.0 - pi) * q.c), targets=q.mean - mu)
        self.value, self.ascent = -psi, self.sums.r - m_w


def solve_z(b: Array, *, pi: Array, start: Array | None = None) -> Array:
    """Solve z + (1 - π) r(z) = b for each row, all (n,).

    The left side is convex and rises with a slope between π and 1: after its first step Newton's method comes down to
    the root from the right, from any start.
    """
    z = b.copy() if start is None else start.copy()
    for _ in range(100):
        slope = 1.0 - (1.0 - pi) * probit_curvature(z)
        rest = z + (1.0 - pi) * mills(z) - b
        z -= rest / slope
        if (np.abs(rest) <= 1e-15 * (4.0 + np.abs(z))).all():  # what rounding leaves of it
            break
    return z
