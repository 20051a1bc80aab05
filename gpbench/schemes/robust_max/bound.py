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
ρ          log odds of ε, its unknown                                                      scalar
T̄, Y       adjoint of T, and T̄ᵀT with what else depends on L_K                             (b, M), (M, M)
=========  ==============================================================================  ===========

E_q log p = P log a + (1 - P) log b couples the classes; all else is one class at a time, so that a step costs C times
what one of :meth:`gpbench.model.kl_bound.KLBound.at_batch` costs. log p is no concave function: h has either sign.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpbench.model.batch import BatchBasis
from gpbench.model.flat import Layout
from gpbench.model.kl_bound_old import BoundAt
from gpbench.model.latent import Latent
from gpbench.model.likelihoods.multiclass_agreement import agreement
from gpbench.model.linalg import trsm, trsv
from gpbench.model.whitened import BLOCK_ROWS, row_blocks
from gpbench.schemes.robust_max.sums import ClassSums

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from gpbench.model.flat import Parts
    from gpbench.model.kernels import Kernel
    from gpbench.model.likelihoods import RobustMax
    from gpbench.model.rows import Array, Labels, Rows

    Index = npt.NDArray[np.intp]

__all__ = ["Places", "RobustMaxBound", "log_odds"]


class Places(NamedTuple):
    """Where the unknowns stand in the flat vector, by kind: indices of q, theta and Z of all classes, and of ρ."""

    q: Index
    theta: Index
    Z: Index
    rho: Index


class RobustMaxBound:
    """The bound as a function of one flat vector: the unknowns of each class in turn, and last the log odds of ε.

    Parameters
    ----------
    kernel : Kernel
        Its form; the values of its hyper-parameters are where ``start`` begins, for each class.
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
        self._layouts = [Layout(len(each), kernel.theta.size, each.shape[1]) for each in Z]
        ends = np.cumsum([layout.size for layout in self._layouts])
        self._slices = [slice(end - layout.size, end) for layout, end in zip(self._layouts, ends.tolist(), strict=True)]
        self.size = int(ends[-1]) + 1
        self.places = self._find_places()
        self._lower = {len(each): np.asfortranarray(np.tri(len(each))) for each in Z}

    def _find_places(self) -> Places:
        kinds = np.full(self.size, 3, dtype=np.int8)
        for layout, part in zip(self._layouts, self._slices, strict=True):
            kinds[part] = 2
            kinds[part][: layout.q_size] = 0
            kinds[part][layout.theta] = 1
        return Places(*(np.flatnonzero(kinds == kind) for kind in range(4)))

    def start(self) -> Array:
        """Unknowns (size,) with q(u) = p(u), the kernel's own hyper-parameters, and the first Z and ε.

        Raises
        ------
        NumericalError
            K_mm is not positive definite.
        """
        x = np.zeros(self.size)
        for parts, Z in zip(self._split(x), self._Z, strict=True):
            parts.theta[:], parts.Z[:] = self._kernel.theta, Z
            parts.L[:] = np.eye(len(Z)) if self._whitened else BatchBasis(self._kernel, Z).L
        x[-1] = self._first_rho
        return x

    def bases(self, x: Array, *, jitters: Sequence[float] | None = None) -> list[BatchBasis]:
        """Kernel at the inducing inputs of each class.

        Parameters
        ----------
        x : (size,)
        jitters : sequence of float, optional
            Absolute jitter of each class; by default each has the least that suffices.

        Raises
        ------
        NumericalError
            A K_mm is not positive definite.
        """
        wanted = [None] * len(self._Z) if jitters is None else jitters
        return [
            BatchBasis(self._kernel.with_theta(parts.theta), parts.Z.copy(), jitter=jitter)
            for parts, jitter in zip(self._split(x), wanted, strict=True)
        ]

    def likelihood(self, x: Array) -> RobustMax:
        """The likelihood with the ε of x (size,)."""
        if x[-1] == self._first_rho:  # not the same ε but for rounding: the very one
            return self._likelihood
        return replace(self._likelihood, epsilon=1.0 / (1.0 + math.exp(-x[-1])))

    def latents(self, x: Array, bases: Sequence[BatchBasis]) -> tuple[Latent, ...]:
        """The latent functions at x (size,); they hold copies."""
        found = []
        for parts, basis in zip(self._split(x), bases, strict=True):
            m_w, L_w = self._whiten(parts, basis)
            found.append(Latent(basis.kernel, basis.Z, m_w=m_w, root=L_w, form="covariance", jitter=basis.jitter))
        return tuple(found)

    def at(
        self,
        x: Array,
        X: Rows,
        y: Labels,
        *,
        bases: Sequence[BatchBasis],
        scale: float = 1.0,
        kernel_gradient: bool = True,
    ) -> BoundAt:
        """The bound and its gradient (size,).

        Parameters
        ----------
        x : (size,)
        X : (b, d)
        y : (b,)
        bases : sequence of BatchBasis
            Of the hyper-parameters and inducing inputs in x.
        scale : float
            ζ.
        kernel_gradient : bool
            Whether to work out the gradient in theta and Z; it is 0 otherwise.
        """
        likelihood = self.likelihood(x)
        sums = [
            ClassSums(basis, *self._whiten(parts, basis), kernel_gradient=kernel_gradient)
            for parts, basis in zip(self._split(x), bases, strict=True)
        ]
        C = len(sums)
        right, wrong = likelihood.log_levels(C)
        gain, agreed, rows_seen = scale * (right - wrong), 0.0, len(X)
        for rows in row_blocks(rows_seen, self._size):
            block = X[rows]
            mu, var = np.empty((len(block), C)), np.empty((len(block), C))
            for c, each in enumerate(sums):
                mu[:, c], var[:, c] = each.marginals(block)
            P, g, h = agreement(y[rows], mu, var, rule=likelihood.rule, nodes=likelihood.nodes)
            agreed += float(P.sum())
            g *= gain
            h *= gain
            for c, each in enumerate(sums):
                each.add(block, g=g[:, c], h=h[:, c])
        gradient = np.zeros(self.size)
        kl = 0.0
        for out, each in zip(self._split(gradient), sums, strict=True):
            kl += self._finish(out, each)
        value = scale * (agreed * right + (rows_seen - agreed) * wrong) - kl
        gradient[-1] = scale * _by_log_odds(likelihood.epsilon, C, right=agreed, wrong=rows_seen - agreed)
        return BoundAt(value, gradient)

    def _finish(self, out: Parts, sums: ClassSums) -> float:
        """Write a class's gradient, of the KL too; returns the KL."""
        m_w, L_w, basis = sums.m_w, sums.L_w, sums.basis
        diagonal = np.diag(L_w)
        mean = sums.mean - m_w
        root = (sums.root - L_w) * self._lower[len(m_w)]
        np.einsum("ii->i", root)[...] += 1.0 / diagonal
        if sums.Y is not None:
            if not self._whitened:  # m_w and L_w move with L_K
                sums.Y += root @ L_w.T + np.outer(mean, m_w)
            dtheta, dZ = basis.gram_pullback(sums.Y)
            out.theta[:], out.Z[:] = sums.theta + dtheta, sums.Z + dZ
        if not self._whitened:
            mean = trsv(basis.L, mean, trans=True)
            root = trsm(basis.L, root, trans=True) * self._lower[len(m_w)]
        out.m[:], out.L[:] = mean, root
        return 0.5 * float(np.vdot(L_w, L_w) + m_w @ m_w - len(m_w)) - float(np.log(np.abs(diagonal)).sum())

    def _whiten(self, parts: Parts, basis: BatchBasis) -> tuple[Array, Array]:
        """m_w and L_w."""
        if self._whitened:
            return parts.m, parts.L
        return trsv(basis.L, parts.m), trsm(basis.L, parts.L)

    def _split(self, x: Array) -> Iterator[Parts]:
        """Views of each class's unknowns."""
        for layout, part in zip(self._layouts, self._slices, strict=True):
            yield layout.split(x[part])


def log_odds(epsilon: float) -> float:
    """Log odds of a probability that is neither 0 nor 1."""
    return math.log(epsilon) - math.log1p(-epsilon)


def _by_log_odds(epsilon: float, C: int, *, right: float, wrong: float) -> float:
    """Derivative of right log a + wrong log b in the log odds of ε."""
    share = 1.0 - 1.0 / C
    return (1.0 - epsilon) * (wrong - right * epsilon * share / (1.0 - epsilon * share))
