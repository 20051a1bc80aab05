"""Whitened features of inducing inputs: the kernel bound to Z, the factor of K_mm, and moves of both.

========  ===================================================================  ========
symbol    meaning                                                              shape
========  ===================================================================  ========
Z         inducing inputs                                                      (M, d)
K_mm      k(Z, Z) with white noise and jitter on the diagonal                  (M, M)
L         its lower Cholesky factor                                            (M, M)
K_nm      k(X, Z) of a batch of rows, without white noise                      (b, M)
T         whitened features K_nm L⁻ᵀ                                           (b, M)
J         L_old⁻¹ L_new: u = L_old v_old = L_new v_new, so v_old = J v_new     (M, M)
========  ===================================================================  ========
"""

from __future__ import annotations

import numpy as np

from gpbench.model.adjoints import Hold, gram_adjoint, inner_cross_adjoint
from gpbench.model.kernels import Kernel
from gpbench.model.linalg import cholesky, inverse_lower
from gpbench.model.rows import Array

__all__ = ["Basis"]


class Basis:
    """A kernel at inducing inputs, ready for batches of rows; L and L⁻¹ are kept until the kernel moves.

    The explicit inverse of the triangular factor pays: T = K_nm L⁻ᵀ takes 57 us as a product and 111 us as a
    triangular solve (M = b = 100, AVX2), and a step with the hyper-parameters' gradient needs five such products. It is
    as accurate: the error of either is bounded by the condition of L, which the jitter bounds.

    Parameters
    ----------
    kernel : Kernel
    Z : (M, d)
    jitter : float, optional
        Absolute jitter of K_mm; by default the ladder of :func:`gpbench.model.linalg.cholesky`.

    Raises
    ------
    NumericalError
        K_mm is not positive definite with the largest jitter.
    """

    def __init__(self, kernel: Kernel, Z: Array, *, jitter: float | None = None) -> None:
        self.Z = Z
        self._T = np.empty((0, Z.shape[0]), order="F")
        self._wanted_jitter = jitter
        self._set(kernel)

    def _set(self, kernel: Kernel) -> None:
        features = kernel.bind(self.Z)
        L, jitter = cholesky(features.gram(), what="K_mm", jitter=self._wanted_jitter)
        self.kernel, self.features, self.L, self.jitter = kernel, features, L, jitter
        self.L_inv = inverse_lower(L)

    def whiten(self, X: Array) -> Array:
        """Whitened features T (b, M) of rows X (b, d), Fortran-ordered, in a buffer that the next call reuses."""
        K = self.features.cross(X)
        if self._T.shape[0] != K.shape[0]:
            self._T = np.empty(K.shape, order="F")
        return np.matmul(K, self.L_inv.T, out=self._T)

    def gradient(
        self, X: Array, *, T: Array, TS: Array, g: Array, h: Array, P: Array, p: Array, m_w: Array, S_w: Array, hold: Hold
    ) -> Array:
        """Gradient of a bound in the kernel's ``theta``, for the rows of the last :meth:`whiten`; shape (P,).

        Symbols as in :mod:`gpbench.model.adjoints`; ``TS`` is T S_w and is overwritten.
        """
        cross = inner_cross_adjoint(T, TS, g=g, h=h, m_w=m_w, L_inv=self.L_inv)
        gram = gram_adjoint(P=P, p=p, m_w=m_w, S_w=S_w, L_inv=self.L_inv, hold=hold)
        gradient = self.features.pullback(cross)[0] + self.features.gram_pullback(gram)[0]
        gradient += self.kernel.diag_pullback(X, h)
        return gradient

    def move(self, kernel: Kernel) -> Array:
        """Take another kernel; returns J (M, M), lower triangular.

        Raises
        ------
        NumericalError
            K_mm of the new kernel is not positive definite; the basis is then as it was.
        """
        before = self.L_inv
        self._set(kernel)
        return np.matmul(before, self.L)
