"""sparse-map: the bound that hensman2015 tried and abandoned (section 3.2).

========  ===========================================================================  ==========
symbol    meaning                                                                      shape
========  ===========================================================================  ==========
n, d, M   rows, inputs, inducing inputs
q(u)      N(m, S) of the inducing values, at its optimum for each (θ, Z)               (M,), (M, M)
θ, Z      logarithms of the kernel's hyper-parameters, inducing inputs: outer unknowns (P,), (M, d)
F         Σ log Φ(y_n a_nᵀm) - ½ Σ (a_nᵀS a_n + κ̃_n) - KL(q(u) || p(u))                scalar
========  ===========================================================================  ==========

Its m is the mode and its S knows nothing of the labels, as the paper says: with Z = X, S⁻¹ = K⁻¹ + I. F lies below the
KL bound at any q(u). Outside, L-BFGS-B or scaled conjugate gradients search over (θ, Z). In whitened form, u = L v:

========  =====================================================================================  =======
symbol    meaning                                                                                shape
========  =====================================================================================  =======
T         whitened features, row t_n = L⁻¹ k(Z, x_n)                                             (n, M)
m, S      mean and covariance of q(v) of the whitened v = L⁻¹u                                   (M,)
μ, s      mean T m and variance of q(f_n), κ̃_n + t_nᵀ S t_n                                      (n,)
C         Cholesky factor of I + TᵀT                                                             (M, M)
========  =====================================================================================  =======

    F = Σ [log Φ(y μ) - ½ s] - KL(q(u) || p(u))

(the paper's print lacks the logarithm). It is the KL bound with E log Φ(y f) replaced by a lower bound that does not
know y in the variance: so S = (I + TᵀT)⁻¹ whatever the labels are, and

    F = Σ log Φ(y μ) - ½ |m|² - Σ log C_jj - ½ Σ κ̃

at it, whose maximum over m is the mode of the sparse posterior. Newton's method finds it: log Φ is concave, and the
Hessian I + Tᵀ diag(-ℓ'') T has no eigenvalue below 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.linalg import blas

from gpbench.model.basis import BLOCK_ROWS, Basis, KernelGradient, Moments, features
from gpbench.model.gaussian import GaussianQ
from gpbench.model.likelihoods.bernoulli import log_ndtr, mills, probit_curvature
from gpbench.model.posterior import Latent, Posterior
from gpbench.schemes import settings
from gpbench.schemes.base import setting
from gpbench.schemes.nested.nested import NestedTraining, maximise_newton
from gpbench.schemes.settings import BinaryScheme, SearchSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpbench.model.inducing import InducingRule
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import Likelihood
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["SparseMAP", "SparseMAPScheme", "sparse_map", "sparse_map_gradient"]


@dataclass(frozen=True, kw_only=True)
class SparseMAPScheme(SearchSettings, BinaryScheme):
    """Batch maximisation of the abandoned bound."""

    link: str = settings.link("probit")
    learn_inducing: bool = settings.learn_inducing()
    max_iterations: int = settings.max_iterations(1000, "evaluations of the bound at most")
    block_rows: int = settings.block_rows()
    inner_tolerance: float = setting(1e-6, "Newton decrement at the end of the inner loop", minimum=1e-12, maximum=1)
    inner_iterations: int = setting(200, "walks of the inner loop at most", minimum=1)

    name: ClassVar[str] = "sparse-map"

    def start(
        self,
        X: Rows,
        y: Labels,
        *,
        inducing: InducingRule,
        likelihood: Likelihood,
        classes: int,  # noqa: ARG002 - two
        rng: np.random.Generator,  # noqa: ARG002 - nothing here is random
    ) -> NestedTraining[SparseMAP]:
        """Training at its beginning."""
        return NestedTraining(
            _Inner(self, X, y, likelihood=likelihood),
            self.search(),
            kernel=self.initial_kernel(X),
            Z=inducing.choose(X),
            learn_theta=self.hyperparameters == "learned",
            learn_Z=self.learn_inducing,
            limit=self.max_iterations,
        )


class _Inner:
    """q(u) at given θ and Z."""

    def __init__(self, scheme: SparseMAPScheme, X: Rows, y: Labels, *, likelihood: Likelihood) -> None:
        self._scheme, self._X, self._y, self._likelihood = scheme, X, y, likelihood

    def solve(
        self,
        kernel: Kernel,
        Z: Array,
        *,
        jitter: float | None,
        warm: SparseMAP | None,
        check: Callable[[], None],
        brief: bool = False,
    ) -> SparseMAP:
        scheme = self._scheme
        return sparse_map(
            Basis(kernel, Z, jitter=jitter),
            self._X,
            self._y,
            tolerance=scheme.inner_tolerance,
            limit=1 if brief else scheme.inner_iterations,
            m_w=None if warm is None else warm.q.mean,
            size=scheme.block_rows,
            check=check,
        )

    def gradient(self, at: SparseMAP) -> tuple[Array, Array]:
        return sparse_map_gradient(at, self._X, self._y, size=self._scheme.block_rows)

    def posterior(self, at: SparseMAP) -> Posterior:
        return Posterior((Latent.of(at.basis, at.q),), self._likelihood, classes=2)


@dataclass(frozen=True, eq=False)
class SparseMAP:
    """The inner optimum at one kernel and Z.

    Attributes
    ----------
    basis : Basis
    value : float
        F.
    q : GaussianQ
        Its mean is m, its root C.
    G : Moments
        Of TᵀT.
    walks : int
        Walks over the rows.
    settled : bool
        Whether Newton's method converged.
    """

    basis: Basis
    value: float
    q: GaussianQ
    G: Moments
    walks: int
    settled: bool

    @property
    def kernel(self) -> Kernel:
        """With its hyper-parameters."""
        return self.basis.kernel

    @property
    def jitter(self) -> float:
        """Absolute jitter of its matrix at Z."""
        return self.basis.jitter

    @property
    def inner_steps(self) -> int:
        """What finding it took: ``walks``."""
        return self.walks


class _Point:
    """The part of F that depends on m, its gradient and Hessian; one walk over the rows."""

    def __init__(self, basis: Basis, X: Rows, signs: Array, m: Array, *, size: int) -> None:
        self.m_w, self.value = m, -0.5 * float(m @ m)
        self.sums = Moments(len(m))
        self.G, self.prior = Moments(len(m)), 0.0
        for rows, part, T, _ in features(basis, X, size=size, keep=False):
            y = signs[rows]
            z = y * blas.dgemv(1.0, T, m)
            self.value += float(log_ndtr(z).sum())
            self.sums.add(T, weights=probit_curvature(z), targets=y * mills(z))
            self.G.add(T, weights=np.ones(len(T)), targets=np.zeros(len(T)))
            self.prior += float(basis.kernel.diag(part).sum())
        self.ascent = self.sums.r - m


def sparse_map(
    basis: Basis,
    X: Rows,
    y: Labels,
    *,
    tolerance: float,
    limit: int,
    m_w: Array | None = None,
    size: int = BLOCK_ROWS,
    check: Callable[[], None] = lambda: None,
) -> SparseMAP:
    """Maximise F over q(u).

    Parameters
    ----------
    basis : Basis
    X : (n, d)
    y : (n,)
        Classes, 0 or 1.
    tolerance : float
        Converged after the step that was foretold to gain less than half its square; that step squares the error.
    limit : int
        Walks over the rows at most.
    m_w : (M,), optional
        Where to start.
    size : int
        Rows in a block.
    check : callable
        Called before each walk; may raise to end training.

    Raises
    ------
    NumericalError
        The features are not finite.
    """
    signs = 2.0 * np.asarray(y) - 1.0

    def at(m: Array) -> _Point:
        return _Point(basis, X, signs, m, size=size)

    start = at(np.zeros(len(basis.Z)) if m_w is None else m_w)
    here, walks, settled = maximise_newton(start, lambda _, m: at(m), tolerance=tolerance, limit=limit, check=check)
    q = GaussianQ.of_sites(here.G.G, np.zeros(len(basis.Z))).with_mean(here.m_w)
    remainder = here.prior - float(np.trace(here.G.G))
    return SparseMAP(basis, here.value - q.log_root - 0.5 * remainder, q, here.G, walks, settled)


def sparse_map_gradient(at: SparseMAP, X: Rows, y: Labels, *, size: int = BLOCK_ROWS) -> tuple[Array, Array]:
    """Gradient of F in ``theta`` (P,) and Z (M, d), at the inner optimum; one walk over the rows.

    ∂F/∂μ = y φ/Φ and ∂F/∂s = -½, so that it is the common adjoint of all bounds in μ and s.
    """
    basis, signs = at.basis, 2.0 * np.asarray(y) - 1.0
    gradient = KernelGradient(basis, at.q)
    p = np.zeros(len(at.q.mean))
    for rows, part, T, _ in features(basis, X, size=size):
        y_part = signs[rows]
        g = y_part * mills(y_part * blas.dgemv(1.0, T, at.q.mean))
        p += blas.dgemv(1.0, T, g, trans=1)
        gradient.add(part, T, g=g, h=np.full(len(T), -0.5))
    return gradient.total(P=at.G.symmetric(-0.5), p=p, hold="v")
