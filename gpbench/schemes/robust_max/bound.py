"""The bound (15) of villacampa2017's variational rival, and its gradient in everything at once.

=========  ==============================================================================  ===========
symbol     meaning                                                                         shape
=========  ==============================================================================  ===========
C, M       classes, and inducing inputs of one of them
F          ζ Σ_i E_q log p(y_i | f_i) - Σ_c KL(q(u^c) || p(u^c))                           scalar
ζ          rows in all / rows here: 1, or n / b for a mini-batch                           scalar
m, L       of a class; whitened: q(v) = N(m, L Lᵀ), u = L_K v; else q(u) = N(m, L Lᵀ)      (M,), (M, M)
m_w, L_w   mean and root of q(v) in either form: m, L or L_K⁻¹m, L_K⁻¹L                    (M,), (M, M)
T          whitened features of a class, row t_i = L_K⁻¹ k(Z^c, x_i)                       (b, M)
μ, v       mean t_iᵀ m_w and variance κ̃_i + |L_wᵀ t_i|² of q(f_i^c): (16) and (17)         (b, C)
P          E_q of "class y_i has the largest latent value"                                 (b,)
a, b       probability of the right class, 1 - ε + ε/C, and of each other, ε/C             scalars
g, h       ζ log(a/b) times the derivatives of P in μ and v                                (b, C)
ρ          log odds of ε, its unknown                                                      (1,)
T̄, Y       adjoint of T, and T̄ᵀT with what else depends on L_K                             (b, M), (M, M)
=========  ==============================================================================  ===========

E_q log p = P log a + (1 - P) log b couples the classes; all else is one class at a time, so that a step costs C times
what one of :meth:`gpbench.model.kl_bound.KLBound.at_batch` costs. log p is no concave function: h has either sign.

The unknowns go by name: ``m0``, ``L0``, ``theta0`` and ``Z0`` are those of the first class, and so on; ``rho`` is ρ.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from gpbench.model.basis import BLOCK_ROWS, Basis, row_blocks
from gpbench.model.gaussian import GaussianQ
from gpbench.model.kl_bound import BoundAt
from gpbench.model.likelihoods.multiclass import argmax_probability
from gpbench.model.linalg import lower_ones, trmm, trsm, trsv
from gpbench.model.posterior import Latent
from gpbench.optimize.maximise import LOG_BOUND
from gpbench.optimize.unknowns import Part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import RobustMax
    from gpbench.model.rows import Array, Labels, Rows

__all__ = ["ClassSums", "RobustMaxBound", "log_odds"]

EPSILON_RANGE = 1e-9, 0.999
"""Where ε stays while it is learned."""


class RobustMaxBound:
    """The bound as a function of the unknowns of each class, and of ρ.

    Parameters
    ----------
    kernel : Kernel
        Its form, and the first values of its hyper-parameters, for each class.
    likelihood : RobustMax
        With the first ε, and the quadrature.
    Z : sequence of (M, d)
        First inducing inputs of each class; their numbers may differ.
    whitened : bool
        Whether (m, L) parametrise q(v) or q(u).
    size : int
        Rows in a block.
    """

    def __init__(
        self,
        kernel: Kernel,
        likelihood: RobustMax,
        *,
        Z: Sequence[Array],
        whitened: bool = True,
        size: int = BLOCK_ROWS,
    ) -> None:
        self._kernel, self._likelihood, self._Z = kernel, likelihood, list(Z)
        self._whitened, self._size = whitened, size
        self._first_rho = log_odds(likelihood.epsilon)

    def names(self, kind: str) -> list[str]:
        """The names of the unknowns m, L, theta or Z of all classes."""
        return [f"{kind}{c}" for c in range(len(self._Z))]

    def parts(self) -> dict[str, Part]:
        """The unknowns for a search: q(u) = p(u), the kernel's own hyper-parameters, and the first Z and ε.

        Raises
        ------
        NumericalError
            K_mm is not positive definite.
        """
        found = {}
        for c, Z in enumerate(self._Z):
            M = len(Z)
            root = np.eye(M) if self._whitened else Basis(self._kernel, Z).L
            found[f"m{c}"] = Part(value=np.zeros(M))
            found[f"L{c}"] = Part(value=np.asfortranarray(root))
            found[f"theta{c}"] = Part(value=self._kernel.theta, low=-LOG_BOUND, high=LOG_BOUND)
            found[f"Z{c}"] = Part(value=Z)
        low, high = (log_odds(end) for end in EPSILON_RANGE)
        return found | {"rho": Part(value=np.array([self._first_rho]), low=low, high=high)}

    def bases(self, at: Mapping[str, Array], *, jitters: Sequence[float] | None = None) -> list[Basis]:
        """Kernel at the inducing inputs of each class.

        Parameters
        ----------
        at : mapping
        jitters : sequence of float, optional
            Absolute jitter of each class; by default each has the least that suffices.

        Raises
        ------
        NumericalError
            A K_mm is not positive definite.
        """
        wanted = [None] * len(self._Z) if jitters is None else jitters
        return [
            Basis(
                self._kernel.with_theta(at[f"theta{c}"]), np.array(at[f"Z{c}"], order="C"), jitter=jitter, inverse=False
            )
            for c, jitter in enumerate(wanted)
        ]

    def likelihood(self, at: Mapping[str, Array]) -> RobustMax:
        """The likelihood with the ε of ``at``."""
        rho = float(at["rho"][0])
        if rho == self._first_rho:  # not the same ε but for rounding: the very one
            return self._likelihood
        return replace(self._likelihood, epsilon=1.0 / (1.0 + math.exp(-rho)))

    def latents(self, at: Mapping[str, Array], bases: Sequence[Basis]) -> tuple[Latent, ...]:
        """The latent functions; they hold copies."""
        return tuple(Latent.of(basis, self._q(at, c, basis)) for c, basis in enumerate(bases))

    def at(
        self,
        at: Mapping[str, Array],
        X: Rows,
        y: Labels,
        *,
        bases: Sequence[Basis],
        scale: float = 1.0,
        kernel_gradient: bool = True,
    ) -> BoundAt:
        """The bound and its gradient.

        Parameters
        ----------
        at : mapping
            The unknowns by name.
        X : (b, d)
        y : (b,)
        bases : sequence of Basis
            Of the hyper-parameters and inducing inputs in ``at``.
        scale : float
            ζ.
        kernel_gradient : bool
            Whether to work out the gradient in theta and Z.
        """
        likelihood = self.likelihood(at)
        sums = [
            ClassSums(basis, self._q(at, c, basis), kernel_gradient=kernel_gradient) for c, basis in enumerate(bases)
        ]
        C = len(sums)
        right, wrong = likelihood.log_levels(C)
        gain, agreed, rows_seen = scale * (right - wrong), 0.0, len(X)
        for rows in row_blocks(rows_seen, self._size):
            block = X[rows]
            mu, var = np.empty((len(block), C)), np.empty((len(block), C))
            for c, each in enumerate(sums):
                mu[:, c], var[:, c] = each.marginals(block)
            P, g, h = argmax_probability(y[rows], mu, var, rule=likelihood.rule, nodes=likelihood.nodes)
            agreed += float(P.sum())
            g *= gain
            h *= gain
            for c, each in enumerate(sums):
                each.add(block, g=g[:, c], h=h[:, c])
        value = scale * (agreed * right + (rows_seen - agreed) * wrong) - sum(each.q.kl for each in sums)
        by_rho = scale * _by_log_odds(likelihood.epsilon, C, right=agreed, wrong=rows_seen - agreed)
        gradient = {"rho": np.array([by_rho])}
        for c, each in enumerate(sums):
            gradient |= {f"{name}{c}": values for name, values in self._gradient(each).items()}
        return BoundAt(value, gradient)

    def _gradient(self, sums: ClassSums) -> dict[str, Array]:
        """A class's gradient in m, L, theta and Z, that of the KL included."""
        q, basis = sums.q, sums.basis
        mean = sums.mean - q.mean
        root = (sums.root - q.root) * lower_ones(len(mean))
        np.einsum("ii->i", root)[...] += 1.0 / np.diag(q.root)
        found: dict[str, Array] = {}
        if sums.Y is not None:
            if not self._whitened:  # m_w and L_w move with L_K
                sums.Y += root @ q.root.T + np.outer(mean, q.mean)
            dtheta, dZ = basis.gram_pullback(sums.Y)
            found |= {"theta": sums.theta + dtheta, "Z": sums.Z + dZ}
        if not self._whitened:
            mean = trsv(basis.L, mean, trans=True)
            root = trsm(basis.L, root, trans=True) * lower_ones(len(mean))
        return found | {"m": mean, "L": root}

    def _q(self, at: Mapping[str, Array], c: int, basis: Basis) -> GaussianQ:
        """q(v) of a class."""
        m, L = at[f"m{c}"], at[f"L{c}"]
        if self._whitened:
            return GaussianQ(m, L, "covariance")
        return GaussianQ(trsv(basis.L, m), trsm(basis.L, L), "covariance")


class ClassSums:
    """One class: its marginals in a block of rows, and what its gradient needs, summed up over blocks.

    Parameters
    ----------
    basis : Basis
    q : GaussianQ
        In covariance form: mean m_w, root L_w.
    kernel_gradient : bool
        Whether ``Y``, ``theta`` and ``Z`` are summed up.

    Attributes
    ----------
    mean, root : (M,), (M, M)
        Σ g t_i, and Σ 2h t_i (L_wᵀt_i)ᵀ: the data's part of the gradients in m_w and (lower triangle) in L_w.
    Y : (M, M) or None
        T̄ᵀT; what else depends on L_K is to be added.
    theta, Z : (P,), (M, d)
        The gradient that goes through K_nm and κ.
    """

    def __init__(self, basis: Basis, q: GaussianQ, *, kernel_gradient: bool) -> None:
        M = len(q.mean)
        self.basis, self.q = basis, q
        self.mean, self.root = np.zeros(M), np.zeros((M, M), order="F")
        self.Y = np.zeros((M, M), order="F") if kernel_gradient else None
        self.theta, self.Z = np.zeros(basis.kernel.theta.size), np.zeros(basis.Z.shape)
        self._T = self._TL = np.empty((0, M))

    def marginals(self, X: Array) -> tuple[Array, Array]:
        """Mean and variance (b,) of q(f) at the rows X (b, d)."""
        T, s = self.basis.whiten(X)
        TL = self.q.halfway(T)
        s += np.einsum("ij,ij->i", TL, TL)
        self._T, self._TL = T, TL
        return blas.dgemv(1.0, T, self.q.mean), s

    def add(self, X: Array, *, g: Array, h: Array) -> None:
        """Add the rows of the last ``marginals``, with the derivatives g, h (b,) in their mean and variance."""
        T, TL, twice = self._T, self._TL, (2.0 * h)[:, None]
        self.mean += blas.dgemv(1.0, T, g, trans=1)
        self.root = blas.dgemm(1.0, T * twice, TL, trans_a=1, beta=1.0, c=self.root, overwrite_c=1)
        if self.Y is None:
            return
        T_bar = trmm(self.q.root, TL, side="right", trans=True, overwrite=True)
        T_bar -= T
        T_bar *= twice
        T_bar = blas.dger(1.0, g, self.q.mean, a=T_bar, overwrite_a=1)
        self.Y = blas.dgemm(1.0, T_bar, T, trans_a=1, beta=1.0, c=self.Y, overwrite_c=1)
        dtheta, dZ = self.basis.cross_pullback(X, T_bar, h=h)
        self.theta += dtheta
        self.Z += dZ


def log_odds(epsilon: float) -> float:
    """Log odds of a probability that is neither 0 nor 1."""
    return math.log(epsilon) - math.log1p(-epsilon)


def _by_log_odds(epsilon: float, C: int, *, right: float, wrong: float) -> float:
    """Derivative of right log a + wrong log b in the log odds of ε."""
    share = 1.0 - 1.0 / C
    return (1.0 - epsilon) * (wrong - right * epsilon * share / (1.0 - epsilon * share))
