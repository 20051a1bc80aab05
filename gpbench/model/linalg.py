"""Dense linear algebra on Fortran-ordered arrays: the jitter ladder, and BLAS and LAPACK without scipy's checks.

At the sizes of a mini-batch step (100 x 100) the checks of ``scipy.linalg.solve_triangular`` cost a third of the solve,
and a C-ordered argument costs a copy. The wrappers here call BLAS directly. They take Fortran-ordered float64 arrays;
anything else is copied first, so that results are right in any case and ``overwrite`` is only ever a permission:
always use the returned array.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.linalg import blas, lapack

from gpbench.errors import NumericalError

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = [
    "JITTER_FIRST",
    "JITTER_LAST",
    "add_to_diagonal",
    "cholesky",
    "inverse_lower",
    "inverse_of",
    "lower_ones",
    "mirror_lower",
    "potrf",
    "syrk",
    "trmm",
    "trmv",
    "trsm",
    "trsv",
]

JITTER_FIRST = 1e-6
"""First jitter, relative to the mean of the diagonal."""
JITTER_LAST = 1e-3
"""Last jitter that is tried, relative to the mean of the diagonal."""

Side = Literal["left", "right"]


def cholesky(K: Array, /, *, what: str, jitter: float | None = None) -> tuple[Array, float]:
    """Lower Cholesky factor of K + jitter I.

    The jitter starts at 1e-6 times the mean diagonal and grows tenfold, up to 1e-3 times the mean diagonal, until the
    factorisation succeeds.

    Parameters
    ----------
    K : (m, m)
        Symmetric matrix; only the lower triangle is read.
    what : str
        Names the matrix in the error message, such as ``"K_mm of x-gpc"``.
    jitter : float, optional
        Use this absolute jitter and no other (while an optimiser's line search runs, or to rebuild a stored factor).

    Returns
    -------
    L : (m, m)
        Fortran-ordered, zero above the diagonal.
    jitter : float
        The absolute amount that was added.

    Raises
    ------
    NumericalError
        K holds NaN or infinity, or no jitter allowed makes it positive definite.
    """
    scale = float(np.trace(K)) / K.shape[0]
    if not (math.isfinite(scale) and scale > 0):
        raise NumericalError(
            f"{what} has no positive, finite diagonal: expected a covariance matrix, got mean {scale:g}"
        )
    if jitter is not None:
        ladder = [jitter]
    else:
        steps = round(math.log10(JITTER_LAST / JITTER_FIRST))
        ladder = [JITTER_FIRST * 10.0**k * scale for k in range(steps + 1)]
    for amount in ladder:
        A = np.array(K, order="F")
        add_to_diagonal(A, amount)
        L, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=1)
        # OpenBLAS lets NaN pass; any NaN or infinity in the triangle reaches the last pivot
        if info == 0 and math.isfinite(L[-1, -1]):
            return L, amount
    raise NumericalError(f"{what} is not positive definite with jitter {ladder[-1]:.3g}; {_condition(K)}")


def _condition(K: Array) -> str:
    lower = np.tril(K)
    if not np.isfinite(lower).all():
        return f"{int((~np.isfinite(lower)).sum())} of its entries are NaN or infinite"
    eigenvalues = np.linalg.eigvalsh(K, UPLO="L")
    return f"its eigenvalues range from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}"


def potrf(A: Array, /, *, what: str, overwrite: bool = False) -> Array:
    """Lower Cholesky factor without jitter, for matrices whose eigenvalues are known to be away from zero.

    Parameters
    ----------
    A : (m, m)
        Symmetric positive definite, Fortran-ordered; only the lower triangle is read.
    what : str
        Names the matrix in the error message.
    overwrite : bool
        Allows A to be destroyed.

    Raises
    ------
    NumericalError
        A is not positive definite.
    """
    L: Array
    L, info = lapack.dpotrf(A, lower=1, clean=1, overwrite_a=int(overwrite))
    if info != 0 or not math.isfinite(L[-1, -1]):
        if not overwrite:
            found = _condition(A)
        else:  # A is gone; OpenBLAS lets NaN pass without a bad pivot
            found = f"pivot {info} of {len(L)} is not positive" if info != 0 else "its entries are NaN or infinite"
        raise NumericalError(f"{what} is not positive definite; {found}")
    return L


def add_to_diagonal(A: Array, amount: float) -> None:
    """Add a number to the diagonal of a square array, in place."""
    diagonal = np.einsum("ii->i", A)  # a view that can be written to, in any memory order
    diagonal += amount


def trsm(L: Array, B: Array, *, side: Side = "left", trans: bool = False, overwrite: bool = False) -> Array:
    """Solve op(L) X = B (``side="left"``) or X op(L) = B (``"right"``), L lower triangular; op(L) = Lᵀ if ``trans``."""
    return blas.dtrsm(1.0, L, B, side=int(side == "right"), lower=1, trans_a=int(trans), overwrite_b=int(overwrite))


def trmm(L: Array, B: Array, *, side: Side = "left", trans: bool = False, overwrite: bool = False) -> Array:
    """Product op(L) B (``side="left"``) or B op(L) (``"right"``), L lower triangular; ``trans`` makes op(L) Lᵀ."""
    return blas.dtrmm(1.0, L, B, side=int(side == "right"), lower=1, trans_a=int(trans), overwrite_b=int(overwrite))


def trsv(L: Array, x: Array, *, trans: bool = False, overwrite: bool = False) -> Array:
    """Solve op(L) z = x for a vector, L lower triangular."""
    return blas.dtrsv(L, x, lower=1, trans=int(trans), overwrite_x=int(overwrite))


def trmv(L: Array, x: Array, *, trans: bool = False, overwrite: bool = False) -> Array:
    """Product op(L) x with a vector, L lower triangular."""
    return blas.dtrmv(L, x, lower=1, trans=int(trans), overwrite_x=int(overwrite))


def syrk(
    A: Array,
    *,
    trans: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    C: Array | None = None,
    overwrite: bool = False,
) -> Array:
    """Lower triangle of alpha A Aᵀ + beta C, of alpha Aᵀ A + beta C if ``trans``.

    The upper triangle is that of C, or 0 without one.
    """
    if C is None:
        return blas.dsyrk(alpha, A, trans=int(trans), lower=1)
    return blas.dsyrk(alpha, A, beta=beta, c=C, trans=int(trans), lower=1, overwrite_c=int(overwrite))


def mirror_lower(A: Array, *, factor: float = 1.0) -> Array:
    """A multiple of the symmetric matrix whose lower triangle A (m, m) holds, finite above; a new array."""
    lower = A * _lower_half(len(A))
    full = np.add(lower, lower.T, out=np.empty(A.shape, order="F"))
    if factor != 1.0:
        full *= factor
    return full


@lru_cache(maxsize=8)
def _lower_half(m: int) -> Array:
    """1 below the diagonal, ½ on it, 0 above."""
    mask = np.asfortranarray(np.tri(m) - 0.5 * np.eye(m))
    mask.setflags(write=False)
    return mask


@lru_cache(maxsize=8)
def lower_ones(m: int) -> Array:
    """Ones on and below the diagonal, 0 above, (m, m); read-only."""
    ones = np.asfortranarray(np.tri(m))
    ones.setflags(write=False)
    return ones


def inverse_lower(L: Array) -> Array:
    """Inverse of a lower triangular matrix with a non-zero diagonal."""
    inverse: Array
    inverse, info = lapack.dtrtri(L, lower=1)
    if info != 0:
        raise NumericalError(f"a triangular factor is singular: pivot {info} of {L.shape[0]} is zero")
    return inverse


def inverse_of(L: Array) -> Array:
    """Inverse of L Lᵀ in the lower triangle, zero above; L (m, m) lower triangular and zero above.

    A third of the arithmetic of solving for the columns of the unit matrix.
    """
    inverse: Array
    inverse, info = lapack.dpotri(L, lower=1)
    if info != 0:
        raise NumericalError(f"a triangular factor is singular: pivot {info} of {L.shape[0]} is zero")
    return inverse
