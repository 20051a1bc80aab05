"""q(v) of whitened inducing values from the sum of EP's sites: what scalable EP needs of it, and no more.

==========  ============================================================================  ========
symbol      meaning                                                                       shape
==========  ============================================================================  ========
G, e        natural parameters of all sites together, exp(-½ vᵀGv + eᵀv), G ≥ 0           (M, M), (M,)
C           Cholesky factor of the precision I + G                                        (M, M)
S, m        covariance (C Cᵀ)⁻¹ and mean S e                                              (M, M), (M,)
T           whitened vectors of some rows, one t_i in each row                            (b, M)
==========  ============================================================================  ========

S is kept as its lower triangle, made from a triangular solve with the identity and a rank-M update: two thirds of the
time of ``dtrtri`` and a full product at M = 200.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from gpbench.model.linalg import add_to_diagonal, potrf, syrk, trsm, trsv

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["SiteGaussian"]


class SiteGaussian:
    """q(v) for G (lower triangle) and e; both are copied.

    Attributes
    ----------
    C : (M, M)
    S : (M, M)
        Lower triangle; the upper one is zero.
    m : (M,)
    log_z : float
        Log normaliser over that of the prior: ½ eᵀm - Σ log C_jj.

    Raises
    ------
    NumericalError
        Something is not finite.
    """

    def __init__(self, G: Array, e: Array) -> None:
        precision = G.copy(order="F")
        add_to_diagonal(precision, 1.0)
        self.C = potrf(precision, what="the precision of EP's posterior", overwrite=True)
        self.S = syrk(trsm(self.C, _identity(len(e))), trans=True)
        self.m = trsv(self.C, trsv(self.C, e), trans=True)
        self.log_z = 0.5 * float(self.m @ e) - float(np.log(np.diag(self.C)).sum())

    def project(self, T: Array) -> Array:
        """T S (b, M), a new Fortran-ordered array."""
        return blas.dsymm(1.0, self.S, T, side=1, lower=1)


@lru_cache(maxsize=8)
def _identity(M: int) -> Array:
    eye = np.asfortranarray(np.eye(M))
    eye.setflags(write=False)
    return eye
