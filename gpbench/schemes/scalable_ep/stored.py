"""Scalable EP on mini-batches: each site keeps the vector that it stood on when it was last updated.

========  ===================================================================================  ===========
symbol    meaning                                                                              shape
========  ===================================================================================  ===========
n, b      rows in all, and rows looked at
ν         K_mm⁻¹ k(Z, x) under the present kernel; whitened t = Lᵀν                              (M,)
w         ν as it was at the site's last update; whitened t_w = Lᵀw; zero before the first       (M,)
x         sites of all rows: scalars c₁, c₂ of each role                                       (2R, n, F)
G, e      Σ π t_w t_wᵀ and Σ b t_w over all rows                                                 (M, M), (M,)
========  ===================================================================================  ===========

Between its visits a site is the Gaussian that it was, whatever becomes of the kernel: its vector is stored, and
n F M numbers are what the method costs (villacampa2017, O(N M C)). They are kept as float64 or float32. What is added
to G is made from what is stored, so that a later subtraction takes away just that; rounding is cleared by making G and
e anew from the stored sites now and then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from gpbench.errors import NumericalError
from gpbench.model.linalg import trmm, trsm
from gpbench.model.whitened import BLOCK_ROWS, Moments, row_blocks
from gpbench.schemes.scalable_ep.adjoint import SiteGradient
from gpbench.schemes.scalable_ep.moving import MovingSites, marginals
from gpbench.schemes.scalable_ep.roles import Moved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array
    from gpbench.schemes.scalable_ep.factors import Factors
    from gpbench.schemes.scalable_ep.gaussian import SiteGaussian
    from gpbench.schemes.scalable_ep.roles import Slopes

__all__ = ["StoredEP"]


class _Seen(NamedTuple):
    """One latent function at a batch: T and T S at ν, and at the vectors w that the sites stand on."""

    T: Array
    TS: Array
    T_w: Array
    T_wS: Array


class StoredEP:
    """Sites of all rows, and the vectors that they stand on.

    Parameters
    ----------
    kernels, inducing : sequences
        Kernel and Z (M, d) of each latent function; their numbers of inducing inputs may differ.
    n : int
        Rows.
    roles : int
        R, sites of a factor.
    dtype : type
        float64 or float32, of the stored vectors.
    jitters : sequence of float, optional
        Absolute jitters at first; by default the ladder.

    Attributes
    ----------
    sites : MovingSites
    x : (2R, n, F)
    """

    def __init__(
        self,
        kernels: Sequence[Kernel],
        inducing: Sequence[Array],
        *,
        n: int,
        roles: int,
        dtype: type = np.float64,
        jitters: Sequence[float] | None = None,
    ) -> None:
        self.sites = MovingSites(kernels, inducing, jitters=jitters)
        self.x = np.zeros((2 * roles, n, len(kernels)))
        self._w: list[npt.NDArray[np.floating]] = [np.zeros((n, len(Z)), dtype=dtype) for Z in inducing]

    def look(
        self,
        rows: npt.NDArray[np.int64],
        X: Array,
        factors: Factors,
        *,
        scale: float = 1.0,
        damping: float = 1.0,
        gradient: bool = True,
    ) -> list[tuple[Array, Array]]:
        """Update the sites of some rows, and give the gradient of log Z as it was before.

        Parameters
        ----------
        rows : (b,)
            Their numbers, distinct.
        X : (b, d)
        factors : Factors
            Of these rows.
        scale : float
            n / b.
        damping : float
        gradient : bool
            Whether to work out the gradient.

        Returns
        -------
        list of (dtheta (P,), dZ (M, d))
            Of each latent function, estimated from the batch; or an empty list.

        Raises
        ------
        NumericalError
            Something is not finite, or a cavity is improper by more than rounding.
        """
        sites, F = self.sites, factors.F
        x = self.x[:, rows]
        qs = [sites.gaussian(c) for c in range(F)]
        s, h, g, var, cross, mean = (np.empty((len(X), F)) for _ in range(6))
        seen = []
        for c, (basis, q) in enumerate(zip(sites.bases, qs, strict=True)):
            T, s[:, c] = basis.whiten(X)
            T_w = self._whitened(c, self._w[c][rows])
            TS, h[:, c], g[:, c] = marginals(q, T)
            T_wS, var[:, c], mean[:, c] = marginals(q, T_w)
            cross[:, c] = np.einsum("ij,ij->i", TS, T_w)
            seen.append(_Seen(T, TS, T_w, T_wS))
        at = factors.tilt(x, s=np.maximum(s, 0.0, out=s), h=h, g=g, moved=Moved(var, cross, mean))
        target = at.target
        if not np.isfinite(target).all():
            raise NumericalError("scalable EP must stay finite; got sites that are not")
        found = []
        if gradient:
            slopes = at.slopes()
            for c, (q, each) in enumerate(zip(qs, seen, strict=True)):
                found.append(self._gradient(c, X, slopes, q=q, seen=each).total(q.S, q.m, scale=scale))
        x_new = x + damping * (target - x)
        self._replace(rows, seen, old=factors.totals(x), new=factors.totals(x_new))
        self.x[:, rows] = x_new
        return found

    def refresh(self, factors: Factors) -> None:
        """Make G and e anew from the stored sites of all rows, whose factors are given; O(F n M²)."""
        n = self.x.shape[1]
        for c, basis in enumerate(self.sites.bases):
            sums = Moments(len(basis.Z))
            for rows in row_blocks(n, BLOCK_ROWS):
                pi, b = factors.part(rows).totals(self.x[:, rows])
                sums.add(self._whitened(c, self._w[c][rows]), weights=pi[:, c], targets=b[:, c])
            self.sites.change(c, sums, keep=0.0)

    def _whitened(self, c: int, w: npt.NDArray[np.floating]) -> Array:
        """t_w (b, M) of stored vectors."""
        return trmm(self.sites.bases[c].L, np.array(w, dtype=np.float64, order="F"), side="right", overwrite=True)

    def _gradient(self, c: int, X: Array, slopes: Slopes, *, q: SiteGaussian, seen: _Seen) -> SiteGradient:
        assert slopes.chi is not None, "the factors know that sites stand on other vectors"
        total = SiteGradient(self.sites.bases[c], q.m)
        lam, xi, zeta = (values[:, c] for values in slopes[:3])
        moved = np.multiply(seen.T_wS, slopes.chi[:, c, None], out=seen.T_wS)
        total.add(X, seen.T, seen.TS, lam=lam, xi=xi, zeta=zeta, moved=moved)
        return total

    def _replace(
        self,
        rows: npt.NDArray[np.int64],
        seen: list[_Seen],
        *,
        old: tuple[Array, Array],
        new: tuple[Array, Array],
    ) -> None:
        """Take the rows' old sites, by totals, out of G and e and put the new ones in, which stand on ν."""
        for c, (T, _, T_w, _) in enumerate(seen):
            M = T.shape[1]
            gone, come = Moments(M), Moments(M)
            gone.add(T_w, weights=old[0][:, c], targets=old[1][:, c])
            w = self._w[c]
            w[rows] = trsm(self.sites.bases[c].L, T, side="right")
            T_new = T if w.dtype == np.float64 else self._whitened(c, w[rows])
            come.add(T_new, weights=new[0][:, c], targets=new[1][:, c])
            come.G -= gone.G
            come.r -= gone.r
            self.sites.change(c, come)
