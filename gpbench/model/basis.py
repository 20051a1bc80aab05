"""The kernel bound to inducing inputs: whitened features of rows, sums over them, and the pullback of their adjoints.

=========  ==============================================================================  ========
symbol     meaning                                                                         shape
=========  ==============================================================================  ========
Z          inducing inputs                                                                 (M, d)
K_mm       k(Z, Z) with white noise and jitter on the diagonal                             (M, M)
L          its lower Cholesky factor                                                       (M, M)
K_nm       k(X, Z) of a block of rows, without white noise                                 (b, M)
T          whitened features K_nm L⁻ᵀ, row t_n                                             (b, M)
κ, κ̃       prior variances, diagonal of K_nn; and what T leaves of them, κ - |t|²           (b,)
F          an objective of T, κ and, through q(u), of L
A̅          adjoint ∂F/∂A of an array A                                                     as A
g, h       adjoints of the mean t·m and of the variance κ̃ + t·S t of q(f)                  (b,)
P, p       Tᵀ diag(h) T and Tᵀ g, summed over all rows                                     (M, M), (M,)
m, S       mean and covariance of q(v), u = L v                                            (M,), (M, M)
Y          T̅ᵀT over all rows, and what else depends on L                                   (M, M)
J          L_old⁻¹ L_new: u = L_old v_old = L_new v_new, so v_old = J v_new                (M, M)
=========  ==============================================================================  ========

K̅_nm = T̅ L⁻¹, and by the rule for the Cholesky factor (Murray 2016) K̅_mm = -½ L⁻ᵀ [F(Y) + F(Y)ᵀ] L⁻¹, F the lower
triangle with half the diagonal. A bound that sees f through the marginals of q alone, F = Σ F_n(μ_n, s_n) - KL, has
T̅ = g mᵀ + 2 diag(h) T (S - I); over all rows T̅ᵀT = m pᵀ + 2 (S - I) P, so that nothing of the size of all rows is
kept. That holds q(v). Where q(u) is held instead (L m and L S Lᵀ stand still), m and S move with L and Y gains
(p - m) mᵀ + 2 P S - S + I. At a q that is optimal both give the same gradient.

Rows are whitened, and adjoints led back, by products with L⁻¹ where a basis serves many blocks (T takes 57 us as a
product and 111 as a solve at M = b = 100, AVX2; the products are as accurate, since the jitter bounds the condition of
L), and by triangular solves where the kernel moves with each batch, which spares the inverse.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.model.linalg import add_to_diagonal, cholesky, inverse_lower, trmm, trsm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpbench.model.gaussian import GaussianQ
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array, Rows

__all__ = ["BLOCK_ROWS", "Basis", "Block", "Hold", "KernelGradient", "Moments", "features", "marginals", "row_blocks"]

BLOCK_ROWS = 1024
"""Rows in a block: its matrices at M = 100 fit the second-level cache, and calls cost nothing beside the work."""

Hold = Literal["u", "v"]
"""What stands still while the kernel moves: q(u), or q(v) of the whitened v."""


class Basis:
    """A kernel at inducing inputs.

    Parameters
    ----------
    kernel : Kernel
    Z : (M, d)
    jitter : float, optional
        Absolute jitter of K_mm; by default the ladder of :func:`gpbench.model.linalg.cholesky`.
    inverse : bool
        Whether rows are whitened by products with L⁻¹, or by triangular solves.

    Attributes
    ----------
    features : Features
        The kernel bound to Z.
    L : (M, M)
    jitter : float
        Absolute.

    Raises
    ------
    NumericalError
        K_mm is not positive definite with the largest jitter.
    """

    def __init__(self, kernel: Kernel, Z: Array, *, jitter: float | None = None, inverse: bool = True) -> None:
        self.kernel, self.Z, self._by_inverse = kernel, Z, inverse
        self.features = kernel.bind(Z)
        self._prior = kernel.constant_diag
        self.L, self.jitter = cholesky(self.features.gram(), what="K_mm", jitter=jitter)

    @cached_property
    def L_inv(self) -> Array:
        """L⁻¹ (M, M), made when it is first asked for."""
        return inverse_lower(self.L)

    def whiten(self, X: Array, *, out: Array | None = None, keep: bool = True) -> tuple[Array, Array]:
        """T (b, M) and κ̃ (b,) of rows X (b, d).

        Parameters
        ----------
        X : (b, d)
        out : (b, M), optional
            Fortran-ordered buffer for T; a new array otherwise.
        keep : bool
            Whether a pullback is to follow. If not, T takes the place of K_nm, which spares a copy.

        Returns
        -------
        T : (b, M)
            Fortran-ordered.
        remainder : (b,)
            κ̃, at least 0.
        """
        K = self.features.cross(X)
        if keep or not K.flags.f_contiguous:
            if out is None or out.shape != K.shape:
                out = np.empty(K.shape, order="F")
            out[...] = K
            K = out
        if self._by_inverse:
            T = trmm(self.L_inv, K, side="right", trans=True, overwrite=True)
        else:
            T = trsm(self.L, K, side="right", trans=True, overwrite=True)
        explained = np.einsum("ij,ij->i", T, T)
        prior = self.kernel.diag(X) if self._prior is None else self._prior
        remainder = np.subtract(prior, explained, out=explained)
        return T, np.maximum(remainder, 0.0, out=remainder)

    def pullback(
        self, X: Array, T: Array, T_bar: Array, *, h: Array, extra: Array | None = None
    ) -> tuple[Array, Array]:
        """Gradients in ``theta`` (P,) and Z (M, d), for one block of rows that is all there is of them.

        Parameters
        ----------
        X : (b, d)
            The rows that were whitened last.
        T, T_bar : (b, M)
            ``T_bar`` holds every way in which T enters, κ̃ included; it is overwritten.
        h : (b,)
            Adjoint of κ.
        extra : (M, M), optional
            Added to T̅ᵀT: w̅ wᵀ for each w = L⁻¹W whose W is what is held.
        """
        Y = blas.dgemm(1.0, T_bar, T, trans_a=1)
        if extra is not None:
            Y += extra
        dtheta, dZ = self.cross_pullback(X, T_bar, h=h)
        more_theta, more_Z = self.gram_pullback(Y)
        return dtheta + more_theta, dZ + more_Z

    def cross_pullback(self, X: Array, T_bar: Array, *, h: Array) -> tuple[Array, Array]:
        """The part of :meth:`pullback` that goes through K_nm and κ: for walks over many blocks, which sum up Y."""
        if self._by_inverse:
            K_bar = trmm(self.L_inv, T_bar, side="right", overwrite=True)
        else:
            K_bar = trsm(self.L, T_bar, side="right", overwrite=True)
        dtheta, dZ = self.features.pullback(K_bar)
        return dtheta + self.kernel.diag_pullback(X, h), dZ

    def gram_pullback(self, Y: Array, *, jitter: float = 0.0) -> tuple[Array, Array]:
        """The part that goes through L; Y (M, M), of which the lower triangle is read, is overwritten.

        ``jitter`` is for a jitter that is no constant but this multiple of the mean diagonal of k(Z, Z).
        """
        Y *= _half_lower(len(self.L))
        inner = np.add(Y, Y.T, out=np.empty(Y.shape, order="F"))
        if self._by_inverse:
            inner = trmm(self.L_inv, inner, trans=True, overwrite=True)
            inner = trmm(self.L_inv, inner, side="right", overwrite=True)
        else:
            inner = trsm(self.L, inner, trans=True, overwrite=True)
            inner = trsm(self.L, inner, side="right", overwrite=True)
        if jitter:
            add_to_diagonal(inner, jitter * float(np.trace(inner)) / len(inner))
        return self.features.gram_pullback(inner)

    def change_to(self, other: Basis) -> Array:
        """J (M, M), lower triangular, for another kernel at the same Z."""
        return trmm(self.L_inv, other.L) if self._by_inverse else trsm(self.L, other.L)


class Moments:
    """Sums over rows G = Tᵀ diag(w) T and r = Tᵀ c, with weights w that are not negative.

    Attributes
    ----------
    G : (M, M)
        Lower triangle; the upper one is zero.
    r : (M,)
    """

    def __init__(self, M: int) -> None:
        self.G = np.zeros((M, M), order="F")
        self.r = np.zeros(M)
        self._scaled = np.empty((0, M), order="F")

    def add(self, T: Array, *, weights: Array, targets: Array) -> None:
        """Add rows T (b, M) with weights w (b,) and targets c (b,)."""
        if self._scaled.shape[0] != T.shape[0]:
            self._scaled = np.empty(T.shape, order="F")
        np.multiply(T, np.sqrt(weights)[:, None], out=self._scaled)
        self.G = blas.dsyrk(1.0, self._scaled, trans=1, lower=1, beta=1.0, c=self.G, overwrite_c=1)
        self.r += blas.dgemv(1.0, T, targets, trans=1)

    def symmetric(self, factor: float) -> Array:
        """A multiple of G with both triangles, a new array."""
        full = self.G + self.G.T  # what is above G's diagonal is zero: dsyrk leaves it alone
        full.flat[:: len(full) + 1] *= 0.5
        full *= factor
        return np.asfortranarray(full)


class Block(NamedTuple):
    """Marginals of some rows, ``remainder`` being κ̃; T is a buffer that the next block overwrites."""

    rows: slice
    X: Array
    T: Array
    remainder: Array
    mu: Array
    s: Array


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Slices of ``size`` rows that cover n; the last may be shorter."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def features(
    basis: Basis, X: Rows, *, size: int = BLOCK_ROWS, keep: bool = True
) -> Iterator[tuple[slice, Array, Array, Array]]:
    """Row numbers, rows X (b, d), T (b, M) and κ̃ (b,), block by block; T is a buffer that the next overwrites.

    ``keep`` as in :meth:`Basis.whiten`.
    """
    T: Array | None = None
    for rows in row_blocks(len(X), size):
        part = X[rows]
        T, remainder = basis.whiten(part, out=T, keep=keep)
        yield rows, part, T, remainder


def marginals(basis: Basis, X: Rows, q: GaussianQ, *, size: int = BLOCK_ROWS, keep: bool = True) -> Iterator[Block]:
    """Marginals of q(f) at the rows X (n, d), block by block; memory is that of a block."""
    for rows, part, T, remainder in features(basis, X, size=size, keep=keep):
        mu, s = q.marginals(T, remainder)
        yield Block(rows, part, T, remainder, mu, s)


class KernelGradient:
    """Gradient of F = Σ_n F_n(μ_n, s_n) - KL(q(u) || p(u)) in kernel and Z, gathered over blocks of rows.

    Each block's adjoint goes to the kernel's pullback at once: K̅_nm = [2 diag(h) T, g] R with R = [S - I; mᵀ] L⁻¹, made
    once: one matrix product for a block, and one walk over its memory.

    Parameters
    ----------
    basis : Basis
    q : GaussianQ
        What the blocks' marginals come from.
    """

    def __init__(self, basis: Basis, q: GaussianQ) -> None:
        self._basis, self._q = basis, q
        M = len(q.mean)
        stacked = np.empty((M + 1, M), order="F")
        stacked[:M] = q.covariance
        add_to_diagonal(stacked[:M], -1.0)
        stacked[M] = q.mean
        self._right = trmm(basis.L_inv, stacked, side="right", overwrite=True)
        self._left = np.empty((0, M + 1), order="F")
        self._adjoint = np.empty((0, M), order="F")
        self._dtheta = np.zeros(basis.kernel.theta.size)
        self._dZ = np.zeros(basis.Z.shape)
        self._apart: Moments | None = None

    def add(self, X: Array, T: Array, *, g: Array, h: Array, h_remainder: Array | None = None) -> None:
        """Add the rows X (b, d) that the basis whitened last, with features T (b, M) and adjoints g, h (b,).

        Parameters
        ----------
        X, T, g, h
        h_remainder : (b,), optional
            Adjoint of κ̃ where it is another than that of t·S t, h ≤ h_remainder ≤ 0.
        """
        b, M = T.shape
        if len(self._left) != b:
            self._left = np.empty((b, M + 1), order="F")
            self._adjoint = np.empty((b, M), order="F")
        np.multiply(T, (2.0 * h)[:, None], out=self._left[:, :M])
        self._left[:, M] = g
        self._adjoint = blas.dgemm(1.0, self._left, self._right, c=self._adjoint, overwrite_c=1)
        if h_remainder is not None:
            self._add_apart(T, h_remainder - h)
        dtheta, dZ = self._basis.features.pullback(self._adjoint)
        self._dtheta += dtheta
        self._dtheta += self._basis.kernel.diag_pullback(X, h if h_remainder is None else h_remainder)
        self._dZ += dZ

    def _add_apart(self, T: Array, difference: Array) -> None:
        """T̅ loses 2 diag(h_remainder - h) T beside what :meth:`add` takes T to do."""
        if self._apart is None:
            self._apart = Moments(T.shape[1])
        self._apart.add(T, weights=difference, targets=difference)
        more = np.asfortranarray(T * (-2.0 * difference)[:, None])
        self._adjoint += trmm(self._basis.L_inv, more, side="right", overwrite=True)

    def total(self, *, P: Array, p: Array, hold: Hold) -> tuple[Array, Array]:
        """Gradients in ``theta`` (P,) and Z (M, d), the part of K_mm included, with q(u) or q(v) held.

        Parameters
        ----------
        P : (M, M)
            Tᵀ diag(h) T over all rows, both triangles.
        p : (M,)
            Tᵀ g over all rows.
        hold : {"u", "v"}
        """
        Y = factor_adjoint(self._q, P=P, p=p, hold=hold)
        if self._apart is not None:
            Y += self._apart.symmetric(-2.0)
        dtheta, dZ = self._basis.gram_pullback(Y)
        return self._dtheta + dtheta, self._dZ + dZ


def factor_adjoint(q: GaussianQ, *, P: Array, p: Array, hold: Hold) -> Array:
    """Y (M, M) of a bound that sees f through the marginals of q alone, a new array; arguments as in ``total``."""
    m, S = q.mean, q.covariance
    PS = blas.dgemm(2.0, P, S)
    Y = PS.T.copy(order="F")
    Y -= 2.0 * P
    Y = blas.dger(1.0, m, p, a=Y, overwrite_a=1)
    if hold == "u":
        Y += PS
        Y -= S
        add_to_diagonal(Y, 1.0)
        Y = blas.dger(1.0, p - m, m, a=Y, overwrite_a=1)
    return Y


@lru_cache(maxsize=8)
def _half_lower(M: int) -> Array:
    """-½ F as a factor for each entry."""
    mask = np.asfortranarray(-0.5 * np.tri(M) + 0.25 * np.eye(M))
    mask.setflags(write=False)
    return mask
