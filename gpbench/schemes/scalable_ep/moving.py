"""Sites' Gaussians that stay what they are as functions of u while kernels and inducing inputs move.

========  ==================================================================================  ========
symbol    meaning                                                                             shape
========  ==================================================================================  ========
u = L v   inducing values; L the Cholesky factor of K_mm                                      (M,)
G, e      natural parameters of all sites of a latent function together, in v: Lᵀ(Σ)L, LᵀΣ    (M, M), (M,)
J         L_old⁻¹ L_new: v_old = J v_new                                                       (M, M)
========  ==================================================================================  ========

In v the sites become JᵀGJ and Jᵀe when the kernel moves: no worse conditioned than J, which is near the identity, where
the parameters of u themselves carry the condition of K_mm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from gpbench.model.batch import BatchBasis
from gpbench.model.linalg import trmm, trmv, trsm
from gpbench.model.posterior import Latent
from gpbench.schemes.scalable_ep.gaussian import SiteGaussian

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array
    from gpbench.model.whitened import Moments

__all__ = ["MovingSites", "marginals"]


class MovingSites:
    """G and e of each latent function, zero at first.

    Parameters
    ----------
    kernels, inducing : sequences
        Kernel and Z (M, d) of each latent function.
    jitters : sequence of float, optional
        Absolute jitters at first; by default the ladder.

    Attributes
    ----------
    bases : list of BatchBasis
    G : list of (M, M)
        Both triangles, Fortran-ordered.
    e : list of (M,)

    Raises
    ------
    NumericalError
        A K_mm is not positive definite.
    """

    def __init__(
        self, kernels: Sequence[Kernel], inducing: Sequence[Array], *, jitters: Sequence[float] | None = None
    ) -> None:
        wanted = [None] * len(kernels) if jitters is None else list(jitters)
        self.bases = [
            BatchBasis(kernel, Z, jitter=jitter) for kernel, Z, jitter in zip(kernels, inducing, wanted, strict=True)
        ]
        self.G = [np.zeros((len(Z), len(Z)), order="F") for Z in inducing]
        self.e = [np.zeros(len(Z)) for Z in inducing]

    @property
    def jitter(self) -> float:
        """The largest jitter of the latent functions' K_mm."""
        return max(basis.jitter for basis in self.bases)

    def move(
        self, kernels: Sequence[Kernel], inducing: Sequence[Array], *, jitters: Sequence[float] | None = None
    ) -> None:
        """Take other kernels and inducing inputs.

        Raises
        ------
        NumericalError
            A K_mm is not positive definite; everything is then as it was.
        """
        wanted = [None] * len(kernels) if jitters is None else list(jitters)
        moved = [
            BatchBasis(kernel, Z, jitter=jitter) for kernel, Z, jitter in zip(kernels, inducing, wanted, strict=True)
        ]
        for c, (old, new) in enumerate(zip(self.bases, moved, strict=True)):
            J = trsm(old.L, new.L)
            G = trmm(J, trmm(J, self.G[c], side="right", overwrite=True), trans=True, overwrite=True)
            G = np.add(G, G.T, order="F")
            G *= 0.5
            self.G[c], self.e[c] = G, trmv(J, self.e[c], trans=True)
        self.bases = moved

    def change(self, c: int, sums: Moments, *, keep: float = 1.0, take: float = 1.0) -> None:
        """Make the sites of latent function c ``keep`` times themselves plus ``take`` times the sums of some rows."""
        G = self.G[c]
        if keep != 1.0:
            G *= keep
        G += sums.symmetric(take)
        self.e[c] = keep * self.e[c] + take * sums.r

    def gaussian(self, c: int, *, share: float = 1.0) -> SiteGaussian:
        """q(v) of latent function c, or that of a share of its sites."""
        if share == 1.0:
            return SiteGaussian(self.G[c], self.e[c])
        return SiteGaussian(share * self.G[c], share * self.e[c])

    def latents(self) -> tuple[Latent, ...]:
        """The latent functions; they hold copies."""
        found = []
        for c, basis in enumerate(self.bases):
            q = self.gaussian(c)
            found.append(Latent(basis.kernel, basis.Z, q.m, q.C, form="precision", jitter=basis.jitter))
        return tuple(found)


def marginals(q: SiteGaussian, T: Array) -> tuple[Array, Array, Array]:
    """T S (b, M), and variance and mean (b,) of tᵀv for the rows t of T (b, M)."""
    TS = q.project(T)
    var = np.einsum("ij,ij->i", T, TS)
    return TS, np.maximum(var, 0.0, out=var), blas.dgemv(1.0, T, q.m)
