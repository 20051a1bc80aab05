"""Where a search for hyper-parameters ends on the plateau of a vanished signal, and where it begins again.

==========  ===================================================================================  ========
symbol      meaning                                                                              shape
==========  ===================================================================================  ========
σ², ℓ       signal variance and length scales
F(σ², ℓ)    the objective, maximised over q; F₀ its value without any signal                     scalar
d, W        first and minus the second derivatives of log p(y | f) at f = c                      (n,)
k           the kernel for σ² = 1
==========  ===================================================================================  ========

For a small signal F = F₀ + ½ σ² Σ_ij k_ij (d_i d_j - [i = j] W_i) + O(σ⁴). With few rows that sum is often negative at
the length scales that a search begins with, the more so where constant columns make them longer (the first one is the
root of the number of inputs). Ascent then leads to σ² -> 0, where F is flat in every direction: no maximum, since F
rises again at other length scales, but log σ² and log ℓ have no slope there to follow. So a search that ends no higher
than F₀ begins anew with half of its first length scales, then a quarter, then an eighth, and the best end counts.

Of 270 problems of 15 rows under Laplace's method 14 ended on the plateau, and with this 2. Where there is no signal to
be found a search takes four times its evaluations.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gpbench.schemes.batch_settings import LOG_BOUND

if TYPE_CHECKING:
    from gpbench.model.kernels import Kernel
    from gpbench.model.rows import Array

__all__ = ["LEAST_SIGNAL", "SHORTER", "shorter", "without_signal"]

LEAST_SIGNAL = 0.01
"""Nats by which F must be above F₀: plateaus were within 0.001, and the weakest signal that was found had 0.04."""
SHORTER = (0.5, 0.25, 0.125)
"""Of the first length scales, where a search begins anew."""


def without_signal(kernel: Kernel, Z: Array) -> Kernel:
    """The kernel with its whole prior variance, the mean over Z (M, d), as white noise; without noise it has none."""
    theta = np.array(kernel.theta)
    for place, name in enumerate(kernel.names):
        if name.endswith("log_white"):
            theta[place] = min(math.log(float(np.mean(kernel.diag(Z)))), LOG_BOUND)
        elif "log_variance" in name:
            theta[place] = -LOG_BOUND
    return kernel.with_theta(theta)


def shorter(kernel: Kernel, factor: float) -> Kernel | None:
    """The kernel with its length scales times a factor; None where it has none."""
    scales = np.array(["log_lengthscale" in name for name in kernel.names])
    if not scales.any():
        return None
    return kernel.with_theta(np.where(scales, kernel.theta + math.log(factor), kernel.theta))
