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

from gpbench.model.basis import BLOCK_ROWS, Basis, KernelGradient, Moments, marginals
from gpbench.model.gaussian import GaussianQ
from gpbench.model.linalg import lower_ones, trmm, trsm, trsv

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods.base import Expecting
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["BoundAt", "KLBound"]


class BoundAt(NamedTuple):
    """Value of the bound, and its ascent gradient in each of m, L, theta and Z that was asked for."""

    value: float
    gradient: dict[str, Array]


class KLBound:
    """The bound as a function of m, L, theta and Z, by these names.

    Parameters
    ----------
    kernel : Kernel
        Its form, and the first values of its hyper-parameters.
    likelihood : Likelihood
        Log-concave, so that h is not positive.
    whitened : bool
        Whether (m, L) parametrise q(v) or q(u).
    size : int
        Rows in a block.
    """

    def __init__(self, kernel: Kernel, likelihood: Expecting, *, whitened: bool = True, size: int = BLOCK_ROWS) -> None:
        self.whitened = whitened
        self._kernel, self._likelihood, self._size = kernel, likelihood, size

    def start(self, Z: Array) -> dict[str, Array]:
        """Unknowns to begin with: m = 0, L = I, the kernel's own hyper-parameters, and inducing inputs Z (M, d).

        L stands with all its M² entries. Those above the diagonal are zero and their gradient is zero, and every
        optimiser here leaves such entries alone.
        """
        M = len(Z)
        return {"m": np.zeros(M), "L": np.asfortranarray(np.eye(M)), "theta": self._kernel.theta, "Z": Z}

    def basis(self, at: Mapping[str, Array], *, jitter: float | None = None, inverse: bool = True) -> Basis:
        """Kernel at the inducing inputs; ``inverse`` as for :class:`gpbench.model.basis.Basis`.

        Raises
        ------
        NumericalError
            K_mm is not positive definite.
        """
        kernel = self._kernel.with_theta(at["theta"])
        return Basis(kernel, np.array(at["Z"], order="C"), jitter=jitter, inverse=inverse)

    def q(self, at: Mapping[str, Array], basis: Basis) -> GaussianQ:
        """q(v); it holds views where the bound is whitened."""
        if self.whitened:
            return GaussianQ(at["m"], at["L"], "covariance")
        return GaussianQ(trsv(basis.L, at["m"]), trsm(basis.L, at["L"]), "covariance")

    def at(
        self,
        at: Mapping[str, Array],
        X: Rows,
        y: Labels,
        *,
        basis: Basis,
        scale: float = 1.0,
        kernel_gradient: bool = True,
    ) -> BoundAt:
        """The bound and its gradient, in one walk over blocks of rows.

        Parameters
        ----------
        at : mapping
            m (M,), L (M, M), theta (P,) and Z (M, d).
        X : (b, d)
        y : (b,)
        basis : Basis
            Of theta and Z.
        scale : float
            ζ.
        kernel_gradient : bool
            Whether to work out the gradient in theta and Z, which are two thirds of the cost.
        """
        q = self.q(at, basis)
        sums = Moments(len(q.mean))
        by_kernel = KernelGradient(basis, q) if kernel_gradient else None
        value = 0.0
        for block in marginals(basis, X, q, size=self._size, keep=kernel_gradient):
            e, g, h = self._likelihood.expectations(y[block.rows], block.mu, block.s)
            value += float(e.sum())
            g *= scale
            h *= scale
            sums.add(block.T, weights=-h, targets=g)
            if by_kernel is not None:
                by_kernel.add(block.X, block.T, g=g, h=h)
        P = sums.symmetric(-1.0)
        mean, root = sums.r - q.mean, blas.dgemm(2.0, P, q.root)
        gradient = self._q_gradient(q, basis, mean=mean, root=root)
        if by_kernel is not None:
            total = by_kernel.total(P=P, p=sums.r, hold="v" if self.whitened else "u")
            gradient["theta"], gradient["Z"] = total
        return BoundAt(scale * value - q.kl, gradient)

    def at_batch(
        self,
        at: Mapping[str, Array],
        X: Array,
        y: Labels,
        *,
        basis: Basis,
        scale: float,
        kernel_gradient: bool = True,
    ) -> BoundAt:
        """As ``at`` for one block of about M rows, faster: gradients go through T, without S and P."""
        q = self.q(at, basis)
        m_w, L_w = q.mean, q.root
        T, s = basis.whiten(X)
        TL = trmm(L_w, T, side="right")
        s += np.einsum("ij,ij->i", TL, TL)
        e, g, h = self._likelihood.expectations(y, blas.dgemv(1.0, T, m_w), s)
        g *= scale
        h *= scale
        twice = (2.0 * h)[:, None]
        mean = blas.dgemv(1.0, T, g, trans=1) - m_w
        root = blas.dgemm(1.0, T * twice, TL, trans_a=1)
        gradient = self._q_gradient(q, basis, mean=mean, root=root)
        if kernel_gradient:
            T_bar = trmm(L_w, TL, side="right", trans=True, overwrite=True)
            T_bar -= T
            T_bar *= twice
            T_bar = blas.dger(1.0, g, m_w, a=T_bar, overwrite_a=1)
            extra = None
            if not self.whitened:  # m_w and L_w move with L_K
                extra = blas.dger(1.0, mean, m_w, a=blas.dgemm(1.0, root, L_w, trans_b=1), overwrite_a=1)
            gradient["theta"], gradient["Z"] = basis.pullback(X, T, T_bar, h=h, extra=extra)
        return BoundAt(scale * float(e.sum()) - q.kl, gradient)

    def _q_gradient(self, q: GaussianQ, basis: Basis, *, mean: Array, root: Array) -> dict[str, Array]:
        """Gradients in m and L, from ∂F/∂m_w and 2 P L_w; the latter becomes ∂F/∂L_w in place."""
        root -= q.root
        root *= lower_ones(len(mean))
        np.einsum("ii->i", root)[...] += 1.0 / np.diag(q.root)
        if self.whitened:
            return {"m": mean, "L": root}
        return {
            "m": trsv(basis.L, mean, trans=True),
            "L": trsm(basis.L, root, trans=True) * lower_ones(len(mean)),
        }
