"""Whitened features of inducing inputs: the kernel bound to Z, the factor of K_mm, and moves of both.

========  ===================================================================  ========
symbol    meaning                                                              shape
========  ===================================================================  ========
Z         inducing inputs                                                      (M, d)
K_mm      k(Z, Z) with white noise and jitter on the diagonal                  (M, M)
L         its lower Cholesky factor                                            (M, M)
K_nm      k(X, Z) of a batch of rows, without white noise                      (b, M)
T         whitened features K_nm L⁻ᵀ                                           (b, M)
κ̃         diagonal of K_nn - K_nm K_mm⁻¹ K_mn, white noise included            (b,)
J         L_old⁻¹ L_new: u = L_old v_old = L_new v_new, so v_old = J v_new     (M, M)
========  ===================================================================  ========
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from gpbench.model.linalg import cholesky, inverse_lower, trmm

if TYPE_CHECKING:
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array

__all__ = ["Basis"]


class Basis:
    """A kernel at inducing inputs, ready for batches of rows; L and L⁻¹ are kept until the kernel moves.

    The explicit inverse of the triangular factor pays: T takes 57 us as a product and 111 us as a triangular solve
    (M = b = 100, AVX2), and a step with the hyper-parameters' gradient needs four more such products. The products are
    as accurate as the solves, since the jitter bounds the condition of L.

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
        self._diag = kernel.constant_diag

    def whiten(self, X: Array, *, pullback: bool = True) -> tuple[Array, Array]:
        """T (b, M) and κ̃ (b,) of rows X (b, d).

        Parameters
        ----------
        X : (b, d)
        pullback : bool
            Whether :meth:`pullback` is to follow. If not, T takes the place of K_nm, which is faster.

        Returns
        -------
        T : (b, M)
            Fortran-ordered, in a buffer that the next call reuses.
        remainder : (b,)
            κ̃, at least 0.
        """
        K = self.features.cross(X)
        if pullback:
            if self._T.shape[0] != K.shape[0]:
                self._T = np.empty(K.shape, order="F")
            T = blas.dgemm(1.0, K, self.L_inv, trans_b=1, c=self._T, overwrite_c=1)
        else:
            T = trmm(self.L_inv, K, side="right", trans=True, overwrite=True)
        projected = np.einsum("ij,ij->i", T, T)
        prior = self.kernel.diag(X) if self._diag is None else self._diag
        remainder = np.subtract(prior, projected, out=projected)
        return T, np.maximum(remainder, 0.0, out=remainder)

    def pullback(self, X: Array, *, cross: Array, gram: Array, diagonal: Array) -> Array:
        """Gradient in the kernel's ``theta``, shape (P,), from the adjoints of K_nm, K_mm and the diagonal of K_nn.

        For the rows of the last :meth:`whiten`.
        """
        gradient = self.features.pullback(cross)[0] + self.features.gram_pullback(gram)[0]
        gradient += self.kernel.diag_pullback(X, diagonal)
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
        return blas.dgemm(1.0, before, self.L)
