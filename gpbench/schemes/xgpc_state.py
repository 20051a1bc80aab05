"""The state of x-gpc: q(v) by its natural parameters, its mini-batch updates, and moves of the kernel.

Symbols as in :mod:`gpbench.schemes.xgpc`; equation numbers are those of Wenzel et al. (2019). Matrices are
Fortran-ordered and live in buffers that are reused; only lower triangles of Λ and G count.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy.linalg import blas

from gpbench.model.adjoints import buffers, cross_adjoint, gram_adjoint
from gpbench.model.basis import Basis
from gpbench.model.functions import log_cosh_half, theta_pg
from gpbench.model.latent import Latent
from gpbench.model.linalg import add_to_diagonal, inverse_lower, potrf, trsm, trsv

if TYPE_CHECKING:
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array

__all__ = ["Keep", "State", "Target"]

Keep = Literal["sites", "q"]


class Target(NamedTuple):
    """Where a batch pulls the natural parameters (12): η̂ = ζ/2 Tᵀy (M,) and Λ̂ = I + G, G = ζ Tᵀ Θ T (M, M).

    ``G`` is a buffer of the state: valid until the next target.
    """

    eta: Array
    G: Array


class State:
    """q(v) = N(Λ⁻¹η, Λ⁻¹) over the whitened v, u = L v; it starts at the prior.

    Parameters
    ----------
    kernel : Kernel
    Z : (M, d)
    jitter : float, optional
        Absolute jitter of K_mm; by default the usual ladder.

    Attributes
    ----------
    eta : (M,)
    precision : (M, M)
        Λ; its upper triangle is undefined.
    """

    def __init__(self, kernel: Kernel, Z: Array, *, jitter: float | None = None) -> None:
        M = Z.shape[0]
        self.basis = Basis(kernel, Z, jitter=jitter)
        self.eta = np.zeros(M)
        self.precision = np.asfortranarray(np.eye(M))
        self._half = np.asfortranarray(np.tril(np.ones((M, M))) - 0.5 * np.eye(M))
        self._C, self._G, self._S, self._full, *self._square = buffers(M, M, count=6)
        self._tall = buffers(0, M, count=3)

    def step(self, X: Array, y: Array, *, scale: float, rate: float) -> None:
        """Local update (11) at the current q, then a step ρ along the natural gradient (12).

        Parameters
        ----------
        X : (b, d)
        y : (b,)
            ±1.
        scale : float
            ζ = n / b.
        rate : float
            ρ in [0, 1]; 1 replaces.
        """
        T, theta, work = self._local_by_factor(X)
        np.multiply(T, np.sqrt(rate * scale * theta)[:, None], out=work)
        self.precision = blas.dsyrk(1.0, work, trans=1, lower=1, beta=1.0 - rate, c=self.precision, overwrite_c=1)
        add_to_diagonal(self.precision, rate)
        self.eta = blas.dgemv(0.5 * rate * scale, T, y, trans=1, beta=1.0 - rate, y=self.eta, overwrite_y=1)

    def target(self, X: Array, y: Array, *, scale: float) -> Target:
        """Target of a batch, as :meth:`step` moves towards; for rates that depend on it."""
        T, theta, work = self._local_by_factor(X)
        return self._pull(T, y, theta=theta, scale=scale, work=work)

    def _local_by_factor(self, X: Array) -> tuple[Array, Array, Array]:
        """T and θ(c) of rows (11), and a buffer (b, M); one factorisation and one triangular solve."""
        T, s = self.basis.whiten(X, pullback=False)
        C = self._factor()
        R, *_ = self._tall_buffers(len(T))
        np.copyto(R, T)
        R = trsm(C, R, side="right", trans=True, overwrite=True)
        mu = blas.dgemv(1.0, R, trsv(C, self.eta))
        s += np.einsum("ij,ij->i", R, R)
        s += mu * mu
        return T, theta_pg(np.sqrt(s)), R

    def target_and_gradient(self, X: Array, y: Array, *, scale: float) -> tuple[Target, Array]:
        """Target of a batch, and the gradient of (10) in the kernel's ``theta`` at the current q(u) and c; shape (P,).

        The gradient is taken before the update: a q that has seen the batch would flatter it. (With a gradient taken
        after it the prior variance ran away on magic: 8,000 against 240 after 2,000 steps of constant rate.)
        """
        T, m_w, S_w, TS, mu, c = self._local(X)
        theta = theta_pg(c)
        g = scale * (0.5 * y - theta * mu)
        h = (-0.5 * scale) * theta
        _, inner, out = self._tall
        target = self._pull(T, y, theta=theta, scale=scale, work=inner)
        P = self._symmetric(target.G, factor=-0.5)
        gram = gram_adjoint(
            P=P,
            p=blas.dgemv(1.0, T, g, trans=1),
            m_w=m_w,
            S_w=S_w,
            L_inv=self.basis.L_inv,
            hold="u",
            work=self._square,
        )
        cross = cross_adjoint(T, TS=TS, g=g, h=h, m_w=m_w, S_w=S_w, L_inv=self.basis.L_inv, work=[inner, out])
        return target, self.basis.pullback(X, cross=cross, gram=gram, diagonal=h)

    def bound(self, X: Array, y: Array, *, scale: float) -> float:
        """The bound (10) with its constants, in nats, from a batch scaled to all rows, at the best c (11)."""
        _, m_w, S_w, _, mu, c = self._local(X)
        data = float(np.sum(0.5 * y * mu - log_cosh_half(c))) - len(y) * math.log(2.0)
        log_det = 2.0 * float(np.log(np.diag(self._factor())).sum())
        kl = 0.5 * float(np.trace(S_w) + m_w @ m_w - len(m_w) + log_det)
        return scale * data - kl

    def moments(self) -> tuple[Array, Array]:
        """Mean m_w (M,) and covariance S_w (M, M) of q(v), both triangles, in a buffer."""
        C_inv = inverse_lower(self._factor())
        S_w = blas.dgemm(1.0, C_inv, C_inv, trans_a=1, c=self._S, overwrite_c=1)
        return S_w @ self.eta, S_w

    def natural_gradient(self, target: Target) -> Array:
        """Target minus current natural parameters η₁ and η₂ of q(u), shape (M + M²,), for the adaptive rate's norms.

        In u's coordinates, as the paper's code has it: there the norm follows the prior too, and the rate does not die
        down while hyper-parameters move.
        """
        L_inv = self.basis.L_inv
        difference = self._symmetric(target.G - self.precision, factor=-0.5).copy(order="F")
        add_to_diagonal(difference, -0.5)
        eta_2 = blas.dgemm(1.0, L_inv, blas.dgemm(1.0, difference, L_inv), trans_a=1)
        eta_1 = blas.dgemv(1.0, L_inv, target.eta - self.eta, trans=1)
        return np.concatenate([eta_1, eta_2.ravel(order="K")])

    def parameters(self) -> Array:
        """Mean and marginal variances of q(u), shape (2M,), whose change tells convergence."""
        L, C = self.basis.L, self._factor()
        root = trsm(C, np.array(L.T, order="F"))  # C⁻¹Lᵀ: the covariance is its transpose times itself
        return np.concatenate([L @ trsv(C, trsv(C, self.eta), trans=True), np.einsum("ij,ij->j", root, root)])

    def update(self, target: Target, *, rate: float) -> None:
        """Step ρ along the natural gradient (12): η and Λ move towards the target, which is used up."""
        self.eta *= 1.0 - rate
        self.eta += rate * target.eta
        self.precision *= 1.0 - rate
        np.multiply(target.G, rate, out=target.G)
        self.precision += target.G
        add_to_diagonal(self.precision, rate)

    def move(self, kernel: Kernel, *, keep: Keep) -> None:
        """Take another kernel.

        Parameters
        ----------
        kernel : Kernel
        keep : {"sites", "q"}
            ``"q"``: q(u) stays as it is. ``"sites"``: what the data contributed to it, Λ - I and η, stays as a function
            of u, and the prior's part becomes that of the new kernel.

        Raises
        ------
        NumericalError
            K_mm of the new kernel is not positive definite; the state is then as it was.
        """
        J = self.basis.move(kernel)
        full = self._symmetric(self.precision, factor=1.0)
        if keep == "sites":
            add_to_diagonal(full, -1.0)
        inner = blas.dgemm(1.0, full, J, c=self._square[0], overwrite_c=1)
        self.precision = blas.dgemm(1.0, J, inner, trans_a=1, c=self.precision, overwrite_c=1)
        if keep == "sites":
            add_to_diagonal(self.precision, 1.0)
        self.eta = blas.dgemv(1.0, J, self.eta, trans=1)

    def latent(self) -> Latent:
        """The latent function of this moment; holds copies."""
        C = self._factor()
        m_w = trsv(C, trsv(C, self.eta), trans=True)
        return Latent(self.basis.kernel, self.basis.Z, m_w=m_w, root=C, form="precision", jitter=self.basis.jitter)

    def _factor(self) -> Array:
        np.copyto(self._C, self.precision)
        return potrf(self._C, what="the posterior precision", overwrite=True)

    def _local(self, X: Array) -> tuple[Array, Array, Array, Array, Array, Array]:
        """T, m_w, S_w, T S_w, μ and c (11)."""
        T, s = self.basis.whiten(X)
        m_w, S_w = self.moments()
        TS, *_ = self._tall_buffers(len(T))
        TS = blas.dgemm(1.0, T, S_w, c=TS, overwrite_c=1)
        mu = T @ m_w
        s += np.einsum("ij,ij->i", T, TS)
        return T, m_w, S_w, TS, mu, np.sqrt(mu * mu + s)

    def _pull(self, T: Array, y: Array, *, theta: Array, scale: float, work: Array) -> Target:
        np.multiply(T, np.sqrt(scale * theta)[:, None], out=work)
        G = blas.dsyrk(1.0, work, trans=1, lower=1, c=self._G, overwrite_c=1)
        return Target(blas.dgemv(0.5 * scale, T, y, trans=1), G)

    def _symmetric(self, lower: Array, *, factor: float) -> Array:
        """Both triangles of a matrix that has its lower one, times a factor, in a buffer."""
        half = np.multiply(lower, self._half, out=self._square[0])
        np.add(half, half.T, out=self._full)
        if factor != 1.0:
            self._full *= factor
        return self._full

    def _tall_buffers(self, rows: int) -> list[Array]:
        if self._tall[0].shape[0] != rows:
            self._tall = buffers(rows, self._tall[0].shape[1], count=3)
        return self._tall
