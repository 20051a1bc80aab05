"""How much a chain of dependent draws is worth: effective sample sizes and Monte Carlo standard errors.

=======  =================================================================  =======
symbol   meaning                                                            shape
=======  =================================================================  =======
S, n     draws, quantities
x        the draws                                                          (S, n)
ρ_k      autocorrelation at lag k                                           (S, n)
τ        integrated autocorrelation time 1 + 2 Σ_{k>0} ρ_k                  (n,)
=======  =================================================================  =======

The effective sample size is S/τ and the standard error of the mean sd/√(S/τ). The sum is cut by Geyer's initial
monotone sequence (Geyer 1992, section 3.3): the sums of neighbours Γ_k = ρ_2k + ρ_{2k+1} of a reversible chain are
positive and fall, so it ends at the first that is not positive, and a rise is taken for noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

if TYPE_CHECKING:
    from gpbench.model.rows import Array

__all__ = ["autocorrelation_times", "standard_errors"]

COLUMNS = 256
"""Quantities transformed together; bounds the memory."""


def autocorrelation_times(x: Array) -> Array:
    """Integrated autocorrelation time of each column, in draws.

    Parameters
    ----------
    x : (S, n)
        At least four draws.

    Returns
    -------
    (n,)
        At least 1/log10(S), since an estimate below says more about noise than about the chain; 1 for a quantity that
        never moves, whose mean has no error.
    """
    S, n = x.shape
    tau = np.empty(n)
    for first in range(0, n, COLUMNS):
        columns = slice(first, min(first + COLUMNS, n))
        tau[columns] = _times(x[:, columns])
    return np.asarray(np.maximum(tau, 1.0 / np.log10(S)))


def standard_errors(x: Array, tau: Array) -> Array:
    """Monte Carlo standard error of each column's mean, shape (n,), from its autocorrelation time."""
    return np.asarray(x.std(axis=0, ddof=1) * np.sqrt(tau / len(x)))


def _times(x: Array) -> Array:
    S = len(x)
    centred = x - x.mean(axis=0)
    spectrum = fft.rfft(centred, n=fft.next_fast_len(2 * S, real=True), axis=0)
    covariance = fft.irfft(np.abs(spectrum) ** 2, n=fft.next_fast_len(2 * S, real=True), axis=0)[:S]
    still = covariance[0] <= S * (1e-14 * np.abs(x).max(axis=0)) ** 2
    rho = covariance / np.where(still, 1.0, covariance[0])
    pairs = rho[0 : 2 * (S // 2) : 2] + rho[1 : 2 * (S // 2) : 2]
    positive = np.logical_and.accumulate(pairs > 0.0, axis=0)
    falling = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    return np.where(still, 1.0, 2.0 * falling.sum(axis=0) - 1.0)
