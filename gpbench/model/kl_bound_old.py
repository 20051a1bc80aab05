"""The bound (21) of Hensman, Matthews and Ghahramani (2015) with free Gaussian q(u), and all its gradients.

=========  ==============================================================================  ==========
symbol     meaning                                                                         shape
=========  ==============================================================================  ==========
F          ζ Σ_n E_q(f_n) log p(y_n | f_n) - KL(q(u) || p(u))                              scalar
ζ          rows in all / rows here: 1, or n / b for a mini-batch                           scalar
m, L       whitened: q(v) = N(m, L Lᵀ), u = L_K v; unwhitened: q(u) = N(m, L Lᵀ)           (M,), (M, M)
L_K        Cholesky factor of K_mm                                                         (M, M)
m_w, L_w   mean and root of q(v) in either form: m, L or L_K⁻¹m, L_K⁻¹L                    (M,), (M, M)
g, h       ζ times the derivatives of E log p(y|f) in the mean and variance of f           (b,)
P, p       Tᵀ diag(h) T and Tᵀ g over all rows, T the whitened features                    (M, M), (M,)
=========  ==============================================================================  ==========

∂F/∂m_w = p - m_w and ∂F/∂L_w = tril(2 P L_w - L_w) + diag(1/L_w); unwhitened, both times L_K⁻ᵀ. The signs of L's
diagonal are free. One walk over the rows gives the value and every gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.model.basis_old import Basis
from gpbench.model.batch import BatchBasis
from gpbench.model.flat import Layout
from gpbench.model.kernel_gradient import KernelGradient
from gpbench.model.linalg import trmm, trsm, trsv
from gpbench.model.posterior import Latent
from gpbench.model.whitened import BLOCK_ROWS, Moments, Whitened, marginals

if TYPE_CHECKING:
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods.base import Expecting
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["BoundAt", "KLBound"]


class BoundAt(NamedTuple):
    """Value and ascent gradient (size,) of the bound at a point."""

    value: float
    gradient: Array


class KLBound:
    """The bound as a function of one flat vector of unknowns.

    Parameters
    ----------
    kernel : Kernel
        Its form; the values of its hyper-parameters are where ``start`` begins.
    likelihood : Likelihood
        Log-concave, so that h is not positive.
    whitened : bool
        Whether (m, L) parametrise q(v) or q(u).
    M, d : int
        Number of inducing inputs, and of input columns.
    size : int
        Rows in a block.
    """

    def __init__(
        self, kernel: Kernel, likelihood: Expecting, *, whitened: bool, M: int, d: int, size: int = BLOCK_ROWS
    ) -> None:
        self.layout = Layout(M, kernel.theta.size, d)
        self.whitened = whitened
        self._lower = np.asfortranarray(np.tri(M))
        self._kernel, self._likelihood, self._size = kernel, likelihood, size

    def start(self, Z: Array) -> Array:
        """Unknowns (size,) with m = 0, L = I, the kernel's own hyper-parameters and inducing inputs Z (M, d)."""
        x = np.zeros(self.layout.size)
        parts = self.layout.split(x)
        np.fill_diagonal(parts.L, 1.0)
        parts.theta[:] = self._kernel.theta
        parts.Z[:] = Z
        return x

    def basis(self, x: Array, *, jitter: float | None = None) -> Basis:
        """Kernel at the inducing inputs, as x (size,) has them.

        Raises
        ------
        NumericalError
            K_mm is not positive definite.
        """
        parts = self.layout.split(x)
        return Basis(self._kernel.with_theta(parts.theta), parts.Z.copy(), jitter=jitter)

    def at(
        self, x: Array, X: Rows, y: Labels, *, basis: Basis, scale: float = 1.0, kernel_gradient: bool = True
    ) -> BoundAt:
        """The bound and its gradient.

        Parameters
        ----------
        x : (size,)
        X : (b, d)
        y : (b,)
        basis : Basis
            Of the hyper-parameters and inducing inputs in x.
        scale : float
            ζ.
        kernel_gradient : bool
            Whether to work out the gradient in theta and Z, which are two thirds of the cost; it is 0 otherwise.
        """
        m_w, L_w = self._whiten(x, basis)
        q = Whitened.of_root(m_w, L_w)
        sums = Moments(self.layout.M)
        by_kernel = KernelGradient(basis, q) if kernel_gradient else None
        value = 0.0
        for block in marginals(basis, X, q, size=self._size):
            e, g, h = self._likelihood.expectations(y[block.rows], block.mu, block.s)
            value += float(e.sum())
            g *= scale
            h *= scale
            sums.add(block.T, weights=-h, targets=g)
            if by_kernel is not None:
                by_kernel.add(block.X, block.T, TS=block.TS, g=g, h=h)
        P = sums.symmetric(-1.0)
        gradient = np.zeros(self.layout.size)
        out = self.layout.split(gradient)
        self._q_gradient(out.m, out.L, P=P, p=sums.r, m_w=m_w, L_w=L_w, basis=basis)
        if by_kernel is not None:
            out.theta[:], out.Z[:] = by_kernel.total(P=P, p=sums.r, hold="v" if self.whitened else "u")
        return BoundAt(scale * value - q.kl, gradient)

    def batch_basis(self, x: Array) -> BatchBasis:
        """As ``basis``, for ``at_batch``."""
        parts = self.layout.split(x)
        return BatchBasis(self._kernel.with_theta(parts.theta), parts.Z.copy())

    def at_batch(
        self, x: Array, X: Array, y: Labels, *, basis: BatchBasis, scale: float, kernel_gradient: bool = True
    ) -> BoundAt:
        """As ``at`` for one block of about M rows, faster: gradients go through T, without S_w and P."""
        parts, L_K = self.layout.split(x), basis.L
        m_w, L_w = (parts.m, parts.L) if self.whitened else (trsv(L_K, parts.m), trsm(L_K, parts.L))
        T, s = basis.whiten(X)
        TL = trmm(L_w, T, side="right")
        s += np.einsum("ij,ij->i", TL, TL)
        e, g, h = self._likelihood.expectations(y, blas.dgemv(1.0, T, m_w), np.maximum(s, 0.0, out=s))
        g *= scale
        h *= scale
        hT = T * (2.0 * h)[:, None]
        mean = blas.dgemv(1.0, T, g, trans=1) - m_w
        root = blas.dgemm(1.0, hT, TL, trans_a=1)
        root -= L_w
        root *= self._lower
        diagonal = np.diag(L_w)
        np.einsum("ii->i", root)[...] += 1.0 / diagonal
        gradient = np.zeros(self.layout.size)
        out = self.layout.split(gradient)
        if kernel_gradient:
            T_bar = trmm(L_w, TL, side="right", trans=True, overwrite=True)
            T_bar -= T
            T_bar *= (2.0 * h)[:, None]
            T_bar = blas.dger(1.0, g, m_w, a=T_bar, overwrite_a=1)
            extra = None
            if not self.whitened:  # m_w and L_w move with L_K
                extra = blas.dger(1.0, mean, m_w, a=blas.dgemm(1.0, root, L_w, trans_b=1), overwrite_a=1)
            out.theta[:], out.Z[:] = basis.pullback(X, T, T_bar, h=h, extra=extra)
        if not self.whitened:
            mean = trsv(L_K, mean, trans=True)
            root = trsm(L_K, root, trans=True) * self._lower
        out.m[:], out.L[:] = mean, root
        kl = 0.5 * float(np.vdot(L_w, L_w) + m_w @ m_w - len(m_w)) - float(np.log(np.abs(diagonal)).sum())
        return BoundAt(scale * float(e.sum()) - kl, gradient)

    def latent(self, x: Array, basis: Basis) -> Latent:
        """The latent function at x (size,); holds copies."""
        m_w, L_w = self._whiten(x, basis)
        return Latent(basis.kernel, basis.Z, m_w=m_w, root=L_w, form="covariance", jitter=basis.jitter)

    def _whiten(self, x: Array, basis: Basis) -> tuple[Array, Array]:
        parts = self.layout.split(x)
        if self.whitened:
            return parts.m, parts.L
        return basis.L_inv @ parts.m, blas.dgemm(1.0, basis.L_inv, parts.L)

    def _q_gradient(self, dm: Array, dL: Array, *, P: Array, p: Array, m_w: Array, L_w: Array, basis: Basis) -> None:
        """Write the gradients in m and L."""
        mean = p - m_w
        root = blas.dgemm(2.0, P, L_w, beta=-1.0, c=L_w)
        root *= self._lower
        np.einsum("ii->i", root)[...] += 1.0 / np.diag(L_w)
        if not self.whitened:
            mean = blas.dgemv(1.0, basis.L_inv, mean, trans=1)
            root = blas.dgemm(1.0, basis.L_inv, root, trans_a=1)
            root *= self._lower
        dm[:], dL[:] = mean, root
