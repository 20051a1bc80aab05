"""The bound that section 3.2 of Hensman, Matthews and Ghahramani (2015) abandons: its inner optimum and gradients.

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
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from gpbench.model.functions import log_ndtr, mills, probit_curvature
from gpbench.model.kernel_gradient import KernelGradient
from gpbench.model.latent import Latent
from gpbench.model.whitened import BLOCK_ROWS, Moments, Whitened, features
from gpbench.schemes.nested.inner_newton import climb_newton

if TYPE_CHECKING:
    from gpbench.model.basis_old import Basis
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["SparseMAP", "sparse_map", "sparse_map_gradient"]


@dataclass(frozen=True, eq=False)
class SparseMAP:
    """The inner optimum at one kernel and Z.

    Attributes
    ----------
    basis : Basis
    value : float
        F.
    m_w : (M,)
    G : Moments
        Of TᵀT.
    C : (M, M)
    walks : int
        Walks over the rows.
    settled : bool
        Whether Newton's method converged.
    """

    basis: Basis
    value: float
    m_w: Array
    G: Moments
    C: Array
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

    def latent(self) -> Latent:
        """The latent function with q(u)."""
        return Latent(self.basis.kernel, self.basis.Z, self.m_w, self.C, form="precision", jitter=self.basis.jitter)


class _Point:
    """The part of F that depends on m, its gradient and Hessian; one walk over the rows."""

    def __init__(self, basis: Basis, X: Rows, signs: Array, m: Array, *, size: int) -> None:
        self.m_w, self.value = m, -0.5 * float(m @ m)
        self.sums = Moments(len(m))
        self.G, self.prior = Moments(len(m)), 0.0
        for rows, part, T in features(basis, X, size=size):
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

    Raises
    ------
    NumericalError
        The features are not finite.
    """
    signs = 2.0 * np.asarray(y) - 1.0

    def at(m: Array) -> _Point:
        return _Point(basis, X, signs, m, size=size)

    start = at(np.zeros(len(basis.Z)) if m_w is None else m_w)
    here, walks, settled = climb_newton(start, lambda _, m: at(m), tolerance=tolerance, limit=limit)
    _, C = Whitened.of_sites(here.G)
    remainder = here.prior - float(np.trace(here.G.G))
    value = here.value - float(np.log(np.diag(C)).sum()) - 0.5 * remainder
    return SparseMAP(basis, value, here.m_w, here.G, C, walks, settled)


def sparse_map_gradient(at: SparseMAP, X: Rows, y: Labels, *, size: int = BLOCK_ROWS) -> tuple[Array, Array]:
    """Gradient of F in ``theta`` (P,) and Z (M, d), at the inner optimum; one walk over the rows.

    ∂F/∂μ = y φ/Φ and ∂F/∂s = -½, so that it is the common adjoint of all bounds in μ and s.
    """
    basis, signs = at.basis, 2.0 * np.asarray(y) - 1.0
    gradient = KernelGradient(basis, Whitened.of_factor(at.m_w, at.C))
    p = np.zeros(len(at.m_w))
    for rows, part, T in features(basis, X, size=size):
        y_part = signs[rows]
        g = y_part * mills(y_part * blas.dgemv(1.0, T, at.m_w))
        p += blas.dgemv(1.0, T, g, trans=1)
        gradient.add(part, T, g=g, h=np.full(len(T), -0.5))
    return gradient.total(P=at.G.symmetric(-0.5), p=p, hold="v")
